// Vectorised pieces of the rows x blocks pass in float32, dispatched at run time: one line and one fused
// multiply-add for each non-zero and block, one `exp` for each class. What they may be used for, and how far
// off they are, is decided in weights/fast_pass.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/csr.hpp"
#include "weights/weights.hpp"

namespace truemax {

// Blocks whose lines are read side by side: a row's numbers are fetched once for all of them, and their sums
// do not wait for each other.
inline constexpr std::size_t kFastBlocks = 4;

// Partial sums of a score in fast_tile, so that additions do not wait for each other.
constexpr std::size_t fast_chains(std::size_t blocks) {
  return blocks >= kFastBlocks ? 1 : kFastBlocks / blocks;
}

// What the scores of up to kFastBlocks blocks begin with and are multiplied by.
struct FastStart {
  FastStart(const Weights& w, std::size_t first_block, std::size_t blocks);
  alignas(64) std::array<float, kFastBlocks * kLanes> intercept;  // minus infinity for padding lanes
  alignas(64) std::array<float, kFastBlocks * kLanes> scale;
  bool scaled;  // else every scale is 1
};

// Lines that will be read soon: a few are asked for at every row.
struct FastAhead {
  const float* block = nullptr;  // the first of the next blocks; none: nothing is asked for
  std::size_t blocks = 0;
  const FeatureId* features = nullptr;
  std::size_t count = 0, per_row = 0;
};

// Rows that have a score above their threshold.
struct FastHits {
  std::size_t count = 0;
  std::uint32_t* row = nullptr;    // counted from `first`
  std::uint64_t* lanes = nullptr;  // bit i: score i of the row is above the threshold; padding never is
};
static_assert(kFastBlocks * kLanes <= 64);

// Adds the classes of `blocks` neighbouring blocks (1, 2 or kFastBlocks) to the running log-sum-exp of rows:
// log of the sum of exp(z) seen so far is highest + log(sum). `threshold` may be `highest` itself; it is
// never above it. Hits are written where hits.row is not null. The scores are left in z, [count][blocks *
// kLanes], on a 64-byte boundary.
void fast_tile(CsrView rows, std::size_t first, std::size_t count, const float* block, std::size_t blocks,
               std::size_t features, const FastStart& start, float* z, float* absolute, float* highest,
               double* sum, const float* threshold, FastHits& hits, FastAhead& ahead);

// The first `real` of 16 lanes by falling score, of equal ones the first first; the others score less. Writes
// 16 numbers, of which `real` count.
void order_lanes(const float* score, std::size_t real, std::uint8_t* lanes);

// The largest absolute number of some; infinite if any is not finite.
float largest_absolute(const float* numbers, std::size_t count);

// exp of numbers that are not positive, as fast_tile takes it: within 3e-7 + 8e-8 |x| of itself down to
// x = -86, at most 1e-37 below that, 1 exactly at 0. For tests and timings.
void fast_exp(const float* x, std::size_t count, float* out);

}  // namespace truemax
