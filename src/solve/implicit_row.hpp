// The implicit step for one row and m classes (paper: app:Implicit_SGD_single_multiple; its last,
// one-dimensional problem is wrong as printed, so it is rederived here).
//
// Problem: the argmin over (u, w_1 .. w_m, w_y) of
//     e (u + exp(-u) + sum_j o_j exp(x.(w_j - w_y) - u)) + (u - u_old)^2/2
//       + sum_k |w_k - w_k'|^2/2 + (r_k - 1)|w_k|^2/2                       (k: the m classes and the label).
// Result: u and c_j >= 0; then w_j <- (w_j' - c_j x)/r_j and w_y <- (w_y' + c_y x)/r_y with c_y = sum_j c_j.
//
// With s = |x|^2, a_j = s c_j/r_j, v = s c_y/r_y and tau = u + v, stationarity reads
//     a_j = W(exp(A_j - tau)),   A_j = log(e o_j s/r_j) + z_j/r_j - z_y/r_y,   v = sum_j (r_j/r_y) a_j
//     e (1 - exp(-u)) + u = u_old + c_y.
// The first line makes v a decreasing function of tau, the second makes u + v an increasing function of v:
// there is one root. Each iteration evaluates v(tau) with two derivatives (one logarithm per class), replaces
// its inverse by tau(v) = const - alpha v - beta log(v) with the same derivatives, and solves the resulting
// problem of one class. For one class this is exact; otherwise convergence is cubic.
#pragma once

#include <cstddef>

#include "solve/row_memory.hpp"

namespace truemax {

struct ImplicitRow {
  double e = 1;             // step of the row, > 0
  double squared_norm = 1;  // s > 0
  double u = 0;             // in: old u >= 0; out: new u >= 0
  double label_score = 0;   // z_y
  double label_ridge = 1;   // r_y >= 1
  std::size_t classes = 0;
  const double* weight = nullptr;  // o_j >= 0; 0: not drawn
  const double* score = nullptr;   // z_j = x.w_j'
  const double* ridge = nullptr;   // r_j >= 1; null: all 1
  double* coefficient = nullptr;   // out: c_j >= 0
  double label_coefficient = 0;    // out: c_y = sum of c_j
  double start = -1;               // initial guess of tau = u + s c_y/r_y; below 0: none
};

// Returns the number of evaluations of the sum over classes. Finite for every finite input; allocates only
// beyond what `memory` has reserved. The guess affects only the last digits of the solution.
int solve_implicit_row(ImplicitRow& row, RowMemory& memory);

}  // namespace truemax
