// Step kernels over whole blocks: one row against all 16 classes of a few blocks, one cache line per feature.
// Dispatched at run time.
//
// Sums are taken in float32. As in weights/pairs.hpp these kernels may be used only while `pairs_are_safe`
// holds for the row and no number in memory exceeds kPairWeightHigh: then no product or sum overflows
// float32, and the error of a score is no larger than the rounding of the weights themselves causes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/csr.hpp"
#include "weights/pairs.hpp"
#include "weights/weights.hpp"

namespace truemax {

// z[i][lane] = x . (w of that lane of block i), times its scale, without the intercept.
void score_blocks(const Weights& w, RowView x, std::span<const std::uint32_t> blocks, float* z);
// The same; the bits of a block's scores do not depend on which other blocks it is scored with.
void score_each_block(const Weights& w, RowView x, std::span<const std::uint32_t> blocks, float* z);

// w of every lane of block i += c[i][lane] x, without the intercept; blocks are distinct. A padding lane must
// have c = 0.
void add_to_blocks(Weights& w, RowView x, std::span<const std::uint32_t> blocks, const float* c);

// The same for the numbers in memory, whatever their scales.
void add_to_memory(Weights& w, RowView x, std::span<const std::uint32_t> blocks, const float* c);

// z[i][lane] *= the scale of that lane of block i, in double.
void multiply_by_scales(const Weights& w, std::span<const std::uint32_t> blocks, float* z);
// What numbers in memory must grow by for the weights of a block to grow by c[lane]: c divided by the scales,
// in double; 0 for padding lanes.
void divide_by_scales(const Weights& w, std::uint32_t block, const float* c, float* to);
// The same if all lanes have this scale; c of padding lanes must be 0.
void divide_by_scale(const float* c, double scale, float* to);

// One row and one block; numbers: [16] scores or coefficients. For long lists of them, which other threads
// may have made.
struct BlockTask {
  const FeatureId* index = nullptr;
  const float* value = nullptr;
  std::uint32_t count = 0, block = 0;
  float* numbers = nullptr;

  RowView x() const { return {{index, count}, {value, count}}; }
};

// The scores of each task, with the bits of score_each_block. `far`: W does not fit in the cache.
void score_tasks(const Weights& w, std::span<const BlockTask> tasks, bool far);
// add_to_memory for each task, in their order. `shared`: other cores have read the lines.
void add_tasks_to_memory(Weights& w, std::span<const BlockTask> tasks, bool shared);
// The same with the numbers of each task divided by its scale, in double.
void add_tasks_to_memory(Weights& w, std::span<const BlockTask> tasks, std::span<const double> scales,
                         bool shared);

// b[i][lane] = the intercept of that lane of block i; zeros without intercept.
void copy_block_intercepts(const Weights& w, std::span<const std::uint32_t> blocks, float* b);

// The intercept of every lane of block i += c[i][lane]; does nothing without intercept.
void add_to_block_intercepts(Weights& w, std::span<const std::uint32_t> blocks, const float* c);

// Takes a cache line away from the other cores. Without a flag for newer processors the compiler would only
// read it.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__) || defined(__i386__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// Prefetches the cache lines of a later step over some blocks, a share at a time: memory serves only a
// limited number of requests at once, and prefetching all of them would stall.
class LinesAhead {
 public:
  LinesAhead() = default;
  LinesAhead(const Weights& w, RowView x, std::span<const std::uint32_t> blocks)
      : w_(&w), x_(x), blocks_(blocks), left_(blocks.size() * x.index.size()) {}

  // Of the first `count` blocks, only the features of `x`.
  LinesAhead& with_first(std::size_t count, const RowView& x) {
    first_ = count, of_first_ = x;
    left_ = count * x.index.size() + (blocks_.size() - count) * x_.index.size();
    return *this;
  }

  // One of `parts` equal parts of the remaining lines.
  void ask(std::size_t parts) {
    std::size_t count = (left_ + parts - 1) / parts;
    left_ -= count;
    while (count > 0) {
      const std::span<const FeatureId> features = (block_ < first_ ? of_first_ : x_).index;
      const std::size_t here = std::min(count, features.size() - feature_);
      const float* from = w_->block(blocks_[block_]);
      for (std::size_t j = feature_; j < feature_ + here; ++j)
        __builtin_prefetch(from + std::size_t{features[j]} * kLanes, 0, 2);
      count -= here;
      feature_ += here;
      if (feature_ == features.size()) feature_ = 0, ++block_;
    }
  }

 private:
  const Weights* w_ = nullptr;
  RowView x_, of_first_;
  std::span<const std::uint32_t> blocks_;
  std::size_t first_ = 0, left_ = 0, block_ = 0, feature_ = 0;
};

}  // namespace truemax
