// The sum over the classes of a row that the one-row solvers share,
//     v(tau) = sum_j share_j a_j,   a_j = W(exp(log_scale_j - tau)),
// in vectors, compiled for every instruction set (hence the unusual guard).
#if defined(TRUEMAX_SOLVE_ROW_SUMS_VECTOR_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TRUEMAX_SOLVE_ROW_SUMS_VECTOR_HPP
#undef TRUEMAX_SOLVE_ROW_SUMS_VECTOR_HPP
#else
#define TRUEMAX_SOLVE_ROW_SUMS_VECTOR_HPP
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>

#include "solve/lambert_vector.hpp"
#include "solve/row_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {

using RowTag = hwy::HWY_NAMESPACE::CappedTag<double, 8>;
using RowV = hwy::HWY_NAMESPACE::Vec<RowTag>;
constexpr std::size_t kRowWidth = hwy::HWY_NAMESPACE::MaxLanes(RowTag());

HWY_INLINE RowV row_refine(RowV t, RowV a) {
  namespace hn = hwy::HWY_NAMESPACE;
  const RowTag d;
  const RowV over = hn::Div(hn::Set(d, 1.0), hn::Add(hn::Set(d, 1.0), a));
  const RowV residual = hn::Sub(hn::Sub(t, a), hn::Log(d, a));
  return hn::MulAdd(a, lambert_delta(d, residual, over), a);
}

// The classes of the row, padded with classes of share 0.
struct RowClasses {
  std::size_t padded;
  double* log_scale;
  double* share;  // 0 for classes not drawn
  double* a;
};

// Updates a to tau and sums up. `move`: the distance of tau from where a is valid; not finite: a is unknown.
HWY_INLINE RowSums evaluate_row(const RowClasses& classes, double tau, double move) {
  namespace hn = hwy::HWY_NAMESPACE;
  const RowTag d;
  const RowV one = hn::Set(d, 1.0), lowest = hn::Set(d, kLowestLog), at = hn::Set(d, tau);
  RowV v = hn::Zero(d), slope = hn::Zero(d), curve = hn::Zero(d);
  const bool fresh = !(std::abs(move) <= 1);
  const bool twice = fresh || std::abs(move) > 0.05;
  const RowV residual = hn::Set(d, fresh ? 0.0 : -move);
  for (std::size_t j = 0; j < classes.padded; j += kRowWidth) {
    const RowV t = hn::Max(hn::Sub(hn::Load(d, classes.log_scale + j), at), lowest);
    RowV a;
    if (fresh) {
      a = lambert_guess<true>(d, t);
    } else {
      a = hn::Load(d, classes.a + j);
      a = hn::MulAdd(a, lambert_delta(d, residual, hn::Div(one, hn::Add(one, a))), a);
    }
    a = row_refine(t, a);
    if (twice) a = row_refine(t, a);
    hn::Store(a, d, classes.a + j);
    const RowV over = hn::Div(one, hn::Add(one, a)), part = hn::Mul(hn::Load(d, classes.share + j), a);
    const RowV first = hn::Mul(part, over);
    v = hn::Add(v, part);
    slope = hn::Add(slope, first);
    curve = hn::MulAdd(first, hn::Mul(over, over), curve);
  }
  return {hn::GetLane(hn::SumOfLanes(d, v)), hn::GetLane(hn::SumOfLanes(d, slope)),
          hn::GetLane(hn::SumOfLanes(d, curve))};
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#endif
