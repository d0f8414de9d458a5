// Implicit SGD (paper: Section 3.1, Algorithm 1): the proximal point of one term of the double sum
//     f_ik(u, W) = N (u + exp(-u) + (K-1) exp(x.(w_k - w_y) - u)) + ridge,     eq:stochastic_f,
// that is, the argmin of  2 eta f_ik(theta) + |theta - theta_old|^2. One row, one class; the draw's weight o
// stands for (K-1), a row weight multiplies the row's loss.
#pragma once

#include "rule/rule.hpp"
#include "solve/implicit.hpp"

namespace truemax {

class ImplicitRule {
 public:
  static constexpr MethodInfo kInfo{
      "implicit", "Implicit SGD: the exact proximal step on one row and one class; stable at any step size.",
      false,      1,
      1,          "2 scores, 2 updates, one scalar root"};

  explicit ImplicitRule(const RuleOptions& /*options*/) {}

  void step(const StepView& v, StepResult& out) const noexcept {
    const double r_k = v.ridge == nullptr ? 1.0 : v.ridge[0], r_y = v.ridge == nullptr ? 1.0 : v.ridge[1];
    ImplicitProblems p = kNoProblems;
    p.e[0] = v.step * v.row_weight[0];
    p.o[0] = v.weight[0];
    p.gap[0] = v.score[0] / r_k - v.score[1] / r_y;
    p.gamma[0] = 1 / (v.gram[0] * (1 / r_k + 1 / r_y));  // eq:gamma
    p.u[0] = out.u[0];
    solve_implicit(p, 1);
    out.u[0] = p.u[0];
    const double c =
        p.gamma[0] * p.a[0];  // eq:implicit_single_class_w_update; the division by r is the trainer's
    out.coefficient[0] = -c;
    out.coefficient[1] = c;
  }

  void step_pairs(PairSteps& pairs, std::size_t count, double step) const noexcept {
    ImplicitProblems p = kNoProblems;
    for (std::size_t i = 0; i < count; ++i) {
      p.e[i] = step * pairs.row_weight[i];
      p.o[i] = pairs.weight[i];
      p.gap[i] = pairs.score_drawn[i] - pairs.score_label[i];
      p.gamma[i] = 1 / (pairs.squared_norm[i] * 2);
      p.u[i] = pairs.u[i];
    }
    solve_implicit(p, count);
    for (std::size_t i = 0; i < count; ++i) {
      pairs.u[i] = p.u[i];
      pairs.coefficient[i] = p.gamma[i] * p.a[i];
    }
  }
};

}  // namespace truemax
