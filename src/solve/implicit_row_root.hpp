// The unknown of solve/implicit_row.hpp: the root that the CPU's vectors and the GPU's threads share. The
// sums over classes are the caller's.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/host_device.hpp"
#include "solve/one_class_model.hpp"
#include "solve/row_sums.hpp"

namespace truemax {

inline constexpr int kMostRowEvaluations = 100;

struct ImplicitRowRoot {
  double u, move;  // of tau since the last evaluation
  int evaluations;
};

// A single class that stands for all: the same sum of exp(A_j), and the share of the dominant classes.
// highest: the largest A_j; sum, squares: of share_j exp(A_j - highest), and of share_j exp(A_j - highest)^2.
TRUEMAX_EVERYWHERE void merge_classes(OneClassModel& model, double highest, double sum, double squares) {
  model.beta = 1, model.eta = 1 + squares / (sum * sum);
  model.constant = highest + std::log(sum * model.eta);
}

// size: the largest |A_j|. start: a guess of tau; below 0: none, and the model is that of merge_classes.
// evaluate(tau, move): the sums at tau, `move` away from where they were known last.
template <class Evaluate>
TRUEMAX_EVERYWHERE ImplicitRowRoot solve_implicit_row_equation(OneClassModel model, double size, double start,
                                                               Evaluate&& evaluate) {
  OneClassSolution found{model.u_old, 0};
  double tau = start;
  if (start < 0) {
    found = solve_one_class(model, model.u_old);
    tau = found.u + found.v;
  }
  double low = 0, high = std::numeric_limits<double>::infinity();
  double move = high;
  int evaluations = 0;
  while (evaluations < kMostRowEvaluations) {
    const RowSums sums = evaluate(tau, move);
    ++evaluations;
    const bool exact = model.match(tau, sums.v, sums.slope, sums.curve);
    // At u = tau - v the model's a is known: a good start unless it is far off.
    const double there = tau - sums.v;
    found = there >= 0 && std::abs(there - found.u) < 1
                ? solve_one_class(model, there, sums.v * model.eta / model.beta)
                : solve_one_class(model, found.u);
    move = found.u + found.v - tau;
    if (std::abs(move) <= (exact ? 1e-5 : 1e-8) + 1e-14 * (size + tau)) break;
    // v(tau) falls and u + v rises in v: the model's root lies on the true root's side of tau.
    if (found.v > sums.v)
      high = std::min(high, tau);
    else
      low = std::max(low, tau);
    double next = tau + move;
    if (!(next > low && next < high)) next = high < 1e300 ? low + 0.5 * (high - low) : low + 1;
    if (next == tau) break;
    move = next - tau;
    tau = next;
  }
  // The fourth power of the move is negligible, or the move is the rounding of huge scores.
  return {found.u, std::clamp(move, -0.5, 0.5), evaluations};
}

}  // namespace truemax
