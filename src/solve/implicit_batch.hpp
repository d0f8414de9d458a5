// The implicit step for n rows and their classes together: the argmin over (u, w) of
//     sum_i e_i (u_i + exp(-u_i) + sum_k o_ik exp(x_i.(w_k - w_y_i) - u_i)) + sum_i (u_i - u_i')^2/2
//       + sum_k |w_k - w_k'|^2/2 + (r_k - 1)|w_k|^2/2.
// (paper: the n x m section of the appendix, whose "separate Lambert-W functions" hold for orthogonal rows
// only.) Result: u_i and C; then w_k <- (w_k' + sum_i C_ik x_i)/r_k.
//
// With c_ik = e_i o_ik exp(b_ik - b_iy - u_i) >= 0, b the new scores, C_ik = -c_ik except for the label,
// where it is s_i = sum_k c_ik. Two methods are combined:
// - sweeps: row i, with the other rows fixed, is the problem of solve/implicit_row.hpp;
// - Newton's method on the dual, convex in c:
//     sum_ik c_ik (log(c_ik/(e_i o_ik)) - 1) + sum_i U_i(s_i) + sum_k C_k.base_k + C_k'(G/r_k + free) C_k/2,
//   U_i'(s) = u_i(s) from e_i (1 - exp(-u)) + u = u_i' + s. One class k after the other is eliminated,
//   which leaves a linear system in t_i = u_i + b_iy and s_i. G is never inverted: rows may be equal.
// Sweeps always make progress and converge fast if rows have little in common; Newton's method handles the
// rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace truemax {

struct ImplicitBatch {
  std::size_t rows = 0, columns = 0;
  const double* e = nullptr;  // [n] steps of the rows, > 0
  const double* base =
      nullptr;  // [n][columns] scores after the ridge alone: Z/r, and what is outside the ridge
  const double* weight = nullptr;        // o [n][columns]; 0: not drawn; the label's own is ignored
  const std::uint32_t* label = nullptr;  // [n] column of the row's label
  const double* gram = nullptr;          // G [n][n], diagonal > 0
  const double* ridge = nullptr;         // [columns] r >= 1; null: all 1
  double free = 0;                       // product of any two rows outside the ridge: 1 for a free intercept
  double* u = nullptr;                   // [n] in: old u >= 0; out: new u >= 0
  double* coefficient = nullptr;         // C [n][columns] out
};

// Reuses its buffers from step to step; not thread-safe.
class ImplicitBatchSolver {
 public:
  ImplicitBatchSolver();
  ~ImplicitBatchSolver();
  ImplicitBatchSolver(ImplicitBatchSolver&&) noexcept;
  ImplicitBatchSolver& operator=(ImplicitBatchSolver&&) noexcept;

  // Allocates for all later solves of up to this many rows, columns and classes with a weight: solve() then
  // allocates nothing. Newton's method has a matrix of rows x rows for each of these classes; untouched pages
  // cost nothing.
  void reserve(std::size_t rows, std::size_t columns, std::size_t drawn);
  // Bytes of these matrices, nearly all of the memory.
  static std::uint64_t bytes(std::uint64_t rows, std::uint64_t columns, std::uint64_t drawn) {
    return sizeof(double) * (rows * rows * (drawn + 8) + 2 * rows * columns);
  }

  // Returns sweeps plus Newton iterations. The result is finite for every finite input.
  int solve(const ImplicitBatch& batch);

  // Iterations of the last solve().
  int sweeps() const;
  int newton_iterations() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace truemax
