// The last layer of a network: softmax over z = W x + b with very many classes, for rows x that come from
// elsewhere. n rows share m drawn classes with weights o of mean 1, so a step costs O(n m D) for any number
// of classes, and needs no gradient of size K x D.
//
// For a row with label y, s = 1 + sum_k o_k exp(z_k - z_y) over the drawn classes k != y estimates the
// normaliser, and the row's u, an estimate of log s that is kept from visit to visit, moves towards it by the
// mirror step (solve/mirror.hpp). The gradient of the double sum at the new u has for each drawn class
//     p_k = o_k exp(z_k - z_y - u),  and  -sum_k p_k  for the label.
// forward computes scores, u and p; backward gives dx = sum_k p_k w_k - (sum_k p_k) w_y with w as forward saw
// it, and then moves W, b and u. W follows Adam with state O(K + D): running means of squares for each class
// and for each column, and momentum only along the mean of x. There the gradients of all rows add up, so
// steps without momentum make the scores of a class rise and fall with each batch that has its label or not.
// A class that is not touched counts as one with gradient 0.
//
// Without u (no index, or a row's first visit), u = log s of the same draw: as in sampled softmax, that is
// biased. If all classes are drawn, u = log s is exact, and so is the gradient.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/team.hpp"
#include "core/types.hpp"
#include "draw/draw.hpp"
#include "layer/arrays.hpp"
#include "layer/pass.hpp"
#include "weights/dense.hpp"

namespace truemax {

enum class LayerDraw {
  uniform,  // distinct classes
  counts,   // by given counts of the classes
  recent    // by the labels of the last steps
};

struct LayerOptions {
  std::size_t classes = 0, features = 0;
  std::size_t drawn = 1024;  // m; at least K: all classes
  LayerDraw draw = LayerDraw::uniform;
  std::vector<double> counts = {};  // [K], of LayerDraw::counts
  double rho = 0.1;                 // how fast u forgets; infinity: u is only what the draw says
  std::size_t threads = 1;

  void check() const;        // throws UserError
  void check_sizes() const;  // all but the counts
};

// One call at a time: others wait.
class Layer {
 public:
  explicit Layer(LayerOptions options);
  ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const LayerOptions& options() const { return options_; }
  bool complete() const { return options_.drawn >= options_.classes; }

  // Writes the loss of each row [rows], 0 for ignored ones, and returns what backward needs. Changes none of
  // the arrays. Throws UserError for targets, indices and numbers that cannot be used.
  std::unique_ptr<LayerPass> forward(const LayerArrays& arrays, const LayerBatch& batch, float* loss);
  // `gradient` [rows]: of the caller's objective in each row's loss; dx [rows][D], each row dx_stride numbers
  // after the one before, or null. W moves along the gradient of sum_i gradient_i loss_i / sum_i
  // |gradient_i|: a common factor has no effect on it. Rows whose gradient is 0 change nothing. Once for each
  // pass. Throws with all arrays unchanged: UserError unless they have the shapes of those of forward;
  // DivergenceError if W would leave float32.
  void backward(const LayerArrays& arrays, LayerPass& pass, const float* gradient, double step, float* dx,
                std::ptrdiff_t dx_stride);
  // Keeps the memory of a pass for later ones.
  void recycle(std::unique_ptr<LayerPass> pass);

  // The exact log-loss of each row over all classes; 0 for ignored ones.
  void nll(const LayerArrays& arrays, const LayerBatch& batch, double* loss);
  // The `top` most probable classes of each row, most probable first, with their exact log-probabilities.
  void top(const LayerArrays& arrays, const LayerBatch& batch, std::size_t top, std::int64_t* classes,
           double* log_probability);

 private:
  void draw(const LayerArrays& arrays);

  LayerOptions options_;
  std::unique_ptr<Draw> draw_;  // null if all classes are drawn, or by recent labels
  std::mutex in_use_;
  LayerWork work_;
  std::vector<std::uint64_t> words_;
  std::vector<ClassId> drawn_;
  std::vector<double> drawn_weight_;
  std::vector<std::unique_ptr<LayerPass>> spare_;
  Team team_;
};

}  // namespace truemax
