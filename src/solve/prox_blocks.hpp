// The flagship's step for one row and whole blocks of 16 classes, vectorised in float32: what the step loop
// of `prox` spends its arithmetic on. The same problem in double, for any classes and any numbers, is
// solve/prox_row.hpp; this one declines where float32 could not hold what it needs.
//
// Problem (without ridge): the argmin over (u, w) of
//     e (u + exp(-u) + sum_j o_j exp(x.(w_j - w_y) - u)) + sum_k |w_k - w_k'|^2/2
//       + (e/rho) (exp(-u) - exp(-u') + exp(-u')(u - u')).
// With s = |x|^2 and c_y = sum_j c_j it is  w_j = w_j' - c_j x,  w_y = w_y' + c_y x,
//     s c_j = W(x_j),   x_j = e s o_j exp(z_j - z_y) g exp(-s c_y),   g = exp(-u),
//     c_y/e = 1 + exp(-u')/rho - g (1 + 1/rho).
// The last line makes c_y a known function of g: one equation in one unknown is left. It is solved by
// Newton's method on its logarithm, in log c_y or in log g, whichever of the two is not a difference of
// nearly equal numbers. No logarithm or exponential of a score is taken twice.
//
// Ridge and an intercept outside it change s from class to class but not inside a block: `norm` is what
// stands in place of s (s/r_k, or (s-1)/r_k + 1), and scores are those of the shrunken weights.
#pragma once

#include <cstddef>

namespace truemax {

inline constexpr std::size_t kProxLanes = 16;
inline constexpr float kNoClass = -1e30F;  // score of a lane that takes no part

struct ProxBlocks {
  double e = 1;            // step of the row, > 0
  double inverse_rho = 1;  // 1/rho >= 0; 0: nothing of the old u is kept (every class is there)
  double u = 0;            // in: old u; out: new u
  double label_score = 0;  // z_y
  double label_norm = 1;   // s of the label
  std::size_t blocks = 0;
  float* score = nullptr;          // [blocks][16] z_j or kNoClass; overwritten
  const double* norm = nullptr;    // [blocks] s of the block's classes
  const double* weight = nullptr;  // [blocks] o of the block's classes, > 0
  float* coefficient = nullptr;    // out: [blocks][16] -c_j <= 0; 0 where no class is
  double label_coefficient = 0;    // out: c_y = sum of c_j
};

// Returns the number of evaluations of the sum over classes, or 0 where the numbers are outside the range of
// float32: `score` and `coefficient` are undefined then, all else is as it was. Coefficients are those of the
// exact solution within 2e-4 of each, u within 1e-4.
int solve_prox_blocks(ProxBlocks& step);

}  // namespace truemax
