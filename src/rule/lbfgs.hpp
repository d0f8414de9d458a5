// L-BFGS over all rows and classes: the gradient is that of exact softmax SGD over all rows,
// C[i,k] = e (1[k = y] - p_k), and the lane (train/lbfgs_lane.hpp) moves W along the direction of
// solve/lbfgs.hpp instead of adding C x.
#pragma once

#include "rule/exact.hpp"

namespace truemax {

class LbfgsRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "lbfgs",
      .description =
          "L-BFGS over all rows and classes, for few rows, classes and features: one step an epoch; step, n "
          "and m are not used.",
      .biased = false,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "NK scores, NK exponentials, W 80 times",
      .objective = Objective::softmax,
      .whole_set = true,
      .by_weight = true,
      .all_rows = true};

  LbfgsRule(const RuleOptions& options, const ProblemInfo& problem) : exact_(options, problem) {}

  void step(const StepView& view, StepResult& out) const noexcept { exact_.step(view, out); }

 private:
  ExactRule exact_;
};

}  // namespace truemax
