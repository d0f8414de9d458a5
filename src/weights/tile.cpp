// Sizeless vectors (SVE, RVV) cannot be stored in arrays; those machines use NEON or the scalar path here.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/tile.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <array>
#include <limits>

#include "weights/tile.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, 8>;
constexpr std::size_t kWidth = hn::MaxLanes(Doubles());
constexpr std::size_t kVectors = kLanes / kWidth;
using Vector = hn::Vec<Doubles>;

// One row of a tile.
HWY_INLINE void row_scores(RowView x, const float* HWY_RESTRICT block, const TileStart& start,
                           double* HWY_RESTRICT out) {
  const Doubles d;
  const hn::Rebind<float, Doubles> f;
  Vector z[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v)
    z[v] = start.scaled ? hn::Zero(d) : hn::Load(d, start.intercept.data() + v * kWidth);
  for (std::size_t j = 0; j < x.index.size(); ++j) {
    const Vector value = hn::Set(d, static_cast<double>(x.value[j]));
    const float* line = block + std::size_t{x.index[j]} * kLanes;
    // The product of two floats is exact in double, so fusing does not change the sum.
    for (std::size_t v = 0; v < kVectors; ++v)
      z[v] = hn::MulAdd(value, hn::PromoteTo(d, hn::LoadU(f, line + v * kWidth)), z[v]);
  }
  if (start.scaled)
    for (std::size_t v = 0; v < kVectors; ++v)  // two roundings, as in score()
      z[v] = hn::Add(hn::Mul(hn::Load(d, start.scale.data() + v * kWidth), z[v]),
                     hn::Load(d, start.intercept.data() + v * kWidth));
  for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(z[v], d, out + v * kWidth);
}

void score_tile_here(CsrView rows, std::size_t first, std::size_t count, const float* block,
                     const TileStart& start, double* tile) {
  for (std::size_t r = 0; r < count; ++r) row_scores(rows.row(first + r), block, start, tile + r * kLanes);
}

void score_row_here(RowView x, const float* block, const TileStart& start, double* z) {
  row_scores(x, block, start, z);
}

void add_tile_here(RowView x, const double* HWY_RESTRICT c, float* HWY_RESTRICT block) {
  const Doubles d;
  const hn::Rebind<float, Doubles> f;
  Vector factor[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) factor[v] = hn::LoadU(d, c + v * kWidth);
  for (std::size_t j = 0; j < x.index.size(); ++j) {
    const Vector value = hn::Set(d, static_cast<double>(x.value[j]));
    float* line = block + std::size_t{x.index[j]} * kLanes;
    for (std::size_t v = 0; v < kVectors; ++v) {
      const Vector w = hn::PromoteTo(d, hn::LoadU(f, line + v * kWidth));
      hn::StoreU(hn::DemoteTo(f, hn::Add(w, hn::Mul(factor[v], value))), f, line + v * kWidth);
    }
  }
}

void accumulate_tile_here(double* HWY_RESTRICT tile, std::size_t count, std::size_t lanes,
                          double* HWY_RESTRICT highest, double* HWY_RESTRICT sum,
                          double* HWY_RESTRICT tile_highest) {
  const Doubles d;
  for (std::size_t r = 0; r < count; ++r) {
    double* z = tile + r * kLanes;
    for (std::size_t lane = lanes; lane < kLanes; ++lane) z[lane] = std::numeric_limits<double>::lowest();
    Vector most = hn::LoadU(d, z);
    for (std::size_t v = 1; v < kVectors; ++v) most = hn::Max(most, hn::LoadU(d, z + v * kWidth));
    const double top = hn::GetLane(hn::MaxOfLanes(d, most));
    tile_highest[r] = top;
    if (top > highest[r]) {
      const Vector old = hn::Exp(d, hn::Set(d, highest[r] - top));
      sum[r] *= hn::GetLane(old);
      highest[r] = top;
    }
    const Vector base = hn::Set(d, highest[r]);
    Vector total = hn::Zero(d);
    for (std::size_t v = 0; v < kVectors; ++v)
      total = hn::Add(total, hn::Exp(d, hn::Sub(hn::LoadU(d, z + v * kWidth), base)));
    sum[r] += hn::GetLane(hn::SumOfLanes(d, total));
  }
}

void logs_of_here(const double* HWY_RESTRICT x, std::size_t count, double* HWY_RESTRICT out) {
  const Doubles d;
  std::size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) hn::StoreU(hn::Log(d, hn::LoadU(d, x + i)), d, out + i);
  if (i == count) return;
  double last[kWidth], logs[kWidth];
  for (std::size_t k = 0; k < kWidth; ++k) last[k] = i + k < count ? x[i + k] : 1.0;
  hn::StoreU(hn::Log(d, hn::LoadU(d, last)), d, logs);
  for (std::size_t k = 0; i + k < count; ++k) out[i + k] = logs[k];
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(score_tile_here);
HWY_EXPORT(score_row_here);
HWY_EXPORT(add_tile_here);
HWY_EXPORT(accumulate_tile_here);
HWY_EXPORT(logs_of_here);

TileStart::TileStart(const Weights& w, std::size_t b) : scaled(w.scaled()) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::size_t k = b * kLanes + lane;
    intercept[lane] = w.has_intercept() ? static_cast<double>(w.intercept()[k]) : 0.0;
    scale[lane] = k < w.classes() ? w.scale(static_cast<ClassId>(k)) : 1.0;
  }
}

void score_tile(CsrView rows, std::size_t first, std::size_t count, const float* block,
                const TileStart& start, double* tile) {
  HWY_DYNAMIC_DISPATCH(score_tile_here)(rows, first, count, block, start, tile);
}

void score_row(RowView x, const float* block, const TileStart& start, double* z) {
  HWY_DYNAMIC_DISPATCH(score_row_here)(x, block, start, z);
}

void add_tile(RowView x, const double* c, float* block) {
  HWY_DYNAMIC_DISPATCH(add_tile_here)(x, c, block);
}

void accumulate_tile(double* tile, std::size_t count, std::size_t lanes, double* highest, double* sum,
                     double* tile_highest) {
  HWY_DYNAMIC_DISPATCH(accumulate_tile_here)(tile, count, lanes, highest, sum, tile_highest);
}

void logs_of(const double* x, std::size_t count, double* out) {
  HWY_DYNAMIC_DISPATCH(logs_of_here)(x, count, out);
}

}  // namespace truemax
#endif  // HWY_ONCE
