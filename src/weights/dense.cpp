#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/dense.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "weights/exp_vector.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "weights/dense.hpp"

// A product is cut into panels: kTall rows of the left factor, kWide columns of the right one, kDeep of the
// sum at a time. A panel of the right factor fits in the first cache, one of the left factor in a few lines.
#ifndef TRUEMAX_DENSE_PANELS
#define TRUEMAX_DENSE_PANELS
namespace truemax {
inline constexpr std::size_t kTall = 8, kWide = 32, kDeep = 256, kGroup = 8 * kTall, kSlice = 64;
}
#endif

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DenseTag = hn::CappedTag<float, 16>;
using DenseV = hn::Vec<DenseTag>;
constexpr std::size_t kDenseWidth = hn::MaxLanes(DenseTag());
// Sums kept in registers: 16 of 32 registers, or 8 of 16.
constexpr std::size_t kHigh = kDenseWidth == 16 ? kTall : 4;
constexpr std::size_t kAcross = 2;

// kHigh x kAcross vectors of out (+)= left [depth][kTall] right [depth][kWide].
template <bool kAdd>
HWY_INLINE void small_product(const float* HWY_RESTRICT left, const float* HWY_RESTRICT right,
                              std::size_t depth, float* HWY_RESTRICT out, std::size_t stride) {
  const DenseTag d;
  DenseV sum[kHigh][kAcross];
  for (auto& row : sum)
    for (auto& v : row) v = hn::Zero(d);
  for (std::size_t k = 0; k < depth; ++k) {
    DenseV b[kAcross];
    for (std::size_t j = 0; j < kAcross; ++j) b[j] = hn::LoadU(d, right + k * kWide + j * kDenseWidth);
    for (std::size_t i = 0; i < kHigh; ++i) {
      const DenseV a = hn::Set(d, left[k * kTall + i]);
      for (std::size_t j = 0; j < kAcross; ++j) sum[i][j] = hn::MulAdd(a, b[j], sum[i][j]);
    }
  }
  for (std::size_t i = 0; i < kHigh; ++i)
    for (std::size_t j = 0; j < kAcross; ++j) {
      float* const at = out + i * stride + j * kDenseWidth;
      if (kAdd) sum[i][j] = hn::Add(hn::LoadU(d, at), sum[i][j]);
      hn::StoreU(sum[i][j], d, at);
    }
}

// One panel by one panel, kTall x kWide.
void multiply_here(const float* left, const float* right, std::size_t depth, float* out, std::size_t stride,
                   bool add) {
  for (std::size_t i = 0; i < kTall; i += kHigh)
    for (std::size_t j = 0; j < kWide; j += kAcross * kDenseWidth) {
      if (add)
        small_product<true>(left + i, right + j, depth, out + i * stride + j, stride);
      else
        small_product<false>(left + i, right + j, depth, out + i * stride + j, stride);
    }
}

void add_scaled_here(float* HWY_RESTRICT sum, const float* HWY_RESTRICT x, float scale, std::size_t count) {
  const DenseTag d;
  const DenseV s = hn::Set(d, scale);
  std::size_t i = 0;
  for (; i + kDenseWidth <= count; i += kDenseWidth)
    hn::StoreU(hn::MulAdd(s, hn::LoadU(d, x + i), hn::LoadU(d, sum + i)), d, sum + i);
  for (; i < count; ++i) sum[i] = std::fma(scale, x[i], sum[i]);
}

void add_product_here(float* HWY_RESTRICT sum, const float* HWY_RESTRICT x, const float* HWY_RESTRICT y,
                      std::size_t count) {
  const DenseTag d;
  std::size_t i = 0;
  for (; i + kDenseWidth <= count; i += kDenseWidth)
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), hn::LoadU(d, sum + i)), d, sum + i);
  for (; i < count; ++i) sum[i] = std::fma(x[i], y[i], sum[i]);
}

