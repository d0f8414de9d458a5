// One-versus-each (Titsias; the paper's OVE): SGD on sum_{k != y} log(1 + exp(z_k - z_y)), a bound of the
// softmax log-loss, over the drawn classes with their weights ((K-1)/m for uniform ones). Biased: its optimum
// is not that of softmax.
#pragma once

#include "rule/rule.hpp"
#include "solve/log_sum.hpp"

namespace truemax {

class OneVsEachRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "ove",
      .description = "One-versus-each: SGD on a pairwise bound of the log-loss.",
      .biased = true,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "n(m+1) scores, n(m+1) updates, nm exponentials",
      .objective = Objective::one_vs_each};

  OneVsEachRule(const RuleOptions& /*options*/, const ProblemInfo& /*problem*/) {}

  void step(const StepView& view, StepResult& out) const noexcept {
    for (std::size_t i = 0; i < view.rows; ++i) {
      const auto [z, o, c, y, e] = row_of(view, out, i);
      double sum = 0;
      for (std::size_t k = 0; k < view.columns; ++k) {
        const double pull = o[k] == 0 ? 0.0 : e * o[k] * logistic(z[k] - z[y]);
        c[k] = -pull;
        sum += pull;
      }
      c[y] = sum;
    }
  }
};

}  // namespace truemax
