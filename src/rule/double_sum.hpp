// Gradient descent on one row's term of the double sums of Appendix A,
//     e [ v - alpha z_y + exp(alpha z_y - v) + sum_k o_k exp(z_k - (1 - alpha) z_y - v) ],
// with v the estimate of log(1 + sum_{k != y} exp(z_k - z_y)) + alpha z_y: alpha = 0 is the paper's eq:f (v
// is u), alpha = 1 Raman's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "rule/rule.hpp"

namespace truemax {

// Writes the coefficients of row i, minus the gradient in the scores at v; returns minus the gradient in v.
// `most`: an upper bound on the exponents, enforced because rounding of huge scores could exceed it.
inline double descend_double_sum(const StepView& view, const StepResult& out, std::size_t i, double alpha,
                                 double v, double most = std::numeric_limits<double>::infinity()) noexcept {
  const auto [z, o, coefficient, y, e] = row_of(view, out, i);
  const double base = (1 - alpha) * z[y] + v;
  double sum = 0;
  for (std::size_t k = 0; k < view.columns; ++k) {
    const double c = o[k] == 0 ? 0.0 : e * o[k] * std::exp(std::min(z[k] - base, most));
    coefficient[k] = -c;
    sum += c;
  }
  const double rest = -e * std::expm1(std::min(alpha * z[y] - v, most));  // e (1 - exp(alpha z_y - v))
  coefficient[y] = alpha * rest + (1 - alpha) * sum;
  return sum - rest;
}

// The logarithm of the smallest positive weight; 0 if there is none.
inline double log_least_weight(const double* weight, std::size_t count) noexcept {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < count; ++k)
    if (weight[k] > 0) least = std::min(least, weight[k]);
  return std::isfinite(least) ? std::log(least) : 0;
}

}  // namespace truemax
