// W: the block matrix [K/16 blocks][D features][16 classes], float32, 64-byte aligned. One touched weight
// costs one cache line, and a line holds the same feature of 16 classes that lie side by side by falling
// label frequency. Only this folder knows the layout. Padding lanes of the last block stay zero and are
// masked wherever they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "core/huge_pages.hpp"
#include "core/types.hpp"

namespace truemax {

inline constexpr std::size_t kLanes = 16;  // classes in a block: the floats of a cache line

class Weights {
 public:
  Weights() = default;
  Weights(std::size_t classes, std::size_t features, bool with_intercept);

  std::size_t classes() const { return classes_; }
  std::size_t features() const { return features_; }
  std::size_t blocks() const { return (classes_ + kLanes - 1) / kLanes; }
  bool has_intercept() const { return !intercept_.empty(); }

  float* block(std::size_t b) { return buffer_.data() + b * features_ * kLanes; }
  const float* block(std::size_t b) const { return buffer_.data() + b * features_ * kLanes; }
  // The weight of feature 0 of class k; feature f lies kLanes * f further on.
  float* lane(ClassId k) { return block(k / kLanes) + k % kLanes; }
  const float* lane(ClassId k) const { return block(k / kLanes) + k % kLanes; }
  std::span<float> intercept() { return intercept_; }  // padded to whole blocks; empty without intercept
  std::span<const float> intercept() const { return intercept_; }

  void copy_class(ClassId k, std::span<float> out) const;  // out: D
  void set_class(ClassId k, std::span<const float> in);    // in: D
  double largest() const;  // the largest absolute weight; infinite if any weight is not finite

  static std::uint64_t bytes_needed(std::uint64_t classes, std::uint64_t features);  // saturates

 private:
  std::size_t classes_ = 0, features_ = 0;
  HugeBuffer buffer_;
  std::vector<float> intercept_;
};

}  // namespace truemax
