// Vectorised pieces of the rows x blocks pass in float32, dispatched at run time: one cache line and one
// fused multiply-add per non-zero and block, one `exp` per class. weights/fast_pass.cpp decides where they
// may be used and states their error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/csr.hpp"
#include "weights/weights.hpp"

namespace truemax {

// Blocks read side by side: a row is loaded once for all of them, and their sums are independent.
inline constexpr std::size_t kFastBlocks = 4;

// Partial sums of a score in fast_tile, so that additions are independent.
constexpr std::size_t fast_chains(std::size_t blocks) {
  return blocks >= kFastBlocks ? 1 : kFastBlocks / blocks;
}

// The initial values and factors of the scores of up to kFastBlocks blocks.
struct FastStart {
  FastStart(const Weights& w, std::size_t first_block, std::size_t blocks);
  alignas(64) std::array<float, kFastBlocks * kLanes> intercept;  // minus infinity for padding lanes
  alignas(64) std::array<float, kFastBlocks * kLanes> scale;
  bool scaled;  // otherwise every scale is 1
};

// Rows with a score above their threshold.
struct FastHits {
  std::size_t count = 0;
  std::uint32_t* row = nullptr;    // counted from `first`
  std::uint64_t* lanes = nullptr;  // bit i: score i of the row is above the threshold; padding never is
};
static_assert(kFastBlocks * kLanes <= 64);

// Adds the classes of `blocks` adjacent blocks (1, 2 or kFastBlocks) to the running log-sum-exp of rows: log
// of the sum of exp(z) seen so far is highest + log(sum). `threshold` may be `highest` itself; it is never
// above it. Hits are written if hits.row is not null. Leaves the scores in z, [count][blocks * kLanes], which
// is 64-byte aligned.
void fast_tile(CsrView rows, std::size_t first, std::size_t count, const float* block, std::size_t blocks,
               std::size_t features, const FastStart& start, float* z, float* absolute, float* highest,
               double* sum, const float* threshold, FastHits& hits);

// Rows against one block that holds all classes, so the best classes and the sums are final.
inline constexpr std::size_t kFastFewRows = 32, kFastFewTop = 5;
struct FastFew {
  alignas(64) std::array<float, kFastFewRows * kLanes> z;  // scores, [row][kLanes]
  alignas(64) std::array<float, kFastFewRows> absolute;    // |x|_1
  alignas(64) std::array<float, kFastFewRows> sum;         // of exp(z - the highest z)
  // Classes by falling score, [place][row], compared without their last bits. The order is right if the
  // smallest gap among the first top + 1 exceeds kFastFewCut times a bound on |z|.
  alignas(64) std::array<std::int32_t, kFastFewTop * kFastFewRows> best;
  alignas(64) std::array<float, kFastFewRows> gap;  // of the scores without those bits
};
// 15 ulps are less than 2^-19 of a number; the rest covers the rounding of the gap.
inline constexpr double kFastFewCut = 0x1.2p-19;
// `count` <= kFastFewRows; `top` <= kFastFewTop and <= `classes`; `classes` <= kLanes.
void fast_few(CsrView rows, std::size_t first, std::size_t count, const float* block, std::size_t features,
              const FastStart& start, std::size_t classes, std::size_t top, FastFew& few);

// Sorts the first `real` of 16 lanes by falling score, equal ones in lane order; the other lanes must score
// less. Writes 16 numbers, of which the first `real` are valid.
void order_lanes(const float* score, std::size_t real, std::uint8_t* lanes);

// The largest absolute value; infinite if any number is not finite.
float largest_absolute(const float* numbers, std::size_t count);

// exp of numbers <= 0, as in fast_tile: relative error below 3e-7 + 8e-8 |x| down to x = -86, at most 1e-37
// below that, exactly 1 at 0. For tests and timings.
void fast_exp(const float* x, std::size_t count, float* out);

}  // namespace truemax
