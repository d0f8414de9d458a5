// U-max (paper: Section 3.2, Algorithm 2): SGD on the double sum, with u first raised to
// log(1 + sum of exp(z_k - z_y) over the *distinct* drawn classes) whenever it is more than `delta` below (a
// class counted twice could push u past its optimum and break Lemma 5). u is projected onto [0, B_u] (Lemma
// 2), and the trainer projects W onto the ball B_W (Lemma 1). With alpha > 0 the variable is v = u + alpha
// z_y, and its interval is widened by the largest possible alpha |z_y|.
#pragma once

#include <algorithm>
#include <cmath>

#include "rule/double_sum.hpp"
#include "solve/log_sum.hpp"

namespace truemax {

class UmaxRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "umax",
      .description =
          "U-max: SGD on the double sum with u kept near its lower bound, so that gradients stay bounded.",
      .biased = false,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "n(m+1) scores, n(m+1) updates, 2nm exponentials",
      .objective = Objective::double_sum,
      .projects = true};

  UmaxRule(const RuleOptions& options, const ProblemInfo& problem)
      : delta_(options.delta), alpha_(options.double_sum_alpha) {
    const double score_bound = problem.longest_row * problem.weight_bound();
    highest_ = problem.u_bound() + alpha_ * score_bound;
    lowest_ = alpha_ == 0 ? 0 : -alpha_ * score_bound;
  }

  void step(const StepView& view, StepResult& out) const noexcept {
    for (std::size_t i = 0; i < view.rows; ++i) {
      const double* z = view.score + i * view.columns;
      const double z_y = z[view.label[i]];
      const double bound =
          log_one_plus_sum_exp(z, view.weight + i * view.columns, view.columns, z_y) + alpha_ * z_y;
      const double u = raised(out.u[i], bound);
      out.u[i] = std::clamp(u + descend_double_sum(view, out, i, alpha_, u, delta_), lowest_, highest_);
    }
  }

  // The same for one row and one class.
  bool takes_pairs() const noexcept { return alpha_ == 0; }
  void step_pairs(PairSteps& pairs, std::size_t count, double step) const noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      const double e = step * pairs.row_weight[i];
      constexpr double kCounts = 1;
      const double u =
          raised(pairs.u[i], log_one_plus_sum_exp(&pairs.score_drawn[i], &kCounts, 1, pairs.score_label[i]));
      const double gap = pairs.score_drawn[i] - (pairs.score_label[i] + u);
      const double c = e * pairs.weight[i] * std::exp(std::min(gap, delta_));
      const double rest = -e * std::expm1(std::min(-u, delta_));
      pairs.coefficient[i] = c;
      pairs.u[i] = std::clamp(u + (c - rest), lowest_, highest_);
    }
  }

 private:
  // "increase u_i" of Algorithm 2; afterwards no exponent is above delta.
  double raised(double u, double bound) const noexcept { return u < bound - delta_ ? bound : u; }

  double delta_, alpha_;
  double lowest_, highest_;
};

}  // namespace truemax
