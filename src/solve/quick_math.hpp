// exp and log of one double for latency-bound solvers: inlined, a few nanoseconds, nine digits. Use the
// standard library where full precision matters.
#pragma once

#include <bit>
#include <cstdint>

#include "core/host_device.hpp"

namespace truemax {

// log(x) of a normal x > 0, within 2e-9 (relative near 1).
TRUEMAX_HOST_DEVICE inline double quick_log(double x) {
  constexpr std::uint64_t kRootOfHalf = 0x3FE6A09E667F3BCD;
  constexpr int kMantissa = 52;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto exponent = static_cast<std::int64_t>(bits - kRootOfHalf) >> kMantissa;
  const double m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(exponent) << kMantissa));
  // m lies in [sqrt(1/2), sqrt(2)): |q| < 0.172.
  const double q = (m - 1) / (m + 1), s = q * q;
  const double series = (1 + s * (1.0 / 3)) + s * s * (0.2 + s * (1.0 / 7 + s * (1.0 / 9)));
  return static_cast<double>(exponent) * 0.69314718055994531 + 2 * q * series;
}

// log(1 + r) for |r| <= 1/8 within 1e-8 |r|, without a division.
TRUEMAX_HOST_DEVICE inline double quick_log1p(double r) {
  const double s = r * r;
  const double low = (1 - r * 0.5) + s * (1.0 / 3 - r * 0.25);
  const double high = (0.2 - r * (1.0 / 6)) + s * (1.0 / 7 - r * 0.125);
  return r * (low + s * s * high);
}

// exp(t) with relative error below 1e-8; 0 below -708, exp(708) above 708.
TRUEMAX_HOST_DEVICE inline double quick_exp(double t) {
  if (t < -708) return 0;
  if (t > 708) t = 708;
  constexpr double kShift = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  const double shifted = t * 1.4426950408889634 + kShift;
  const double r =
      (t - (shifted - kShift) * 0.693147180369123816) - (shifted - kShift) * 1.90821492927058770e-10;
  const double s = r * r;
  const double low = (1 + r) + s * (0.5 + r * (1.0 / 6));
  const double high = (1.0 / 24 + r * (1.0 / 120)) + s * (1.0 / 720 + r * (1.0 / 5040));
  const auto power = (std::bit_cast<std::uint64_t>(shifted) + 1023) << 52;
  return (low + s * s * high) * std::bit_cast<double>(power);
}

}  // namespace truemax
