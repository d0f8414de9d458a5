// SCENT (Wei et al., arXiv 2602.02877): for each row a mirror step of u,
//     exp(u_new) = (1 + rho s) / (rho + exp(-u)),   s = 1 + sum_k o_k exp(z_k - z_y),
// where s estimates the optimal exp(u) without bias from the drawn classes; then an SGD step on W along the
// double sum (eq:f) at the new u. A class's share o_k exp(z_k - z_y - u_new) is at most 1 + exp(-u)/rho, so
// steps are bounded, but can still be large. W's step uses a u moved by the same draw, so with a fixed rho
// the fixed point is slightly off the softmax optimum. By default rho falls with the step: rho_t = rho
// step_t/step_0.
#pragma once

#include <algorithm>
#include <cmath>

#include "rule/double_sum.hpp"
#include "rule/mirror_rate.hpp"
#include "solve/mirror.hpp"

namespace truemax {

class ScentRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "scent",
      .description =
          "SCENT: a mirror step for u, then SGD on W; unbiased in the limit as rho falls with the step.",
      .biased = false,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "n(m+1) scores, n(m+1) updates, 2nm exponentials",
      .objective = Objective::double_sum,
      .exact_start = true,
      .u_rate = true};

  ScentRule(const RuleOptions& options, const ProblemInfo& /*problem*/) : rho_(options) {}

  void step(const StepView& view, StepResult& out) const noexcept {
    const double rho = rho_.at(view);
    for (std::size_t i = 0; i < view.rows; ++i) {
      const StepRow row = row_of(view, out, i);
      const double log_sum = log_weighted_sum_exp(row.score, row.weight, view.columns, row.score[row.label]);
      // The bound on a share; rounding of huge scores could exceed it.
      const double log_most = softplus(-out.u[i] - std::log(rho));
      out.u[i] = std::max(Mirror(out.u[i], rho).from_log_sum(log_sum), 0.0);
      descend_double_sum(view, out, i, 0, out.u[i], log_most - log_least_weight(row.weight, view.columns));
    }
  }

 private:
  MirrorRate rho_;
};

}  // namespace truemax
