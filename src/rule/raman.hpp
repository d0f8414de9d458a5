// Doubly-separable multinomial regression (Raman et al.; paper: Section 2.3 and Appendix A): the double sum
// with alpha = 1, e [v - z_y + exp(z_y - v) + sum_k o_k exp(z_k - v)]. SGD on W only; v is the row's exact
// normaliser log(sum_k exp(z_k)), which the trainer recomputes every --refresh epochs.
#pragma once

#include "rule/double_sum.hpp"

namespace truemax {

class RamanRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "raman",
      .description =
          "Raman's double sum with exact normalisers, recomputed every --refresh epochs; it can diverge.",
      .biased = false,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "n(m+1) scores, n(m+1) updates, nm exponentials; an exact pass every --refresh epochs",
      .objective = Objective::double_sum_exact,
      .exact_start = true,
      .refreshes = true,
      .can_diverge = true};

  RamanRule(const RuleOptions& /*options*/, const ProblemInfo& /*problem*/) {}

  void step(const StepView& view, StepResult& out) const noexcept {
    for (std::size_t i = 0; i < view.rows; ++i) descend_double_sum(view, out, i, 1, out.u[i]);
  }
};

}  // namespace truemax
