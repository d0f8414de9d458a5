// The largest of many numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace truemax {

// The places of the k largest of n numbers and of those that equal the k-th, appended to `out` in rising
// order; returns the k-th. None is NaN; 1 <= k <= n.
float places_of_largest(const float* z, std::size_t n, std::size_t k, std::vector<std::uint32_t>& out);

}  // namespace truemax
