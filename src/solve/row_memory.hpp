// Working memory of the solvers of one row: three arrays of doubles, 64-byte aligned and padded to whole
// vectors; on the stack for up to 64 classes, else kept by the thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace truemax {

// Calls solve(memory, padded).
template <class Solve>
int with_row_memory(std::size_t classes, Solve&& solve) {
  constexpr std::size_t kWidth = 8, kFixedClasses = 64, kArrays = 3;
  const std::size_t padded = (classes + kWidth - 1) / kWidth * kWidth;
  if (padded <= kFixedClasses) {
    alignas(64) double fixed[kArrays * kFixedClasses];
    return solve(fixed, padded);
  }
  thread_local std::vector<double> large;
  if (large.size() < kArrays * padded + kWidth) large.resize(kArrays * padded + kWidth);
  const std::size_t off = reinterpret_cast<std::uintptr_t>(large.data()) / sizeof(double) % kWidth;
  return solve(large.data() + (kWidth - off) % kWidth, padded);
}

}  // namespace truemax