// (1 - e)/(1 + e) with e = exp(-2|x|): never overflows.
void tanh_row_here(float* HWY_RESTRICT x, const float* HWY_RESTRICT bias, std::size_t count) {
  const DenseTag d;
  const DenseV one = hn::Set(d, 1.0F), twice = hn::Set(d, -2.0F);
  std::size_t i = 0;
  for (; i + kDenseWidth <= count; i += kDenseWidth) {
    const DenseV a = hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, bias + i));
    const DenseV e = exp_of_falling(d, hn::Mul(twice, hn::Abs(a)));
    hn::StoreU(hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), a), d, x + i);
  }
  for (; i < count; ++i) x[i] = std::tanh(x[i] + bias[i]);
}

void tanh_slope_here(float* HWY_RESTRICT g, const float* HWY_RESTRICT t, std::size_t count) {
  const DenseTag d;
  const DenseV one = hn::Set(d, 1.0F);
  std::size_t i = 0;
  for (; i + kDenseWidth <= count; i += kDenseWidth) {
    const DenseV of = hn::LoadU(d, t + i);
    hn::StoreU(hn::Mul(hn::LoadU(d, g + i), hn::NegMulAdd(of, of, one)), d, g + i);
  }
  for (; i < count; ++i) g[i] *= std::fma(-t[i], t[i], 1.0F);
}

void keep_some_here(float* HWY_RESTRICT x, const std::uint8_t* HWY_RESTRICT kept, float factor,
                    std::size_t count) {
  const DenseTag d;
  const hn::Rebind<std::uint8_t, DenseTag> bytes;
  const hn::Rebind<std::int32_t, DenseTag> wide;
  const DenseV f = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i + kDenseWidth <= count; i += kDenseWidth) {
    const auto zero = hn::Eq(hn::PromoteTo(wide, hn::LoadU(bytes, kept + i)), hn::Zero(wide));
    hn::StoreU(hn::IfThenZeroElse(hn::RebindMask(d, zero), hn::Mul(f, hn::LoadU(d, x + i))), d, x + i);
  }
  for (; i < count; ++i) x[i] = kept[i] != 0 ? factor * x[i] : 0.0F;
}

float dot_here(const float* HWY_RESTRICT x, const float* HWY_RESTRICT y, std::size_t count) {
  const DenseTag d;
  DenseV a = hn::Zero(d), b = hn::Zero(d);
  std::size_t i = 0;
  for (; i + 2 * kDenseWidth <= count; i += 2 * kDenseWidth) {
    a = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), a);
    b = hn::MulAdd(hn::LoadU(d, x + i + kDenseWidth), hn::LoadU(d, y + i + kDenseWidth), b);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  for (; i < count; ++i) sum += x[i] * y[i];
  return sum;
}

double exp_scores_here(float* HWY_RESTRICT z, const float* HWY_RESTRICT offset, std::size_t count,
                       float label_score, std::size_t own, float* HWY_RESTRICT highest) {
  const DenseTag d;
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const DenseV label = hn::Set(d, label_score);
  DenseV most = hn::Set(d, kNever);
  std::size_t i = 0;
  for (; i + kDenseWidth <= count; i += kDenseWidth) {
    const DenseV t = hn::Sub(hn::Add(hn::LoadU(d, z + i), hn::LoadU(d, offset + i)), label);
    hn::StoreU(t, d, z + i);
  }
  for (; i < count; ++i) z[i] = z[i] + offset[i] - label_score;
  if (own < count) z[own] = kNever;
  for (i = 0; i + kDenseWidth <= count; i += kDenseWidth) most = hn::Max(most, hn::LoadU(d, z + i));
  float top = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < count; ++i) top = std::max(top, z[i]);
  *highest = top;
  if (top == kNever) {
    std::fill(z, z + count, 0.0F);
    return -std::numeric_limits<double>::infinity();
  }
  const DenseV base = hn::Set(d, top);
  DenseV sum = hn::Zero(d);
  for (i = 0; i + kDenseWidth <= count; i += kDenseWidth) {
    const DenseV e = exp_of_falling(d, hn::Sub(hn::LoadU(d, z + i), base));
    hn::StoreU(e, d, z + i);
    sum = hn::Add(sum, e);
  }
  double total = 0;
  for (; i < count; ++i) {
    z[i] = std::exp(std::max(z[i] - top, -86.6F));
    total += static_cast<double>(z[i]);
  }
  if (own < count) {
    const float left = z[own];  // exp of minus infinity is not quite 0 here
    z[own] = 0;
    total -= static_cast<double>(left);
  }
  return static_cast<double>(top) +
         std::log(total + static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum))));
}

