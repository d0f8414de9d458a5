// The unknown of solve/prox_row.hpp in double, for any numbers: the root that the CPU's vectors and the GPU's
// threads share. The sums over classes are the caller's.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/host_device.hpp"
#include "solve/mirror.hpp"
#include "solve/row_sums.hpp"
#include "solve/scalar_math.hpp"

namespace truemax {

inline constexpr int kMostProxRowEvaluations = 200;
inline constexpr double kLeastLogStep = -600;  // of e s: a smaller step does not change the scores
inline constexpr double kProxRounding = 4e-16;

// Two formulas for u, tau - v and the mirror's. Each loses digits by subtraction (`size` is that of the
// first); the more accurate one is used. If only rounding is left of the mirror's denominator, it just says
// that u is large.
TRUEMAX_EVERYWHERE double better_u(double direct, double size, const Mirror& mirror, double pull) {
  const double left = mirror.left(pull), whole = mirror.left(0);
  if (left <= 0 || left * size < whole) return direct;
  const double mirrored = mirror.from_pull(pull);
  return left < 1e-14 * whole && direct - mirrored > kProxRounding * size ? direct : mirrored;
}

// The next move from a point with the sums `at`, and whether it is the last: only rounding remains after it.
struct ProxMove {
  double length;
  bool last;
};

// `u` is tau - v, and x = tau - top. b: rho c_y/e = b v.
TRUEMAX_EVERYWHERE ProxMove prox_move(const Mirror& mirror, const RowSums& at, double rho, double b, double u,
                                      double top, double x) {
  const double left = mirror.left(b * at.v), noise = kProxRounding * (std::abs(top) + at.v),
               grain = kProxRounding * std::abs(x);
  // Newton on Q. `tied` is the value of `left` at the root, bounded if u is far off.
  const double tied = (1 + rho) * std::exp(-std::max(u, -300.0));
  const double fall = b * at.slope + tied * (1 + at.slope),
               bend = b * at.curve + tied * ((1 + at.slope) * (1 + at.slope) + at.curve);
  const double q_move = (tied - left) / fall;
  // Outside F's domain: its border is left of the root too, and Newton does not pass it.
  if (left <= 0) return {std::max(q_move, -left / (b * at.slope)), false};
  // Newton on F, Halley close to the root.
  const double pull = b / left, rise = 1 + at.slope + pull * at.slope, f = u - mirror.from_pull(b * at.v);
  const double curve = at.curve + pull * at.curve + pull * at.slope * pull * at.slope;
  double f_move = -f / rise;
  const double relative = std::abs(f_move) * std::max(curve / rise, 1.0);
  if (relative < 0.5) f_move = -2 * f * rise / (2 * rise * rise + f * curve);
  if (relative <= 1e-5 || std::abs(f_move) <= noise / rise + grain) return {f_move, true};
  if (std::abs(q_move) * std::max(bend / fall, 1.0) <= 1e-8 ||
      std::abs(q_move) <= noise * tied / fall + grain)
    return {q_move, true};
  return {std::max(f_move, q_move), false};
}

// One row's equation; its unknown is x = tau - top, which keeps its digits if the scores are huge and the
// step is not.
struct ProxRowEquation {
  TRUEMAX_EVERYWHERE ProxRowEquation(double e, double norm, double old_u, double mirror_rate)
      : rho(mirror_rate),
        mirror(old_u, mirror_rate),
        lowest(mirror.from_pull(0)),
        true_log_step(std::log(e) + std::log(norm)),
        log_step(larger(true_log_step, double{kLeastLogStep})),
        b(mirror_rate * std::exp(-log_step)),
        scale(true_log_step < kLeastLogStep ? e * std::exp(-kLeastLogStep) : 1 / norm) {}

  double rho;
  Mirror mirror;
  double lowest;                   // u of a step without classes
  double true_log_step, log_step;  // log(e s), s of the label
  double b;                        // rho c_y/e = b v
  double scale;                    // c_j = scale share_j a_j
};

struct ProxRowRoot {
  double x, move, highest;
  int evaluations;
};

// top: the largest log(e s) + log(o_j r_y/r_j) + gap_j; sum: of share_j exp(A_j - top). evaluate(x, move):
// the sums at x, `move` away from where they were known last.
template <class Evaluate>
TRUEMAX_EVERYWHERE ProxRowRoot solve_prox_row_equation(const ProxRowEquation& p, double top, double sum,
                                                       Evaluate&& evaluate) {
  // The explicit mirror step is inside F's domain. Written so that a huge `top` cancels.
  const double log_sum = std::log(sum), log_rho = std::log(p.rho / (1 + p.rho));
  const double grown_sum = top - p.log_step + log_sum, highest = p.mirror.from_log_sum(grown_sum);
  double x = log_rho + grown_sum > 40 ? p.lowest + log_rho + log_sum - p.log_step : highest - top;
  double move = std::numeric_limits<double>::infinity();
  int evaluations = 0;
  for (;;) {
    const RowSums at = evaluate(x, move);
    ++evaluations;
    const ProxMove next = prox_move(p.mirror, at, p.rho, p.b, top + x - at.v, top, x);
    move = next.length;
    if (next.last || evaluations == kMostProxRowEvaluations || x + move == x) break;
    x += move;
  }
  // The fourth power of the move is negligible, or the move is the rounding of huge scores.
  return {x, std::clamp(move, -0.5, 0.5), highest, evaluations};
}

// The new u; v: the sum of share_j a_j after the last move.
TRUEMAX_EVERYWHERE double prox_row_u(const ProxRowEquation& p, const ProxRowRoot& root, double top,
                                     double v) {
  const double direct = top + root.x + root.move - v, size = std::abs(top) + std::abs(root.x) + v;
  return std::clamp(better_u(direct, size, p.mirror, p.b * v), p.lowest, std::max(p.lowest, root.highest));
}

}  // namespace truemax
