// Stochastic composition optimisation (paper: Appendix C; Wang et al.): L(W) = sum_i log(1 + v_i),
// v_i = sum_{k != y} exp(x.(w_k - w_y)), with a running value of v_i per row and smoothed weights s_k:
//     w_k <- w_k - e o_k exp(x.(s_k - s_y)) / (1 + v_i) x,    w_y <- w_y + the same, summed,
//     v_i <- (1 - b) v_i + b sum_k o_k exp(x.(s_k - s_y)),    s <- (1 - b) s + b w   after every step, all
//     classes.
// b = min(1, running-rate times (step_t/step_0)^(4/5)) falls more slowly than the step, as in their analysis.
// A row's u holds log(1 + v_i). The trainer stores s as the difference s - w, which decays lazily.
#pragma once

#include <algorithm>
#include <cmath>

#include "rule/rule.hpp"

namespace truemax {

class CompositionRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "composition",
      .description = "Stochastic composition optimisation with smoothed weights; it can diverge.",
      .biased = false,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "2n(m+1) scores, 2n(m+1) updates, 2nm exponentials",
      .objective = Objective::double_sum_exact,
      .exact_start = true,
      .has_companion = true,
      .can_diverge = true};

  CompositionRule(const RuleOptions& options, const ProblemInfo& /*problem*/) : rate_(options.running_rate) {}

  // b: the share of the way that the smoothed weights move towards W after a step.
  double smoothing(const StepView& view) const { return std::min(1.0, rate_ * std::pow(view.decayed, 0.8)); }

  void step(const StepView& view, StepResult& out) const noexcept {
    const double b = smoothing(view);
    for (std::size_t i = 0; i < view.rows; ++i) {
      const double* s = view.smoothed + i * view.columns;
      const auto [z, o, c, y, e] = row_of(view, out, i);
      const double u = out.u[i];
      double sum = 0, total = 0;
      for (std::size_t k = 0; k < view.columns; ++k) {
        const double share = o[k] == 0 ? 0.0 : o[k] * std::exp(s[k] - s[y] - u);
        c[k] = -e * share;
        sum += e * share;
        total += share;
      }
      c[y] = sum;
      // 1 + v_new = (1 - b)(1 + v) + b (1 + sum): relative to 1 + v = exp(u)
      out.u[i] = std::max(u + std::log((1 - b) + b * (std::exp(-u) + total)), 0.0);
    }
  }

 private:
  double rate_;
};

}  // namespace truemax
