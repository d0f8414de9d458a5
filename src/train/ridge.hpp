// The ridge of a run's steps. A step's ridge is that of its rows, their share of all row weight: an epoch
// then has all of it, also where its last step has fewer rows, and what is minimised is the mean over rows of
// w_i (loss_i + mu/(2 sum w) |W|^2). An equal ridge for every row would have the same optimum, but there,
// where the two gradients cancel in the mean, they would cancel less well in a row that weighs more.
#pragma once

#include <cstdint>
#include <vector>

#include "data/data_view.hpp"
#include "draw/draw.hpp"
#include "rule/rule.hpp"
#include "solve/ridge.hpp"
#include "train/options.hpp"

namespace truemax {

class Ridge {
 public:
  // `draw`: null where every step has all classes.
  Ridge(const DataView& data, const TrainOptions& options, const ProblemInfo& problem, const Draw* draw);

  bool on() const { return mu_ > 0; }
  // The intercept is outside the ridge.
  bool leaves_intercept() const { return free_intercept_; }
  bool includes_intercept() const { return with_intercept_; }

  // The ridge of a step of so much row weight on a class of beta 1.
  double strength(double step, double row_weight) const {
    return step * mu_ / total_weight_ * (row_weight / rows_per_step_);
  }
  // beta by class of a step of so many rows; empty where a draw learns, whose draw weights take its place.
  const std::vector<double>& beta(std::size_t rows) const {
    return static_cast<double>(rows) < rows_per_step_ && !last_beta_.empty() ? last_beta_ : beta_;
  }

  static std::uint64_t bytes(const DataView& data, const TrainOptions& options);

 private:
  double mu_, total_weight_, rows_per_step_;
  bool free_intercept_, with_intercept_;
  std::vector<double> beta_;
  std::vector<double> last_beta_;  // of the last step of an epoch where it has fewer rows; else empty
};

}  // namespace truemax
