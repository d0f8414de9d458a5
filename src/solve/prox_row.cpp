#include "solve/prox_row.hpp"

#ifndef HWY_DISABLED_TARGETS
// Sizeless vectors (SVE, RVV) use NEON or the scalar path, as in weights/tile.cpp.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "solve/prox_row.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "solve/mirror.hpp"
#include "solve/row_memory.hpp"
#include "solve/row_sums_vector.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kMostProxEvaluations = 200;
constexpr double kLeastLogStep = -600;  // of e s: a smaller step does not change the scores
constexpr double kRounding = 4e-16;

// Two formulas for u, tau - v and the mirror's. Each loses digits by subtraction (`size` is that of the
// first); the more accurate one is used. If only rounding is left of the mirror's denominator, it just says
// that u is large.
double better_u(double direct, double size, const Mirror& mirror, double pull) {
  const double left = mirror.left(pull), whole = mirror.left(0);
  if (left <= 0 || left * size < whole) return direct;
  const double mirrored = mirror.from_pull(pull);
  return left < 1e-14 * whole && direct - mirrored > kRounding * size ? direct : mirrored;
}

// Fills log_scale with A_j minus the largest of them, `top`, and the shares r_j/r_y; `sum` becomes the sum of
// share_j exp(A_j - top). log_step: log(e s/r_y). False if no class takes part.
bool prepare_prox(const ProxRow& row, const RowClasses& classes, double log_step, double& top, double& sum) {
  const RowTag d;
  const double nothing = -std::numeric_limits<double>::infinity();
  top = nothing;
  for (std::size_t j = 0; j < classes.padded; ++j) {
    const bool drawn = j < row.classes && row.weight[j] > 0;
    const double r = drawn && row.ridge != nullptr ? row.ridge[j] : 1;
    classes.share[j] = drawn ? r / row.label_ridge : 0;
    classes.a[j] = drawn ? row.weight[j] * (row.label_ridge / r) : 1;
    // Equal ridge factors (also none): a common offset of the scores costs no digits.
    classes.log_scale[j] = !drawn                 ? 0
                           : r == row.label_ridge ? (row.score[j] - row.label_score) / r
                                                  : row.score[j] / r - row.label_score / row.label_ridge;
  }
  for (std::size_t j = 0; j < classes.padded; j += kRowWidth) {
    const RowV log_weight = hn::Log(d, hn::Load(d, classes.a + j));
    hn::Store(hn::Add(log_weight, hn::Load(d, classes.log_scale + j)), d, classes.log_scale + j);
  }
  for (std::size_t j = 0; j < row.classes; ++j)
    if (classes.share[j] > 0) top = std::max(top, classes.log_scale[j]);
  if (top == nothing) return false;
  RowV all = hn::Zero(d);
  for (std::size_t j = 0; j < classes.padded; j += kRowWidth) {
    const RowV t = hn::Min(hn::Sub(hn::Load(d, classes.log_scale + j), hn::Set(d, top)), hn::Zero(d));
    hn::Store(t, d, classes.log_scale + j);
    const RowV part = hn::Exp(d, hn::Max(t, hn::Set(d, kLowestLog)));
    all = hn::MulAdd(part, hn::Load(d, classes.share + j), all);
  }
  sum = hn::GetLane(hn::SumOfLanes(d, all));
  top += log_step;
  return true;
}

// The next move from a point with the sums `at`, and whether it is the last: only rounding remains after it.
struct ProxMove {
  double length;
  bool last;
};

// `u` is tau - v, and x = tau - top. b: rho c_y/e = b v.
ProxMove prox_move(const Mirror& mirror, const RowSums& at, double rho, double b, double u, double top,
                   double x) {
  const double left = mirror.left(b * at.v), noise = kRounding * (std::abs(top) + at.v),
               grain = kRounding * std::abs(x);
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

// `memory`: three arrays of `padded` numbers. The unknown is x = tau - top, which keeps its digits if the
// scores are huge and the step is not.
int solve_prox_row_here(ProxRow& row, double* memory, std::size_t padded) {
  const RowClasses classes{padded, memory, memory + padded, memory + 2 * padded};
  const Mirror mirror(row.u, row.rho);
  const double s = row.squared_norm / row.label_ridge, lowest = mirror.from_pull(0);
  const double true_log_step = std::log(row.e) + std::log(s),
               log_step = std::max(true_log_step, kLeastLogStep);
  const double b = row.rho * std::exp(-log_step);  // rho c_y/e = b v
  row.label_coefficient = 0;
  double top = 0, sum = 0;
  if (!prepare_prox(row, classes, log_step, top, sum)) {
    row.u = lowest;
    std::fill_n(row.coefficient, row.classes, 0.0);
    return 0;
  }
  // The explicit mirror step is inside F's domain. Written so that a huge `top` cancels.
  const double log_sum = std::log(sum), log_rho = std::log(row.rho / (1 + row.rho));
  const double grown = top - log_step + log_sum, highest = mirror.from_log_sum(grown);
  double x = log_rho + grown > 40 ? lowest + log_rho + log_sum - log_step : highest - top;
  double move = std::numeric_limits<double>::infinity();
  int evaluations = 0;
  for (;;) {
    const RowSums at = evaluate_row(classes, x, move);
    ++evaluations;
    const ProxMove next = prox_move(mirror, at, row.rho, b, top + x - at.v, top, x);
    move = next.length;
    if (next.last || evaluations == kMostProxEvaluations || x + move == x) break;
    x += move;
  }
  // The fourth power of the move is negligible, or the move is the rounding of huge scores.
  move = std::clamp(move, -0.5, 0.5);
  const double scale = true_log_step < kLeastLogStep ? row.e * std::exp(-kLeastLogStep) : 1 / s;
  double total = 0, v = 0;
  for (std::size_t j = 0; j < row.classes; ++j) {
    const double a = classes.a[j], over = 1 / (1 + a), rest = -move * over;
    const double delta = rest + rest * rest * (0.5 * over + rest * over * (0.5 * over - 1.0 / 3.0));
    const double part = classes.share[j] * (a + a * delta), c = scale * part;
    row.coefficient[j] = c;
    v += part;
    total += c;
  }
  row.label_coefficient = total;
  row.u = std::clamp(better_u(top + x + move - v, std::abs(top) + std::abs(x) + v, mirror, b * v), lowest,
                     std::max(lowest, highest));
  return evaluations;
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(solve_prox_row_here);

int solve_prox_row(ProxRow& row, RowMemory& memory) {
  return memory.use(row.classes, [&](double* arrays, std::size_t padded) {
    return HWY_DYNAMIC_DISPATCH(solve_prox_row_here)(row, arrays, padded);
  });
}

}  // namespace truemax
#endif  // HWY_ONCE
