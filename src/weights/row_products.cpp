#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/row_products.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <algorithm>

#include "weights/row_products.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ProductTag = hn::CappedTag<double, kProductLanes>;
using ProductV = hn::Vec<ProductTag>;
constexpr std::size_t kProductWidth = hn::MaxLanes(ProductTag());

// kVectors vectors of every row, beginning at column `first`, in registers.
template <std::size_t kVectors>
void multiply_columns(const DoubleRows& x, const double* HWY_RESTRICT v, const double* HWY_RESTRICT base,
                      std::size_t lanes, std::size_t first, double* HWY_RESTRICT z) {
  const ProductTag d;
  for (std::size_t i = 0; i < x.rows(); ++i) {
    ProductV sum[kVectors];
    for (std::size_t j = 0; j < kVectors; ++j) sum[j] = hn::LoadU(d, base + first + j * kProductWidth);
    for (std::uint64_t at = x.begin[i]; at < x.begin[i + 1]; ++at) {
      const double* const w = v + x.index[at] * lanes + first;
      const ProductV value = hn::Set(d, x.value[at]);
      for (std::size_t j = 0; j < kVectors; ++j)
        sum[j] = hn::MulAdd(value, hn::LoadU(d, w + j * kProductWidth), sum[j]);
    }
    for (std::size_t j = 0; j < kVectors; ++j)
      hn::StoreU(sum[j], d, z + i * lanes + first + j * kProductWidth);
  }
}

template <std::size_t kVectors>
void add_columns(const DoubleRows& x, const double* HWY_RESTRICT r, std::size_t lanes, std::size_t first,
                 double* HWY_RESTRICT out) {
  const ProductTag d;
  for (std::size_t i = 0; i < x.rows(); ++i) {
    ProductV rest[kVectors];
    for (std::size_t j = 0; j < kVectors; ++j)
      rest[j] = hn::LoadU(d, r + i * lanes + first + j * kProductWidth);
    for (std::uint64_t at = x.begin[i]; at < x.begin[i + 1]; ++at) {
      double* const w = out + x.index[at] * lanes + first;
      const ProductV value = hn::Set(d, x.value[at]);
      for (std::size_t j = 0; j < kVectors; ++j)
        hn::StoreU(hn::MulAdd(value, rest[j], hn::LoadU(d, w + j * kProductWidth)), d, w + j * kProductWidth);
    }
  }
}

template <std::size_t kVectors>
void add_squared_columns(const DoubleRows& x, const double* HWY_RESTRICT r, std::size_t lanes,
                         std::size_t first, double* HWY_RESTRICT out) {
  const ProductTag d;
  for (std::size_t i = 0; i < x.rows(); ++i)
    for (std::uint64_t a = x.begin[i]; a < x.begin[i + 1]; ++a) {
      ProductV times[kVectors];
      for (std::size_t j = 0; j < kVectors; ++j)
        times[j] = hn::Mul(hn::Set(d, x.value[a]), hn::LoadU(d, r + i * lanes + first + j * kProductWidth));
      const std::size_t row = std::size_t{x.index[a]} * (std::size_t{x.index[a]} + 1) / 2;
      for (std::uint64_t b = x.begin[i]; b <= a; ++b) {
        double* const w = out + (row + x.index[b]) * lanes + first;
        const ProductV value = hn::Set(d, x.value[b]);
        for (std::size_t j = 0; j < kVectors; ++j)
          hn::StoreU(hn::MulAdd(value, times[j], hn::LoadU(d, w + j * kProductWidth)), d,
                     w + j * kProductWidth);
      }
    }
}

// All columns: as many at a time as registers hold.
template <class Part1, class Part2, class Part4>
HWY_INLINE void by_columns(std::size_t lanes, const Part1& one, const Part2& two, const Part4& four) {
  std::size_t first = 0;
  for (; first + 4 * kProductWidth <= lanes; first += 4 * kProductWidth) four(first);
  for (; first + 2 * kProductWidth <= lanes; first += 2 * kProductWidth) two(first);
  for (; first < lanes; first += kProductWidth) one(first);
}

void multiply_rows_here(const DoubleRows& x, const double* v, const double* base, std::size_t lanes,
                        double* z) {
  by_columns(
      lanes, [&](std::size_t first) { multiply_columns<1>(x, v, base, lanes, first, z); },
      [&](std::size_t first) { multiply_columns<2>(x, v, base, lanes, first, z); },
      [&](std::size_t first) { multiply_columns<4>(x, v, base, lanes, first, z); });
}

void add_transposed_here(const DoubleRows& x, const double* r, std::size_t lanes, double* out) {
  by_columns(
      lanes, [&](std::size_t first) { add_columns<1>(x, r, lanes, first, out); },
      [&](std::size_t first) { add_columns<2>(x, r, lanes, first, out); },
      [&](std::size_t first) { add_columns<4>(x, r, lanes, first, out); });
}

void add_squared_here(const DoubleRows& x, const double* r, std::size_t lanes, double* out) {
  by_columns(
      lanes, [&](std::size_t first) { add_squared_columns<1>(x, r, lanes, first, out); },
      [&](std::size_t first) { add_squared_columns<2>(x, r, lanes, first, out); },
      [&](std::size_t first) { add_squared_columns<4>(x, r, lanes, first, out); });
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(multiply_rows_here);
HWY_EXPORT(add_transposed_here);
HWY_EXPORT(add_squared_here);

void multiply_rows(const DoubleRows& x, const double* v, const double* base, std::size_t lanes, double* z) {
  HWY_DYNAMIC_DISPATCH(multiply_rows_here)(x, v, base, lanes, z);
}

void add_transposed(const DoubleRows& x, const double* r, std::size_t lanes, double* out) {
  HWY_DYNAMIC_DISPATCH(add_transposed_here)(x, r, lanes, out);
}

void add_squared(const DoubleRows& x, const double* r, std::size_t lanes, double* out) {
  HWY_DYNAMIC_DISPATCH(add_squared_here)(x, r, lanes, out);
}

}  // namespace truemax
#endif
