// One batch on its way through a layer: what forward found and backward needs. It has copies of the rows x
// and of the weights of its classes: W may move, and x may be overwritten, between the two.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/team.hpp"
#include "core/types.hpp"
#include "layer/arrays.hpp"
#include "layer/rows.hpp"
#include "weights/dense.hpp"

namespace truemax {

// Memory of the products, used by one pass at a time.
struct LayerWork {
  DenseProduct scores, to_rows, to_classes;
  std::vector<float> dx;              // [rows][D]
  std::vector<float> gradient;        // [touched][D]
  std::vector<float> bias_gradient;   // [touched]
  std::vector<float> largest;         // by touched class
  std::vector<float> mean, square;    // [D]: means over rows of x, sums over classes of squared gradients
  std::vector<std::uint32_t> places;  // a hash table from class to column, while a pass is prepared
};

// What a pass needs to know of its layer.
struct PassSetup {
  std::size_t classes, features;
  double rho;
  bool complete;  // all classes are drawn
};

class LayerPass {
 public:
  // Checks and copies the rows that count.
  void take_rows(const PassSetup& setup, const LayerArrays& arrays, const LayerBatch& batch, Team& team);
  // Scores of the drawn classes, new u and losses. `drawn`: distinct.
  void score(const LayerArrays& arrays, std::span<const ClassId> drawn, std::span<const double> weights,
             LayerWork& work, Team& team);
  void losses(float* out) const;
  // Throws UserError unless these arrays have the shapes of those that forward saw.
  void require_same_shapes(const LayerArrays& arrays) const;
  // The first half of backward changes nothing of the caller's: gradients, and whether the step can be taken.
  // False if all gradients are 0.
  bool differentiate(const LayerArrays& arrays, const float* gradient, double step, float* dx,
                     std::ptrdiff_t dx_stride, LayerWork& work, Team& team);
  // The second half: W, b, u.
  void move(const LayerArrays& arrays, double step, LayerWork& work, Team& team);

  // Labels of the rows that moved something.
  template <class Take>
  void each_label(const Take& take) const {
    for (std::size_t i = 0; i < label_.size(); ++i)
      if (share_[i] != 0) take(touched_[label_[i]]);
  }
  std::size_t rows() const { return all_rows_; }

 private:
  const float* x_row(std::size_t i) const { return rows_.x.data() + i * setup_.features; }
  const float* w_row(std::size_t j) const { return w_.data() + j * setup_.features; }
  void find_touched(std::span<const ClassId> drawn, LayerWork& work);
  void gather(const LayerArrays& arrays, LayerWork& work, Team& team);
  void find_direction(const LayerArrays& arrays);
  void keep_columns(const LayerArrays& arrays, LayerWork& work) const;
  void require_room_to_move(const LayerArrays& arrays, double step, LayerWork& work, Team& team) const;

  PassSetup setup_{};
  LayerArrays seen_;  // of forward; only for its shapes
  std::size_t all_rows_ = 0;
  bool used_ = false;
  LayerRows rows_;
  std::vector<float> direction_;  // [D]: the mean of x so far with length 1, or 0
  std::vector<float> of_column_;  // [D]: how much further than others the numbers of a column move
  // By row that counts:
  std::vector<std::uint32_t> label_;  // place of its label in touched_
  std::vector<double> u_, factor_;    // u: of earlier visits, then the new one; factor: p = factor * p_
  std::vector<float> of_label_;       // what the label loses, the sum of p
  std::vector<double> share_;         // of the row in the gradient of W
  // By touched class: the drawn ones, then the labels that were not drawn.
  std::size_t drawn_ = 0;
  std::vector<ClassId> touched_;
  std::vector<float> w_, bias_;  // [touched][D], [touched]
  std::vector<float> offset_;    // [drawn]: intercept + log of the draw weight
  std::vector<float> p_;         // [rows][drawn]
};

}  // namespace truemax
