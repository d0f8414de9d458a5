// The flagship's step for one row and whole blocks of 16 classes, vectorised in float32: the hot arithmetic
// of `prox`. solve/prox_row.hpp solves the same problem in double for any classes and numbers; this solver
// declines if float32 would overflow or underflow.
//
// Problem (without ridge): the argmin over (u, w) of
//     e (u + exp(-u) + sum_j o_j exp(x.(w_j - w_y) - u)) + sum_k |w_k - w_k'|^2/2
//       + (e/rho) (exp(-u) - exp(-u') + exp(-u')(u - u')).
// With s = |x|^2 and c_y = sum_j c_j it is  w_j = w_j' - c_j x,  w_y = w_y' + c_y x,
//     s c_j = W(x_j),   x_j = e s o_j exp(z_j - z_y) g exp(-s c_y),   g = exp(-u),
//     c_y/e = 1 + exp(-u')/rho - g (1 + 1/rho).
// The last line makes c_y a known function of g, which leaves one equation in one unknown. It is solved by
// Newton's method on its logarithm, in log c_y or in log g, whichever is not a difference of nearly equal
// numbers. No logarithm or exponential of a score is computed twice.
//
// Ridge and an intercept outside it make s depend on the class but not within a block: `norm` replaces s
// (s/r_k, or (s-1)/r_k + 1), and scores are those of the shrunken weights.
#pragma once

#include <cmath>
#include <cstddef>

#include "solve/prox_root.hpp"

namespace truemax {

inline constexpr std::size_t kProxLanes = 16;
inline constexpr float kNoClass = -1e30F;  // score of an unused lane

struct ProxBlocks {
  double e = 1;            // step of the row, > 0
  double inverse_rho = 1;  // 1/rho >= 0; 0: u is recomputed from scratch (every class is drawn)
  double u = 0;            // in: old u; out: new u
  double label_score = 0;  // z_y
  double label_norm = 1;   // s of the label
  std::size_t blocks = 0;
  float* score = nullptr;          // [blocks][16] z_j or kNoClass; overwritten
  const double* norm = nullptr;    // [blocks] s of the block's classes
  const double* weight = nullptr;  // [blocks] o of the block's classes, > 0
  float* coefficient = nullptr;    // out: [blocks][16] -c_j <= 0; 0 in unused lanes
  double label_coefficient = 0;    // out: c_y = sum of c_j
};

// The same in parts, for a row whose blocks several ranks share: each has some of them, and every sum is over
// all of them. prox_start, then ProxSearch with prox_sums, then prox_finish.
struct ProxStart {
  double sum, squares;  // of o_j E_j and its square; infinite if the numbers are outside the range of float32
};
// Replaces scores by E_j = exp(z_j - z_y), or 0.
ProxStart prox_start(ProxBlocks& step);
// At x_j = common norm_j o_j E_j; leaves s c_j in `coefficient`.
ProxSums<double> prox_sums(const ProxBlocks& step, double common);
// `coefficient` becomes -c_j after the last move of log x; returns the sum of c_j.
double prox_finish(const ProxBlocks& step, double move);
// The new u if no class takes part: sum is below kLeastProxSum.
double prox_alone(double u, double inverse_rho);
inline constexpr double kLeastProxSum = 1e-30, kMostProxSquares = 1e38;
// What solve_prox_blocks asks of a row besides the range of its scores and factors.
inline bool prox_takes(double u, double inverse_rho) {
  return std::abs(u) < 300 && inverse_rho < 1e15;
}

// Returns the number of evaluations of the sum over classes, or 0 if the numbers are outside the range of
// float32: then `score` and `coefficient` are undefined and everything else is unchanged. Coefficients have a
// relative error below 2e-4, u an absolute error below 1e-4.
int solve_prox_blocks(ProxBlocks& step);

}  // namespace truemax
