// Kernels of a step over whole blocks: one row against all 16 classes of a few blocks, a cache line a
// feature. Dispatched at run time.
//
// Sums are taken in float32. As in weights/pairs.hpp that is safe, and these kernels may be used, only while
// `pairs_are_safe` says so of the row and no number in memory is above kPairWeightHigh: then no product and
// no sum can leave float32, and a score is off by no more than the rounding of the weights themselves makes
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/csr.hpp"
#include "weights/pairs.hpp"
#include "weights/weights.hpp"

namespace truemax {

// z[i][lane] = x . (w of that lane of block i), times its scale, without the intercept.
void score_blocks(const Weights& w, RowView x, std::span<const std::uint32_t> blocks, float* z);

// w of every lane of block i += c[i][lane] x, without the intercept; blocks are different ones. A padding
// lane must have c = 0.
void add_to_blocks(Weights& w, RowView x, std::span<const std::uint32_t> blocks, const float* c);

// Asks for the lines that a later step over these blocks will use.
inline void prefetch_blocks(const Weights& w, RowView x, std::span<const std::uint32_t> blocks) {
  for (const std::uint32_t b : blocks) {
    const float* from = w.block(b);
    for (const FeatureId f : x.index) __builtin_prefetch(from + std::size_t{f} * kLanes, 1);
  }
}

}  // namespace truemax
