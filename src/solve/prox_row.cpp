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

#include "solve/prox_row_root.hpp"
#include "solve/row_memory.hpp"
#include "solve/row_sums_vector.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

// `memory`: three arrays of `padded` numbers.
int solve_prox_row_here(ProxRow& row, double* memory, std::size_t padded) {
  const RowClasses classes{padded, memory, memory + padded, memory + 2 * padded};
  const ProxRowEquation equation(row.e, row.squared_norm / row.label_ridge, row.u, row.rho);
  row.label_coefficient = 0;
  double top = 0, sum = 0;
  if (!prepare_prox(row, classes, equation.log_step, top, sum)) {
    row.u = equation.lowest;
    std::fill_n(row.coefficient, row.classes, 0.0);
    return 0;
  }
  const ProxRowRoot root = solve_prox_row_equation(
      equation, top, sum, [&](double x, double move) { return evaluate_row(classes, x, move); });
  double total = 0, v = 0;
  for (std::size_t j = 0; j < row.classes; ++j) {
    const double part = classes.share[j] * moved_term(classes.a[j], root.move), c = equation.scale * part;
    row.coefficient[j] = c;
    v += part;
    total += c;
  }
  row.label_coefficient = total;
  row.u = prox_row_u(equation, root, top, v);
  return root.evaluations;
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
