// The softplus bound of the log-sum (Bouchard, 2007; Gladin et al., arXiv 2509.24894): SGD in W and u on
//     u + (1/b) [ log(1 + b exp(-u)) + sum_k o_k log(1 + b exp(z_k - z_y - u)) ],
// an upper bound of the softmax log-loss at b = 1 (b: --softplus-bend), and the double sum (eq:f) as b goes
// to 0. The gradient in a score is at most o_k/b. Biased: its optimum over u and W is not that of softmax. u
// may be negative: for a row that the model is sure of, the optimum of the bound is.
#pragma once

#include <cmath>

#include "rule/rule.hpp"
#include "solve/log_sum.hpp"

namespace truemax {

class SoftplusRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "softplus",
      .description =
          "SGD on the softplus bound of the log-sum (Bouchard's at --softplus-bend 1): bounded gradients.",
      .biased = true,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "n(m+1) scores, n(m+1) updates, n(m+1) exponentials",
      .objective = Objective::softplus_bound,
      .exact_start = true,
      .signed_u = true};

  SoftplusRule(const RuleOptions& options, const ProblemInfo& /*problem*/)
      : bend_(options.softplus_bend), log_bend_(std::log(options.softplus_bend)) {}

  void step(const StepView& view, StepResult& out) const noexcept {
    for (std::size_t i = 0; i < view.rows; ++i) {
      const auto [z, o, c, y, e] = row_of(view, out, i);
      const double shift = log_bend_ - out.u[i], pull = e / bend_;
      double sum = 0;
      for (std::size_t k = 0; k < view.columns; ++k) {
        const double part = o[k] == 0 ? 0.0 : pull * o[k] * logistic(z[k] - z[y] + shift);
        c[k] = -part;
        sum += part;
      }
      c[y] = sum;
      out.u[i] += sum + pull * logistic(shift) - e;
    }
  }

 private:
  double bend_, log_bend_;
};

}  // namespace truemax
