#include "draw/alias.hpp"

#include <cmath>

namespace truemax {

AliasTable::AliasTable(std::span<const double> probability) : cells_(probability.size()) {
  const std::size_t n = probability.size();
  std::vector<double> left(n);  // probability left of each outcome, in cells
  std::vector<std::uint32_t> small, large;
  for (std::size_t i = 0; i < n; ++i) {
    left[i] = probability[i] * static_cast<double>(n);
    (left[i] < 1 ? small : large).push_back(static_cast<std::uint32_t>(i));
  }
  while (!small.empty() && !large.empty()) {
    const std::uint32_t less = small.back(), more = large.back();
    small.pop_back();
    cells_[less] = {static_cast<std::uint64_t>(std::ldexp(left[less], 64)), more};
    left[more] -= 1 - left[less];
    if (left[more] >= 1) continue;
    large.pop_back();
    small.push_back(more);
  }
  // The rest fill a cell, up to rounding.
  for (const auto* rest : {&small, &large})
    for (const std::uint32_t i : *rest) cells_[i] = {0, i};
}

std::vector<double> mixed_probabilities(std::span<const double> mass, double power, double uniform_share) {
  const double largest = mass.empty() ? 0 : *std::max_element(mass.begin(), mass.end());
  const auto count = static_cast<double>(mass.size());
  std::vector<double> q(mass.size());
  double sum = 0;
  // Relative to the largest, no power can overflow. Without any mass, all are equal.
  for (std::size_t i = 0; i < q.size(); ++i)
    sum += q[i] = largest > 0 ? std::pow(mass[i] / largest, power) : 1.0;
  for (double& v : q) v = (1 - uniform_share) * (v / sum) + uniform_share / count;
  return q;
}

WeightedDraws::WeightedDraws(std::vector<double> probability, std::size_t draws)
    : probability_(std::move(probability)), table_(probability_), draws_(outcomes() == 0 ? 0 : draws) {}

double WeightedDraws::inclusion(std::size_t i) const {
  return -std::expm1(static_cast<double>(draws_) * std::log1p(-std::min(probability_[i], 1.0)));
}

}  // namespace truemax
