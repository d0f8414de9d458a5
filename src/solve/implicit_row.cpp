#include "solve/implicit_row.hpp"

#ifndef HWY_DISABLED_TARGETS
// Sizeless vectors (SVE, RVV) use NEON or the scalar path, as in weights/tile.cpp.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "solve/implicit_row.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "solve/implicit_row_root.hpp"
#include "solve/row_memory.hpp"
#include "solve/row_sums_vector.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Fills A and the shares; returns the largest |A_j|, or -1 if no class takes part. If the row has no guess,
// or one so far off that all terms underflow there, `merged` becomes a single class that stands for all: the
// same sum of exp(A_j), and the share of the dominant classes.
double prepare_row(const ImplicitRow& row, const RowClasses& classes, OneClassModel& merged, bool& warm) {
  const RowTag d;
  const double infinity = std::numeric_limits<double>::infinity();
  double highest = -infinity, size = 0;
  for (std::size_t j = 0; j < classes.padded; ++j) {
    const bool drawn = j < row.classes && row.weight[j] > 0;
    const double r = drawn && row.ridge != nullptr ? row.ridge[j] : 1;
    classes.share[j] = drawn ? r / row.label_ridge : 0;
    classes.a[j] = drawn ? row.e * row.weight[j] * (row.squared_norm / r) : 1;
    // Equal ridge factors (also none): a common offset of the scores costs no digits.
    const double gap = !drawn                 ? 0
                       : r == row.label_ridge ? (row.score[j] - row.label_score) / r
                                              : row.score[j] / r - row.label_score / row.label_ridge;
    classes.log_scale[j] = gap;
  }
  for (std::size_t j = 0; j < classes.padded; j += kRowWidth) {
    const RowV log_scale =
        hn::Add(hn::Log(d, hn::Load(d, classes.a + j)), hn::Load(d, classes.log_scale + j));
    hn::Store(log_scale, d, classes.log_scale + j);
  }
  for (std::size_t j = 0; j < row.classes; ++j)
    if (classes.share[j] > 0) {
      highest = std::max(highest, classes.log_scale[j]);
      size = std::max(size, std::abs(classes.log_scale[j]));
    }
  if (highest == -infinity) return -1;
  warm = row.start >= 0 && row.start < highest + 600;
  if (warm) return size;
  RowV once = hn::Zero(d), squared = hn::Zero(d);
  for (std::size_t j = 0; j < classes.padded; j += kRowWidth) {
    const RowV t = hn::Sub(hn::Load(d, classes.log_scale + j), hn::Set(d, highest));
    const RowV part = hn::Exp(d, hn::Max(hn::Min(t, hn::Zero(d)), hn::Set(d, kLowestLog)));
    const RowV weighted = hn::Mul(part, hn::Load(d, classes.share + j));
    once = hn::Add(once, weighted);
    squared = hn::MulAdd(part, weighted, squared);
  }
  const double sum = hn::GetLane(hn::SumOfLanes(d, once));
  merge_classes(merged, highest, sum, hn::GetLane(hn::SumOfLanes(d, squared)));
  return size;
}

// `memory`: three arrays of `padded` numbers.
int solve_implicit_row_here(ImplicitRow& row, double* memory, std::size_t padded) {
  const RowClasses classes{padded, memory, memory + padded, memory + 2 * padded};
  const double kappa = row.label_ridge / row.squared_norm;  // c_y = kappa v

  OneClassModel model{row.e, row.u, kappa, 1, 2, 0};
  bool warm = false;
  const double size = prepare_row(row, classes, model, warm);
  row.label_coefficient = 0;
  if (size < 0) {
    row.u = solve_without_class(row.e, row.u);
    std::fill_n(row.coefficient, row.classes, 0.0);
    return 0;
  }
  const ImplicitRowRoot root =
      solve_implicit_row_equation(model, size, warm ? row.start : -1,
                                  [&](double tau, double move) { return evaluate_row(classes, tau, move); });
  double total = 0;
  for (std::size_t j = 0; j < row.classes; ++j) {
    const double c = kappa * classes.share[j] * moved_term(classes.a[j], root.move);
    row.coefficient[j] = c;
    total += c;
  }
  row.label_coefficient = total;
  row.u = root.u;
  return root.evaluations;
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(solve_implicit_row_here);

int solve_implicit_row(ImplicitRow& row, RowMemory& memory) {
  return memory.use(row.classes, [&](double* arrays, std::size_t padded) {
    return HWY_DYNAMIC_DISPATCH(solve_implicit_row_here)(row, arrays, padded);
  });
}

}  // namespace truemax
#endif  // HWY_ONCE
