#include "solve/dense.hpp"

#ifndef HWY_DISABLED_TARGETS
// Sizeless vectors (SVE, RVV) use NEON or the scalar path, as in weights/tile.cpp.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "solve/dense.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <cmath>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DenseTag = hn::CappedTag<double, kDenseLanes>;
constexpr std::size_t kDenseWidth = hn::MaxLanes(DenseTag());

// y += factor x, from column `first` (rounded down to a whole vector) on.
HWY_INLINE void add_multiple(double factor, const double* x, double* y, std::size_t first,
                             std::size_t stride) {
  const DenseTag d;
  const auto f = hn::Set(d, factor);
  for (std::size_t j = first / kDenseWidth * kDenseWidth; j < stride; j += kDenseWidth)
    hn::Store(hn::MulAdd(f, hn::Load(d, x + j), hn::Load(d, y + j)), d, y + j);
}

void invert_definite_here(double* a, std::size_t n, std::size_t stride) {
  const DenseTag d;
  for (std::size_t p = 0; p < n; ++p) {
    double* pivot = a + p * stride;
    const double over = 1 / pivot[p];
    pivot[p] = 1;
    for (std::size_t j = 0; j < stride; j += kDenseWidth)
      hn::Store(hn::Mul(hn::Set(d, over), hn::Load(d, pivot + j)), d, pivot + j);
    // Column p of the other rows starts from 0. The mask does this in registers: storing one number and
    // reloading it in a vector would stall every row.
    const std::size_t own = p / kDenseWidth * kDenseWidth;
    const auto at_p = hn::Eq(hn::Iota(d, 0.0), hn::Set(d, static_cast<double>(p - own)));
    for (std::size_t i = 0; i < n; ++i) {
      if (i == p) continue;
      double* row = a + i * stride;
      const auto factor = hn::Set(d, row[p]);
      for (std::size_t j = 0; j < stride; j += kDenseWidth) {
        auto v = hn::Load(d, row + j);
        if (j == own) v = hn::IfThenZeroElse(at_p, v);
        hn::Store(hn::NegMulAdd(factor, hn::Load(d, pivot + j), v), d, row + j);
      }
    }
  }
}

void add_product_here(double* out, std::size_t out_stride, const double* a, std::size_t a_stride,
                      const double* b, std::size_t b_stride, std::size_t rows, std::size_t inner,
                      std::size_t columns) {
  const DenseTag d;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; j += kDenseWidth) {
      auto sum = hn::Load(d, out + i * out_stride + j);
      for (std::size_t k = 0; k < inner; ++k)
        sum = hn::MulAdd(hn::Set(d, a[i * a_stride + k]), hn::Load(d, b + k * b_stride + j), sum);
      hn::Store(sum, d, out + i * out_stride + j);
    }
}

void factor_lu_here(double* a, std::size_t n, std::size_t stride, std::size_t* pivot) {
  for (std::size_t p = 0; p < n; ++p) {
    std::size_t best = p;
    for (std::size_t i = p + 1; i < n; ++i)
      if (std::abs(a[i * stride + p]) > std::abs(a[best * stride + p])) best = i;
    pivot[p] = best;
    if (best != p)
      for (std::size_t j = 0; j < n; ++j) std::swap(a[p * stride + j], a[best * stride + j]);
    const double* top = a + p * stride;
    const double over = 1 / top[p];
    for (std::size_t i = p + 1; i < n; ++i) {
      double* row = a + i * stride;
      if (row[p] == 0) continue;
      const double factor = row[p] * over;
      // Whole vectors: columns before p + 1 hold multipliers and must not change.
      const std::size_t whole = (p + 1 + kDenseWidth - 1) / kDenseWidth * kDenseWidth;
      for (std::size_t j = p + 1; j < whole && j < n; ++j) row[j] -= factor * top[j];
      if (whole < stride) add_multiple(-factor, top, row, whole, stride);
      row[p] = factor;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(invert_definite_here);
HWY_EXPORT(add_product_here);
HWY_EXPORT(factor_lu_here);

void invert_definite(double* a, std::size_t n, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(invert_definite_here)(a, n, stride);
}

void add_product(double* out, std::size_t out_stride, const double* a, std::size_t a_stride, const double* b,
                 std::size_t b_stride, std::size_t rows, std::size_t inner, std::size_t columns) {
  HWY_DYNAMIC_DISPATCH(add_product_here)(out, out_stride, a, a_stride, b, b_stride, rows, inner, columns);
}

void factor_lu(double* a, std::size_t n, std::size_t stride, std::size_t* pivot) {
  HWY_DYNAMIC_DISPATCH(factor_lu_here)(a, n, stride, pivot);
}

void solve_lu(const double* a, std::size_t n, std::size_t stride, const std::size_t* pivot, double* x) {
  for (std::size_t i = 0; i < n; ++i) std::swap(x[i], x[pivot[i]]);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j) x[i] -= a[i * stride + j] * x[j];
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = i + 1; j < n; ++j) x[i] -= a[i * stride + j] * x[j];
    x[i] /= a[i * stride + i];
  }
}

}  // namespace truemax
#endif  // HWY_ONCE
