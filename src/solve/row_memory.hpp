// Working memory of the one-row solvers: three arrays of doubles, 64-byte aligned and padded to whole
// vectors; on the stack for up to 64 classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace truemax {

// Solvers run where nothing may throw, so reserve() allocates beforehand. Not thread-safe.
class RowMemory {
 public:
  // For up to this many classes. Untouched pages cost nothing.
  void reserve(std::size_t classes) {
    const std::size_t size = kArrays * padded(classes) + kWidth;
    if (padded(classes) <= kFixedClasses || size <= size_) return;
    memory_ = std::make_unique_for_overwrite<double[]>(size);
    size_ = size;
  }

  // Calls solve(memory, padded). Allocates only for more classes than reserved.
  template <class Solve>
  int use(std::size_t classes, Solve&& solve) {
    if (padded(classes) <= kFixedClasses) {
      alignas(64) double fixed[kArrays * kFixedClasses];
      return solve(fixed, padded(classes));
    }
    reserve(classes);
    const std::size_t off = reinterpret_cast<std::uintptr_t>(memory_.get()) / sizeof(double) % kWidth;
    return solve(memory_.get() + (kWidth - off) % kWidth, padded(classes));
  }

 private:
  static constexpr std::size_t kWidth = 8, kFixedClasses = 64, kArrays = 3;
  static std::size_t padded(std::size_t classes) { return (classes + kWidth - 1) / kWidth * kWidth; }

  std::unique_ptr<double[]> memory_;
  std::size_t size_ = 0;
};

}  // namespace truemax
