// Logarithms of sums of exponentials, from differences only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace truemax {

// log(1 + sum_j exp(z[j] - base)).
inline double log_one_plus_sum_exp(const double* z, std::size_t count, double base) {
  double highest = 0;
  for (std::size_t j = 0; j < count; ++j) highest = std::max(highest, z[j] - base);
  if (highest == 0) {
    double sum = 0;
    for (std::size_t j = 0; j < count; ++j) sum += std::exp(z[j] - base);
    return std::log1p(sum);
  }
  double sum = std::exp(-highest);
  for (std::size_t j = 0; j < count; ++j) sum += std::exp(z[j] - base - highest);
  return highest + std::log(sum);
}

}  // namespace truemax
