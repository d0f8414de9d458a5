// SOX (Wang and Yang, arXiv 2202.12396): for each row a running mean of the normaliser,
//     exp(u_new) = (1 - g) exp(u) + g s,   s = 1 + sum_k o_k exp(z_k - z_y),
// with a fixed rate g; then an SGD step on W along the double sum (eq:f) at the new u. A class's share
// o_k exp(z_k - z_y - u_new) is at most 1/g. Biased: u_new and the classes come from the same draw, so the
// fixed point is off the softmax optimum, by less the smaller g is.
#pragma once

#include <algorithm>
#include <cmath>

#include "rule/double_sum.hpp"
#include "solve/log_sum.hpp"

namespace truemax {

class SoxRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "sox",
      .description =
          "SOX: a running mean of the normaliser at a fixed rate, then SGD on W; the bias falls with it.",
      .biased = true,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "n(m+1) scores, n(m+1) updates, 2nm exponentials",
      .objective = Objective::double_sum,
      .exact_start = true,
      .u_rate = true};

  SoxRule(const RuleOptions& options, const ProblemInfo& /*problem*/)
      : log_rate_(std::log(options.sox_rate)), log_rest_(std::log1p(-options.sox_rate)) {}

  void step(const StepView& view, StepResult& out) const noexcept {
    for (std::size_t i = 0; i < view.rows; ++i) {
      const StepRow row = row_of(view, out, i);
      const double log_sum = log_weighted_sum_exp(row.score, row.weight, view.columns, row.score[row.label]);
      // A rate of 1 discards the old u: log_rest_ is -infinity.
      const double old = log_rest_ + out.u[i], fresh = log_rate_ + softplus(log_sum);
      out.u[i] = std::max(std::max(old, fresh) + std::log1p(std::exp(-std::abs(old - fresh))), 0.0);
      // A share is at most 1/g; rounding of huge scores could exceed it.
      descend_double_sum(view, out, i, 0, out.u[i], -log_rate_ - log_least_weight(row.weight, view.columns));
    }
  }

 private:
  double log_rate_, log_rest_;  // log g, log(1 - g)
};

}  // namespace truemax
