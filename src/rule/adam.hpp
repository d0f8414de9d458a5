// Adam over all classes: the gradient is that of exact softmax SGD, C[i,k] = e (1[k = y] - p_k), and the lane
// (train/adam_lane.hpp) moves every weight by its own step (solve/adam.hpp) instead of adding C x.
#pragma once

#include "rule/exact.hpp"

namespace truemax {

class AdamRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "adam",
      .description =
          "Adam over all classes, for few classes and features: a step of its own for each weight; "
          "m is not used.",
      .biased = false,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "nK scores, nK exponentials, all of W",
      .objective = Objective::softmax,
      .whole_set = true,
      .by_weight = true};

  AdamRule(const RuleOptions& options, const ProblemInfo& problem) : exact_(options, problem) {}

  void step(const StepView& view, StepResult& out) const noexcept { exact_.step(view, out); }

 private:
  ExactRule exact_;
};

}  // namespace truemax
