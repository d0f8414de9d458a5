// The rows x blocks pass in float32 (weights/pass.hpp defines the result), for the rows that float32 can
// represent; other rows are declined and passed in double.
//
// The error of a float32 score is at most
//     E = 1.01 (n/c + c + 8) 2^-24 (|x|_1 max|w| + max|b|)
// where n is the number of non-zeros of the row and c the number of partial sums: roundings of fused or
// separate multiply-adds, of a lazy scale and of joining the sums. So the error of a row's loss is at most 2
// E + 2e-6 (`exp` and its sums), and two classes whose scores differ by more than 2 E are in the right order.
// If the best of a row are closer than that, they and a few spare candidates are scored again in double; if
// that does not settle which classes are the best, the row is declined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weights/fast_tile.hpp"
#include "weights/pass.hpp"

namespace truemax {

// Bounds over all classes: of weights, of the numbers in memory (weights without their scales), of
// intercepts. Infinite if a number is not finite.
struct FastBounds {
  double weight = 0, memory = 0, intercept = 0;
  std::size_t chains = 1;  // partial sums of a score, at least
  std::size_t blocks = 0;  // covered so far: all, or none if W does not stay in the caches (reading it once
                           // more would take a tenth of the time of a pass)

  void add_blocks(const Weights& weights, std::size_t first, std::size_t count);
};
FastBounds fast_bounds(const Weights& weights);
// Of all blocks, for many passes.
FastBounds whole_bounds(const Weights& weights);

// The largest `top` that the pass in float32 supports.
inline constexpr std::size_t kFastTop = 256;
// Rows with a larger E are not passed in float32.
inline constexpr double kFastError = 0x1p-6;
// E of a row.
double fast_error(const FastBounds& bounds, std::size_t nonzeros, double absolute_sum);

// Rows that stay together while all blocks pass by. If W does not stay in the caches they are many: in
// float32 a row costs so little that a cache line must serve many rows to be worth fetching. Small inputs are
// cut finer, so that every thread has work.
std::size_t fast_group_rows(const Weights& weights, std::size_t rows, std::size_t threads);

// The order in which the rows of a group are passed. If W does not stay in the caches, rows with the same
// rare features are adjacent, so that those cache lines are still in the nearest cache.
struct FastRows {
  FastRows(const Weights& weights, CsrView all, std::size_t first, std::size_t count);
  CsrView view() const { return own.rows() > 0 ? own.view() : given; }
  std::size_t place(std::size_t i) const { return order.empty() ? i : order[i]; }  // in the group

  CsrView given;
  Csr own;
  std::vector<std::uint32_t> order;  // empty: unchanged
};

// Number of blocks in the next tile, given the number left.
constexpr std::size_t fast_together(std::size_t left) {
  return left >= kFastBlocks ? kFastBlocks : left >= 2 ? 2 : 1;
}
// Passes rows [first, first + count) of `rows` against all blocks and writes to the same places of `result`.
// Declined rows are appended to `declined`, or to `alike` if their scores are just the intercepts.
void fast_group(const Weights& weights, CsrView rows, std::size_t first, std::size_t count,
                const PassOptions& options, FastBounds bounds, PassResult& result,
                std::vector<std::size_t>& declined, std::vector<std::size_t>& alike);

}  // namespace truemax
