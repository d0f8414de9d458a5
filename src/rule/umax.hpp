// U-max (paper: Section 3.2, Algorithm 2): SGD on the double sum over m drawn classes, with u first raised to
// log(1 + sum of exp(z_k - z_y) over the *distinct* drawn classes) whenever it lies `delta` below it (a class
// counted twice there could push u past its optimum and break Lemma 5). u is then projected on [0, infinity).
#pragma once

#include <algorithm>
#include <cmath>

#include "rule/rule.hpp"
#include "solve/log_sum.hpp"

namespace truemax {

class UmaxRule {
 public:
  static constexpr MethodInfo kInfo{"umax",
                                    "U-max: SGD on the double sum with u kept near its lower bound, so that "
                                    "gradients stay bounded.",
                                    false,
                                    1,
                                    kAnyNumber,
                                    "m+1 scores, m+1 updates, m exponentials"};

  explicit UmaxRule(const RuleOptions& options) : delta_(options.delta) {}

  void step(const StepView& v, StepResult& out) const noexcept {
    const double z_y = v.score[v.drawn];
    const double e = v.step * v.row_weight[0];
    double u = out.u[0];
    const double bound = log_one_plus_sum_exp(v.score, v.drawn, z_y);
    if (u < bound - delta_) u = bound;  // "increase u_i"
    double sum = 0;
    for (std::size_t j = 0; j < v.drawn; ++j) {
      // z_k - z_y - u <= delta, so nothing here overflows.
      const double c = e * v.weight[j] * std::exp(v.score[j] - z_y - u);
      out.coefficient[j] = -c;
      sum += c;
    }
    out.coefficient[v.drawn] = sum;
    out.u[0] = std::max(0.0, u + e * std::expm1(-u) + sum);  // u - e (1 - exp(-u)) + sum, projected
  }

 private:
  double delta_;
};

}  // namespace truemax
