// The ridge of a run's steps. A step gets its rows' share of the total row weight, so that an epoch has all
// of the ridge even if its last step has fewer rows. The run minimises the mean over rows of w_i (loss_i +
// mu/(2 sum w) |W|^2). An equal ridge for every row would have the same optimum, but more noise there: the
// two gradients would cancel less well in rows with a large weight.
#pragma once

#include <cstdint>
#include <vector>

#include "data/data_view.hpp"
#include "draw/draw.hpp"
#include "rule/rule.hpp"
#include "solve/ridge.hpp"
#include "train/problem.hpp"
#include "train/recipe.hpp"
#include "weights/weights.hpp"

namespace truemax {

class Ridge {
 public:
  // `draw`: null if every step has all classes.
  Ridge(const DataView& data, const Recipe& recipe, const ProblemInfo& problem, const Draw* draw);

  bool on() const { return mu_ > 0; }
  // Whether there is an intercept outside the ridge.
  bool leaves_intercept() const { return free_intercept_; }
  bool includes_intercept() const { return with_intercept_; }

  // The ridge on a class with beta 1 in a step with this total row weight.
  double strength(double step, double row_weight) const {
    return step * mu_ / total_weight_ * (row_weight / rows_per_step_);
  }
  // mu of the mean loss: the loss of all rows divided by their weight has the ridge of_mean_loss()/2 |W|^2.
  double of_mean_loss() const { return mu_ / total_weight_; }
  // beta by class for a step of `rows` rows; empty for a draw that learns: its weights are used instead.
  const std::vector<double>& beta(std::size_t rows) const {
    return static_cast<double>(rows) < rows_per_step_ && !last_beta_.empty() ? last_beta_ : beta_;
  }

  // Multiplies the weights of a block, with their intercepts if the ridge includes them. `least`: the
  // smallest scale of the block before, or a smaller number; 0 if it is not known.
  void shrink(Weights& w, std::size_t block, double factor, double least = 0) const {
    w.scale_block(block, factor, least);
    if (with_intercept_) w.scale_block_intercept(block, factor);
  }

  // The blocks that rows remember have changed. For steps of one row.
  void follow(const DataView& data, const Draw& draw);

  static std::uint64_t bytes(const Recipe& recipe, const Problem& problem);

 private:
  double mu_, total_weight_, rows_per_step_;
  bool free_intercept_, with_intercept_;
  std::vector<double> beta_;
  std::vector<double> last_beta_;  // for a last step with fewer rows; else empty
};

}  // namespace truemax
