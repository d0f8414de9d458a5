// BSGD, mini-batch log-sum-exp (Hu et al.): SGD on  log(1 + sum_k o_k exp(z_k - z_y))  over the drawn
// classes, the logarithm of an unbiased estimate of the sum. That is the loss of importance sampling with its
// correction by log q (rule/importance.hpp), and the step is the same one; the name is kept because the
// literature compares under it. Biased: the logarithm of an unbiased estimate is not one; the bias vanishes
// as m grows.
#pragma once

#include "rule/importance.hpp"

namespace truemax {

class BsgdRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "bsgd",
      .description = "Mini-batch log-sum-exp: the same step as importance with its correction by log q.",
      .biased = true,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "n(m+1) scores, n(m+1) updates, n(m+1) exponentials",
      .objective = Objective::sampled_softmax};

  BsgdRule(const RuleOptions& /*options*/, const ProblemInfo& /*problem*/) {}

  void step(const StepView& view, StepResult& out) const noexcept {
    for (std::size_t i = 0; i < view.rows; ++i) descend_sampled_softmax(view, out, i, nullptr);
  }
};

}  // namespace truemax
