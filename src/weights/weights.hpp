// W: the block matrix [K/16 blocks][D features][16 classes], float32, 64-byte aligned. Touching one weight
// costs one cache line, which holds the same feature of 16 classes of similar label frequency. Only this
// folder knows the layout. Padding lanes of the last block stay zero and are masked wherever they are read.
//
// Ridge and projections multiply whole classes, which must not cost O(D), so the true weights of class k are
// scale(k) times those in memory. Scaling must be enabled first; without it every scale is 1 and costs
// nothing. The intercept is never scaled.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/csr.hpp"
#include "core/huge_pages.hpp"
#include "core/line_vector.hpp"
#include "core/state_stream.hpp"
#include "core/types.hpp"
#include "weights/block_share.hpp"

namespace truemax {

inline constexpr std::size_t kLanes = kBlockClasses;  // the floats of a cache line

class Weights {
 public:
  Weights() = default;
  Weights(std::size_t classes, std::size_t features, bool with_intercept);

  std::size_t classes() const { return classes_; }
  std::size_t features() const { return features_; }
  std::size_t blocks() const { return (classes_ + kLanes - 1) / kLanes; }
  bool has_intercept() const { return with_intercept_; }
  // Of one of several ranks: which classes of the whole model these are. Null: all of them. Everything else
  // here, and all kernels, number the classes of these weights from 0.
  const BlockShare* share() const { return share_.get(); }
  const std::shared_ptr<const BlockShare>& shared_share() const { return share_; }
  void set_share(std::shared_ptr<const BlockShare> share) { share_ = std::move(share); }

  float* block(std::size_t b) { return buffer_.data() + b * features_ * kLanes; }
  const float* block(std::size_t b) const { return buffer_.data() + b * features_ * kLanes; }
  // The weight of feature 0 of class k; feature f is kLanes * f further on.
  float* lane(ClassId k) { return block(k / kLanes) + k % kLanes; }
  const float* lane(ClassId k) const { return block(k / kLanes) + k % kLanes; }
  std::span<float> intercept() { return intercept_; }  // padded to whole blocks; empty without intercept
  std::span<const float> intercept() const { return intercept_; }
  double intercept_of(ClassId k) const {  // 0 without
    return has_intercept() ? static_cast<double>(intercept_[k]) : 0.0;
  }
  std::uint64_t bytes() const { return memory().size_bytes(); }  // of the matrix

