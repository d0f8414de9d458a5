// Arrays that start at a cache line.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace truemax {

// For std::vector: starts at a cache line, so that no vector of numbers lies across two, and threads that
// have different lines of it do not disturb each other.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}  // NOLINT(google-explicit-constructor): as the standard asks

  T* allocate(std::size_t n) {
    if (n > static_cast<std::size_t>(-1) / 2 / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(::operator new(n * sizeof(T), kLine));
  }
  void deallocate(T* start, std::size_t /*n*/) { ::operator delete(start, kLine); }
  bool operator==(const LineAllocator&) const { return true; }
};
template <class T>
using LineVector = std::vector<T, LineAllocator<T>>;

}  // namespace truemax
