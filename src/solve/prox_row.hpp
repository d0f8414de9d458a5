// The proximal step for one row and m weighted classes, with a mirror step for u.
//
// Problem: the argmin over (u, w_1 .. w_m, w_y) of
//     e (u + exp(-u) + sum_j o_j exp(x.(w_j - w_y) - u))
//       + (e/rho) (exp(-u) - exp(-u_old) + exp(-u_old) (u - u_old))
//       + sum_k |w_k - w_k'|^2/2 + (r_k - 1)|w_k|^2/2                       (k: the m classes and the label).
// Result: u and c_j >= 0; then w_j <- (w_j' - c_j x)/r_j and w_y <- (w_y' + c_y x)/r_y with c_y = sum_j c_j.
//
// With s = |x|^2, a_j = s c_j/r_j, v = s c_y/r_y and tau = u + v, stationarity reads
//     a_j = W(exp(A_j - tau)),   A_j = log(e o_j s/r_j) + z_j/r_j - z_y/r_y,   v = sum_j (r_j/r_y) a_j
//     (1 + rho) exp(-u) = rho + exp(-u_old) - rho c_y/e.
// The first line makes v a decreasing convex function of tau. So both
//     F(tau) = tau - v - log((1 + rho)/(rho + exp(-u_old) - rho c_y/e))             (concave, rising) and
//     Q(tau) = (1 + rho) exp(v - tau) - (rho + exp(-u_old) - rho c_y/e)              (convex, falling)
// have the same single root, and Newton's method on either never overshoots from the left: the larger of the
// two steps is taken. F is better if u hardly moves; Q is defined everywhere, and is better if c_y is near
// its upper limit, e (1 + exp(-u_old)/rho).
#pragma once

#include <cstddef>

#include "solve/row_memory.hpp"

namespace truemax {

struct ProxRow {
  double e = 1;             // step of the row, > 0
  double rho = 0.1;         // mirror strength, > 0
  double squared_norm = 1;  // s >= 0
  double u = 0;             // in: old u >= 0; out: new u >= 0
  double label_score = 0;   // z_y
  double label_ridge = 1;   // r_y >= 1
  std::size_t classes = 0;
  const double* weight = nullptr;  // o_j >= 0; 0: not drawn
  const double* score = nullptr;   // z_j = x.w_j'
  const double* ridge = nullptr;   // r_j >= 1; null: all 1
  double* coefficient = nullptr;   // out: c_j >= 0
  double label_coefficient = 0;    // out: c_y = sum of c_j
};

// Returns the number of evaluations of the sum over classes. Finite for every finite input; the new u lies
// between the mirror step without classes and the explicit one with all. Allocates only beyond what `memory`
// has reserved.
int solve_prox_row(ProxRow& row, RowMemory& memory);

}  // namespace truemax