double scale_row_here(float* HWY_RESTRICT x, std::size_t count, float factor) {
  const DenseTag d;
  const DenseV f = hn::Set(d, factor);
  DenseV sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kDenseWidth <= count; i += kDenseWidth) {
    const DenseV y = hn::Mul(f, hn::LoadU(d, x + i));
    hn::StoreU(y, d, x + i);
    sum = hn::Add(sum, y);
  }
  double total = 0;
  for (; i < count; ++i) {
    x[i] *= factor;
    total += static_cast<double>(x[i]);
  }
  return total + static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
}

void rms_step_here(float* HWY_RESTRICT w, float* HWY_RESTRICT v, const float* HWY_RESTRICT gradient,
                   std::size_t count, float rate, float keep) {
  const DenseTag d;
  constexpr float kTiny = 1e-8F;
  const DenseV kept = hn::Set(d, keep), fresh = hn::Set(d, 1 - keep), r = hn::Set(d, -rate);
  const DenseV tiny = hn::Set(d, kTiny);
  std::size_t i = 0;
  for (; i + kDenseWidth <= count; i += kDenseWidth) {
    const DenseV g = hn::LoadU(d, gradient + i);
    const DenseV square = hn::MulAdd(kept, hn::LoadU(d, v + i), hn::Mul(fresh, hn::Mul(g, g)));
    hn::StoreU(square, d, v + i);
    const DenseV move = hn::Div(hn::Mul(r, g), hn::Add(hn::Sqrt(square), tiny));
    hn::StoreU(hn::Add(hn::LoadU(d, w + i), move), d, w + i);
  }
  for (; i < count; ++i) {
    v[i] = keep * v[i] + (1 - keep) * (gradient[i] * gradient[i]);
    w[i] -= rate * gradient[i] / (std::sqrt(v[i]) + kTiny);
  }
}

