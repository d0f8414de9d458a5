// Log-sum-exp from score differences only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "core/host_device.hpp"

namespace truemax {

// log(1 + sum of exp(z[j] - base) over the entries of positive weight).
TRUEMAX_HOST_DEVICE inline double log_one_plus_sum_exp(const double* z, const double* weight,
                                                       std::size_t count, double base) {
  double highest = 0;
  for (std::size_t j = 0; j < count; ++j)
    if (weight[j] > 0) highest = std::max(highest, z[j] - base);
  double sum = 0;
  for (std::size_t j = 0; j < count; ++j)
    if (weight[j] > 0) sum += std::exp(z[j] - base - highest);
  return highest == 0 ? std::log1p(sum) : highest + std::log(std::exp(-highest) + sum);
}

// log of the sum of weight[j] exp(z[j] - base) over the entries of positive weight; -infinity if there is
// none.
TRUEMAX_HOST_DEVICE inline double log_weighted_sum_exp(const double* z, const double* weight,
                                                       std::size_t count, double base) {
  double highest = -std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < count; ++j)
    if (weight[j] > 0) highest = std::max(highest, z[j] - base);
  double sum = 0;
  for (std::size_t j = 0; j < count; ++j)
    if (weight[j] > 0) sum += weight[j] * std::exp(z[j] - base - highest);
  return highest + std::log(sum);  // no class: both terms are -infinity
}

// 1/(1 + exp(-t)), without overflow and to full relative precision.
TRUEMAX_HOST_DEVICE inline double logistic(double t) {
  if (t >= 0) return 1 / (1 + std::exp(-t));
  const double e = std::exp(t);
  return e / (1 + e);
}

// log(1 + exp(t)), without overflow and to full relative precision.
TRUEMAX_HOST_DEVICE inline double softplus(double t) {
  return t > 0 ? t + std::log1p(std::exp(-t)) : std::log1p(std::exp(t));
}

}  // namespace truemax
