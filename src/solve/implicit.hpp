// The implicit step for one row and one class (paper: Algorithm 1, Proposition 4;
// eq:implicit_sgd_single_class), for several independent steps at once.
//
// Problem: with e = step times row weight, o the weight of the drawn class, gap A = z_k/r_k - z_y/r_y,
// gamma = 1/(s (1/r_k + 1/r_y)), s = |x|^2, old u >= 0, find the minimiser over (u, a) of
//     e (u + exp(-u) + o exp(A - a - u)) + (u - u_old)^2/2 + gamma a^2/2.
// Result: u and a; then w_k <- w_k/r_k - (gamma a/r_k) x and w_y <- w_y/r_y + (gamma a/r_y) x.
//
// With C = log(e o/gamma) + A, stationarity in a reads a = W(exp(C - u)), that is a + log(a) = C - u, and
// what is left is the root of
//     g(u) = e (1 - exp(-u)) + u - u_old - gamma a(u)          (eq:u_derivative, halved)
// g is increasing and concave in u, g(0) < 0, and g is not negative at max(u_old, log(1 + o exp(A))). Each
// iteration refines a for the current u (one logarithm) and moves u by Halley's formula (one exponential);
// the paper's bracket and its Brent search (paper_brent.hpp) are the oracle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace truemax {

inline constexpr std::size_t kSolveLanes = 8;  // problems solved side by side

// Problems and their solutions; entry i of every array is one problem. The result of a problem depends
// neither on its position nor on the other problems.
struct ImplicitProblems {
  alignas(64) std::array<double, kSolveLanes> e;      // step of the row, > 0
  alignas(64) std::array<double, kSolveLanes> o;      // weight of the drawn class, > 0
  alignas(64) std::array<double, kSolveLanes> gap;    // A, finite
  alignas(64) std::array<double, kSolveLanes> gamma;  // > 0
  alignas(64) std::array<double, kSolveLanes> u;      // in: u_old >= 0; out: u >= 0
  alignas(64) std::array<double, kSolveLanes> a;      // out: >= 0
};

// Harmless values for unused entries: they are computed but ignored.
inline constexpr ImplicitProblems kNoProblems = [] {
  ImplicitProblems p{};
  p.e.fill(1), p.o.fill(1), p.gamma.fill(1);
  return p;
}();

// Solves the first `count` problems. The relative error of u (to 1 + u) and of a is below 1e-12, relative to
// the largest term if terms cancel; a below 1e-299 is not resolved. Returns the number of evaluations of g of
// the slowest problem.
int solve_implicit(ImplicitProblems& problems, std::size_t count);

}  // namespace truemax
