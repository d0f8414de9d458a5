// W(e^t): the w > 0 with w + log(w) = t, the principal Lambert function of exp(t), computed from t, so that
// exp never overflows. Relative error below 5e-15 for every finite t above -708 (tested against 50-digit
// values); below, the true value is denormal and is rounded to a denormal or to 0.
#pragma once

#include <cmath>

#include "core/host_device.hpp"

namespace truemax {

// One step of Fritsch, Shafer and Crowley (1973) from a guess w > 0: quartic convergence.
TRUEMAX_HOST_DEVICE inline double refine_lambert_w_exp(double t, double w) {
  const double residual = t - w - std::log(w);
  const double p = 1 + w;
  const double q = 2 * p * (p + (2.0 / 3.0) * residual);
  return w * (1 + residual / p * (q - residual) / (q - 2 * residual));
}

TRUEMAX_HOST_DEVICE inline double lambert_w_exp(double t) {
  if (t < -18) {
    // w = e^t (1 - w + ...): two terms of the series are exact to the last bit here.
    const double e = std::exp(t);
    return e * (1 - e);
  }
  if (t > 1e10) return t - std::log(t);  // the next term, log(t)/t, is below the last bit
  // Initial guesses within 7%; two refinements then reach the last bits.
  double w;
  if (t < 1) {
    const double e = std::exp(t);
    w = e * (1 + (4.0 / 3.0) * e) / (1 + e * (7.0 / 3.0 + (5.0 / 6.0) * e));
  } else if (t < 2.5) {
    w = 1 + (t - 1) * (0.5 + (t - 1) * 0.0625);  // Taylor at t = 1, where w = 1
  } else {
    const double log_t = std::log(t);
    w = t - log_t + log_t / t;
  }
  w = refine_lambert_w_exp(t, w);
  return refine_lambert_w_exp(t, w);
}

}  // namespace truemax
