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
               double* sum, const float* threshold, FastHits& hits);

// Rows against one block that holds all classes. Nothing is kept for later blocks, so that the best classes
// and the sums are those of the whole row.
inline constexpr std::size_t kFastFewRows = 32, kFastFewTop = 5;
struct FastFew {
  alignas(64) std::array<float, kFastFewRows * kLanes> z;  // scores, [row][kLanes]
  alignas(64) std::array<float, kFastFewRows> absolute;    // |x|_1
  alignas(64) std::array<float, kFastFewRows> sum;         // of exp(z - the highest z)
  // Classes by falling score, [place][row]. The order is right where the smallest of the gaps between the
  // first top + 1 is above kFastFewCut times a bound on |z|: it is that of scores without their last bits.
  alignas(64) std::array<std::int32_t, kFastFewTop * kFastFewRows> best;
  alignas(64) std::array<float, kFastFewRows> gap;  // of the scores without those bits
};
// 15 units of the last place are less than 2^-19 of a number; the rest is for the rounding of the gap.
inline constexpr double kFastFewCut = 0x1.2p-19;
// `count` is at most kFastFewRows, `top` at most kFastFewTop and `classes`, `classes` at most kLanes.
void fast_few(CsrView rows, std::size_t first, std::size_t count, const float* block, std::size_t features,
              const FastStart& start, std::size_t classes, std::size_t top, FastFew& few);

// The first `real` of 16 lanes by falling score, of equal ones the first first; the others score less. Writes
// 16 numbers, of which `real` count.
void order_lanes(const float* score, std::size_t real, std::uint8_t* lanes);

// The largest absolute number of some; infinite if any is not finite.
float largest_absolute(const float* numbers, std::size_t count);

// exp of numbers that are not positive, as fast_tile takes it: within 3e-7 + 8e-8 |x| of itself down to
// x = -86, at most 1e-37 below that, 1 exactly at 0. For tests and timings.
void fast_exp(const float* x, std::size_t count, float* out);

}  // namespace truemax
