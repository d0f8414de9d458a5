// Vanilla SGD on the double sum (paper: Section 2.2, eq:vanilla_stoch_updates), n rows and m classes a step,
// for any double sum of Appendix A. Its steps grow exponentially with the scores, so it can diverge; the
// trainer stops before a step that would overflow the weights.
#pragma once

#include <algorithm>

#include "rule/double_sum.hpp"

namespace truemax {

class VanillaRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "vanilla",
      .description =
          "SGD on the double sum; its steps grow exponentially with the scores and it can diverge.",
      .biased = false,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "n(m+1) scores, n(m+1) updates, nm exponentials",
      .objective = Objective::double_sum,
      .can_diverge = true};

  VanillaRule(const RuleOptions& options, const ProblemInfo& /*problem*/)
      : alpha_(options.double_sum_alpha) {}

  void step(const StepView& view, StepResult& out) const noexcept {
    for (std::size_t i = 0; i < view.rows; ++i) {
      out.u[i] += descend_double_sum(view, out, i, alpha_, out.u[i]);
      if (alpha_ == 0) out.u[i] = std::max(out.u[i], 0.0);  // with alpha > 0 v may be negative
    }
  }

 private:
  double alpha_;
};

}  // namespace truemax