void rms_row_step_here(float* HWY_RESTRICT w, float* HWY_RESTRICT v, const float* HWY_RESTRICT gradient,
                       std::size_t count, float rate, float keep) {
  constexpr float kTiny = 1e-8F;
  const float mean = dot_here(gradient, gradient, count) / static_cast<float>(count);
  *v = keep * *v + (1 - keep) * mean;
  add_scaled_here(w, gradient, -rate / (std::sqrt(*v) + kTiny), count);
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(multiply_here);
HWY_EXPORT(add_scaled_here);
HWY_EXPORT(add_product_here);
HWY_EXPORT(tanh_row_here);
HWY_EXPORT(tanh_slope_here);
HWY_EXPORT(keep_some_here);
HWY_EXPORT(dot_here);
HWY_EXPORT(exp_scores_here);
HWY_EXPORT(scale_row_here);
HWY_EXPORT(rms_step_here);
HWY_EXPORT(rms_row_step_here);

namespace {

std::size_t parts_of(std::size_t n, std::size_t size) {
  return (n + size - 1) / size;
}

// Lines `first` ... of a factor, `count` of them padded with zeros to `wide`, numbers from ... to of each, as
// [to - from][wide]. A line is a row if `by_rows`, else a column.
void pack(const Factor& of, bool by_rows, std::size_t first, std::size_t count, std::size_t wide,
          std::size_t from, std::size_t to, float* out) {
  if (count < wide) std::fill(out, out + (to - from) * wide, 0.0F);
  if (of.transposed != by_rows)  // a line of the factor is a row in memory
    for (std::size_t i = 0; i < count; ++i) {
      const float* const row = of.of.row(first + i) + from;
      for (std::size_t k = 0; k < to - from; ++k) out[k * wide + i] = row[k];
    }
  else
    for (std::size_t k = from; k < to; ++k)
      std::memcpy(out + (k - from) * wide, of.of.row(k) + first, count * sizeof(float));
}

}  // namespace

void DenseProduct::reserve(std::size_t depth, std::size_t columns, const Team& team) {
  right_.reserve(parts_of(columns, kWide) * kWide * depth);
  left_.resize(team.size());
  for (auto& left : left_) left.resize(kGroup * kDeep);
}

void DenseProduct::multiply(const Factor& a, const Factor& b, float* out, std::size_t stride, Team& team) {
  const std::size_t rows = a.rows(), columns = b.columns(), depth = a.columns();
  const std::size_t panels = parts_of(columns, kWide);
  if (depth == 0)  // a sum of nothing
    for (std::size_t r = 0; r < rows; ++r) std::fill_n(out + r * stride, columns, 0.0F);
  reserve(depth, columns, team);
  right_.resize(panels * kWide * depth);
  // Panel p, from k on: at (p depth + k) kWide.
  const std::size_t slices = parts_of(depth, kSlice);
  team.share(panels * slices, [&](std::size_t /*member*/, std::size_t task) {
    const std::size_t p = task / slices, k = task % slices * kSlice;
    pack(b, false, p * kWide, std::min(kWide, columns - p * kWide), kWide, k, std::min(depth, k + kSlice),
         right_.data() + (p * depth + k) * kWide);
  });
  // So many rows at once that all members have about the same; the result does not depend on it.
  const std::size_t each = std::clamp(parts_of(parts_of(rows, team.size()), kTall) * kTall, kTall, kGroup);
  team.share(parts_of(rows, each), [&](std::size_t member, std::size_t g) {
    float* const left = left_[member].data();
    alignas(64) float edge[kTall * kWide];
    const std::size_t first = g * each, count = std::min(each, rows - first);
    for (std::size_t k = 0; k < depth; k += kDeep) {
      const std::size_t deep = std::min(kDeep, depth - k);
      for (std::size_t i = 0; i < count; i += kTall)
        pack(a, true, first + i, std::min(kTall, count - i), kTall, k, k + deep, left + i * deep);
      for (std::size_t p = 0; p < panels; ++p)
        for (std::size_t i = 0; i < count; i += kTall) {
          const std::size_t high = std::min(kTall, count - i), wide = std::min(kWide, columns - p * kWide);
          float* const at = out + (first + i) * stride + p * kWide;
          const float* const right = right_.data() + (p * depth + k) * kWide;
          if (high == kTall && wide == kWide) {
            HWY_DYNAMIC_DISPATCH(multiply_here)(left + i * deep, right, deep, at, stride, k > 0);
            continue;
          }
          HWY_DYNAMIC_DISPATCH(multiply_here)(left + i * deep, right, deep, edge, kWide, false);
          for (std::size_t r = 0; r < high; ++r)
            for (std::size_t c = 0; c < wide; ++c) {
              const float before = k > 0 ? at[r * stride + c] : 0.0F;
              at[r * stride + c] = before + edge[r * kWide + c];
            }
        }
    }
  });
}

void add_scaled(float* sum, const float* x, float scale, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(add_scaled_here)(sum, x, scale, count);
}
void add_product(float* sum, const float* x, const float* y, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(add_product_here)(sum, x, y, count);
}
void tanh_row(float* x, const float* bias, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(tanh_row_here)(x, bias, count);
}
void tanh_slope(float* g, const float* t, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(tanh_slope_here)(g, t, count);
}
void keep_some(float* x, const std::uint8_t* kept, float factor, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(keep_some_here)(x, kept, factor, count);
}
float dot(const float* x, const float* y, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(dot_here)(x, y, count);
}
double exp_scores(float* z, const float* offset, std::size_t count, float label_score, std::size_t own,
                  float* highest) {
  return HWY_DYNAMIC_DISPATCH(exp_scores_here)(z, offset, count, label_score, own, highest);
}
double scale_row(float* x, std::size_t count, float factor) {
  return HWY_DYNAMIC_DISPATCH(scale_row_here)(x, count, factor);
}
void rms_step(float* w, float* v, const float* gradient, std::size_t count, float rate, float keep) {
  HWY_DYNAMIC_DISPATCH(rms_step_here)(w, v, gradient, count, rate, keep);
}
void rms_row_step(float* w, float* v, const float* gradient, std::size_t count, float rate, float keep) {
  HWY_DYNAMIC_DISPATCH(rms_row_step_here)(w, v, gradient, count, rate, keep);
}

}  // namespace truemax
#endif  // HWY_ONCE
