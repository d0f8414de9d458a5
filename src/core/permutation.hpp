// A random order of n things without memory: at(i) for i = 0 ... n - 1 is every number below n once. A
// Feistel network over the next even number of bits; what falls outside goes round again, less than four
// times on average. Nearly as good as a shuffle for visiting rows, and any position can be asked for.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace truemax {

class RandomPermutation {
 public:
  // n >= 1.
  TRUEMAX_HOST_DEVICE RandomPermutation(std::uint32_t n, std::uint64_t key) : n_(n), half_(1) {
    while (half_ < 16 && (std::uint64_t{1} << (2 * half_)) < n) ++half_;
    for (int r = 0; r < kRounds; ++r) {
      key += 0x9E3779B97F4A7C15ULL;
      std::uint64_t z = key;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
      key_[r] = static_cast<std::uint32_t>((z ^ (z >> 31)) >> 16);
    }
  }

  TRUEMAX_HOST_DEVICE std::uint32_t at(std::uint32_t i) const {
    do i = once(i);
    while (i >= n_);
    return i;
  }

 private:
  static constexpr int kRounds = 4;

  TRUEMAX_HOST_DEVICE std::uint32_t once(std::uint32_t i) const {
    const std::uint32_t mask = (1U << half_) - 1;
    std::uint32_t left = i >> half_, right = i & mask;
    for (const std::uint32_t key : key_) {
      std::uint32_t h = (right ^ key) * 0x85EBCA6BU;
      h = (h ^ (h >> 13)) * 0xC2B2AE35U;
      const std::uint32_t next = left ^ ((h ^ (h >> 16)) & mask);
      left = right;
      right = next;
    }
    return (left << half_) | right;
  }

  std::uint32_t n_;
  int half_;  // bits of a half
  std::uint32_t key_[kRounds];
};

}  // namespace truemax
