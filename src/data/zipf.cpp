#include "data/zipf.hpp"

#include <cmath>

#include "core/random.hpp"

namespace truemax {

ZipfTable::ZipfTable(std::uint64_t n, double skew) : own_(n), other_(n) {
  double sum = 0;
  for (std::uint64_t i = 0; i < n; ++i) sum += own_[i] = std::pow(static_cast<double>(i + 1), -skew);
  std::vector<std::uint32_t> poor, rich;  // cells with less, and with more, than a full share
  for (std::uint64_t i = 0; i < n; ++i) {
    own_[i] *= static_cast<double>(n) / sum;
    other_[i] = static_cast<std::uint32_t>(i);
    (own_[i] < 1.0 ? poor : rich).push_back(static_cast<std::uint32_t>(i));
  }
  while (!poor.empty() && !rich.empty()) {
    const std::uint32_t p = poor.back(), r = rich.back();
    poor.pop_back();
    other_[p] = r;
    own_[r] -= 1.0 - own_[p];
    if (own_[r] < 1.0) {
      rich.pop_back();
      poor.push_back(r);
    }
  }
  // The rest differ from a full cell only by rounding.
  for (const std::uint32_t i : poor) own_[i] = 1.0;
  for (const std::uint32_t i : rich) own_[i] = 1.0;
}

std::uint32_t ZipfTable::draw(std::uint64_t cell, std::uint64_t share) const {
  const std::uint64_t i = uniform_below(cell, own_.size());
  return uniform_unit(share) < own_[i] ? static_cast<std::uint32_t>(i) : other_[i];
}

}  // namespace truemax
