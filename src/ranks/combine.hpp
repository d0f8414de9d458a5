// The arithmetic of Ranks::combine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "ranks/ranks.hpp"

namespace truemax {

// to = to combined with from. Both orders of the two give the same bits.
template <class Real>
void combine_into(Combine how, std::span<const Real> from, std::span<Real> to) {
  if (how == Combine::sum)
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  else
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], from[i]);
}

}  // namespace truemax