  void allow_scaling();
  bool scaled() const { return !scale_.empty(); }
  double scale(ClassId k) const { return scale_.empty() ? 1.0 : common_scale_ * scale_[k]; }
  // Call before using class k: folds a scale that common factors made too small into memory, which is rare.
  void settle(ClassId k) {
    if (scale(k) < kLeastScale) fold(k);
  }
  void scale_class(ClassId k, double factor);  // w_k *= factor, 0 <= factor <= 1
  // All classes of a block at once, and their smallest scale. `least`: their smallest scale before, or a
  // smaller number; 0 if it is not known.
  void scale_block(std::size_t b, double factor) { scale_block(b, factor, 0); }
  void scale_block(std::size_t b, double factor, double least);
  double least_scale(std::size_t b) const;
  // And their intercepts, which other threads may have changed.
  void prefetch_scales(std::size_t b) const {
    constexpr std::size_t kOfLine = 64 / sizeof(double);
    if (scaled())
      for (std::size_t k = b * kLanes; k < std::min(classes_, (b + 1) * kLanes); k += kOfLine)
        __builtin_prefetch(&scale_[k]);
    if (has_intercept()) __builtin_prefetch(&intercept_[b * kLanes]);
  }
  void fold_block(std::size_t b);  // multiplies their scales into memory: O(D)
  // For threads that share a block (weights/block_part.hpp): the scale without the common factor, and numbers
  // in memory of the features from ... end.
  double own_scale(ClassId k) const { return scale_[k]; }
  const double* own_scales(std::size_t b) const { return &scale_[b * kLanes]; }  // of a whole block
  void set_own_scale(ClassId k, double scale) { scale_[k] = scale; }
  void multiply_features(ClassId k, double factor, std::size_t from, std::size_t end);
  // Numbers in memory are weights divided by their scale: a smaller scale could overflow float32.
  static constexpr double kLeastScale = 1e-15;
  void scale_block_intercept(std::size_t b, double factor) {
    for (std::size_t k = b * kLanes; k < std::min(classes_, (b + 1) * kLanes); ++k)
      scale_intercept(static_cast<ClassId>(k), factor);
  }
  void scale_intercept(ClassId k, double factor) {  // applied at once; does nothing without intercept
    if (has_intercept()) intercept_[k] = static_cast<float>(static_cast<double>(intercept_[k]) * factor);
  }
  void scale_all(double factor);  // W *= factor, 0 < factor <= 1
  // A factor of all scales, which may be changed for a while.
  double common_scale() const { return common_scale_; }
  void set_common_scale(double scale) { common_scale_ = scale; }
  // Multiplies all scales into memory: the numbers are those that copy_class gives, and scaling ends.
  void fold_all();
  // W = 0, as after construction, reusing the memory: fresh memory costs more than clearing it.
  void clear();
  // Touches every page of new weights, which are zeros, on several threads: the first touch of a page costs
  // far more than later ones.
  void clear_pages(std::size_t threads) { fresh_pages().clear(threads); }
  // For W = 0: they stay where they are when the weights move.
  FreshPages fresh_pages() { return {buffer_.data(), memory().size_bytes()}; }
  void clear_class(ClassId k);                                    // w_k = 0
  void reset_scale(ClassId k) { scale_[k] = 1 / common_scale_; }  // for a class that is all zeros

  // All numbers in memory and their scales, to be saved and restored unchanged.
  struct Scales {
    LineVector<double> of_class;  // empty without scaling
    double common = 1;
  };
  std::span<float> memory() { return {buffer_.data(), blocks() * features_ * kLanes}; }
  std::span<const float> memory() const { return {buffer_.data(), blocks() * features_ * kLanes}; }
  Scales scales() const { return {scale_, common_scale_}; }
  void set_scales(const Scales& scales) {
    scale_ = scales.of_class;
    common_scale_ = scales.common;
  }

  // Saves and loads all of it, bit for bit.
  void write(StateSink& to) const;
  void read(StateSource& from);

  void copy_class(ClassId k, std::span<float> out) const;  // out: D
  void set_class(ClassId k, std::span<const float> in);    // in: D
  // All classes of a block that was not scaled; in: [kLanes][D], of which the rows of classes are used.
  void set_block(std::size_t b, std::span<const float> in);
  // The largest absolute number in memory, intercepts included; infinite if any is not finite. An upper bound
  // on the weights.
  double largest() const;
  double largest_weight() const;         // the largest absolute weight itself, without intercepts
  double squared_norm(ClassId k) const;  // |w_k|^2, without the intercept

  static std::uint64_t bytes_needed(std::uint64_t classes, std::uint64_t features);  // saturates
  // The largest power of two of features that fits in `bytes`; 0 if not even one does.
  static std::uint64_t features_that_fit(std::uint64_t classes, std::uint64_t bytes);

 private:
  std::size_t classes_ = 0, features_ = 0;
  void fold(ClassId k);  // multiplies the scale into memory: O(D)

  HugeBuffer buffer_;
  bool with_intercept_ = false;  // also of a rank without classes
  // Those of a block are whole cache lines.
  LineVector<float> intercept_;
  LineVector<double> scale_;
  double common_scale_ = 1;
  std::shared_ptr<const BlockShare> share_;
};

// The number in these weights of class k of the whole model; none if another rank has it.
inline std::optional<ClassId> own_number(const Weights& weights, ClassId k) {
  const BlockShare* const share = weights.share();
  if (share == nullptr) return k;
  if (!share->owns_class(k)) return std::nullopt;
  return share->local_class(k);
}

}  // namespace truemax
