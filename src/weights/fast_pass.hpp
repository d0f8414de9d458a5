// The rows x blocks pass in float32 (weights/pass.hpp says what it computes), for the rows that float32 can
// hold; the others it declines, and they are passed in double.
//
// A score in float32 is off by at most
//     E = 1.01 (n/c + c + 8) 2^-24 (|x|_1 max|w| + max|b|)
// where n is the number of non-zeros of the row and c the number of partial sums: roundings of fused or
// separate multiply-adds, of a lazy scale and of joining the sums. So a row's loss is off by at most 2 E +
// 2e-6 (`exp` and the sums of it), and two classes whose scores differ by more than 2 E stand in the order of
// their exact scores. Where the best of a row are closer than that, they and a few spare ones are scored
// again in double; where even that does not settle who belongs to the best, the row is declined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weights/fast_tile.hpp"
#include "weights/pass.hpp"

namespace truemax {

// Bounds over all classes: of weights, of what stands in memory (weights without their scales), of
// intercepts. Infinite where a number is not finite.
struct FastBounds {
  double weight = 0, memory = 0, intercept = 0;
  std::size_t chains = 1;  // partial sums of a score, at least
  std::size_t blocks = 0;  // of so many: all, or none where W does not stay in the caches (reading it once
                           // more would take a tenth of the time of a pass)

  void add_blocks(const Weights& weights, std::size_t first, std::size_t count);
};
FastBounds fast_bounds(const Weights& weights);

// Most `top` entries of a row that the pass in float32 offers.
inline constexpr std::size_t kFastTop = 256;
// Rows are not passed in float32 where E is larger.
inline constexpr double kFastError = 0x1p-6;
// E of a row.
double fast_error(const FastBounds& bounds, std::size_t nonzeros, double absolute_sum);

// Rows that stay together while all blocks pass by. Where W does not stay in the caches they are many: in
// float32 a row costs so little that a line has to serve many rows to be worth fetching. Small inputs are cut
// finer, so that every thread has work.
std::size_t fast_group_rows(const Weights& weights, std::size_t rows, std::size_t threads);

// Rows of a group in the order in which they are passed. Where W does not stay in the caches, rows with the
// same rare features follow each other, so that those lines are found again in the nearest cache.
struct FastRows {
  FastRows(const Weights& weights, CsrView all, std::size_t first, std::size_t count);
  CsrView view() const { return own.rows() > 0 ? own.view() : given; }
  std::size_t place(std::size_t i) const { return order.empty() ? i : order[i]; }  // in the group

  CsrView given;
  Csr own;
  std::vector<std::uint32_t> order;  // empty: as they stand
};

// Blocks of the next tile, where so many are left.
constexpr std::size_t fast_together(std::size_t left) {
  return left >= kFastBlocks ? kFastBlocks : left >= 2 ? 2 : 1;
}
// Rows [first, first + count) of `rows` against all blocks, into the same places of `result`. Rows that it
// declines are appended to `declined`; those among them whose scores are just the intercepts, all of them
// alike, to `alike` instead.
void fast_group(const Weights& weights, CsrView rows, std::size_t first, std::size_t count,
                const PassOptions& options, FastBounds bounds, PassResult& result,
                std::vector<std::size_t>& declined, std::vector<std::size_t>& alike);

}  // namespace truemax
