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
inline constexpr std::size_t kTall = LeftPanels::kRows, kWide = DenseProduct::kColumns;
inline constexpr std::size_t kDeep = 256, kGroup = 8 * kTall, kSlice = 64;

// kTall rows of a left factor: number k of row i is row[i][k step]. They lie side by side (step kTall), or
// are rows in memory (step 1).
struct LeftPanel {
  const float* row[kTall];
  std::size_t step;
};
}  // namespace truemax
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

// kHigh x kAcross vectors of out (+)= left [kHigh][depth] right [depth][kWide].
template <bool kAdd, std::size_t kStep>
HWY_INLINE void small_product(const float* const* HWY_RESTRICT left, const float* HWY_RESTRICT right,
                              std::size_t depth, float* HWY_RESTRICT out, std::size_t stride) {
  const DenseTag d;
  const float* row[kHigh];
  for (std::size_t i = 0; i < kHigh; ++i) row[i] = left[i];
  DenseV sum[kHigh][kAcross];
  for (auto& of_row : sum)
    for (auto& v : of_row) v = hn::Zero(d);
  for (std::size_t k = 0; k < depth; ++k) {
    DenseV b[kAcross];
    for (std::size_t j = 0; j < kAcross; ++j) b[j] = hn::LoadU(d, right + k * kWide + j * kDenseWidth);
    for (std::size_t i = 0; i < kHigh; ++i) {
      const DenseV a = hn::Set(d, kStep == 1 ? row[i][k] : row[0][k * kStep + i]);
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

template <bool kAdd, std::size_t kStep>
HWY_INLINE void multiply_panel(const LeftPanel& left, const float* right, std::size_t depth, float* out,
                               std::size_t stride) {
  for (std::size_t i = 0; i < kTall; i += kHigh)
    for (std::size_t j = 0; j < kWide; j += kAcross * kDenseWidth)
      small_product<kAdd, kStep>(left.row + i, right + j, depth, out + i * stride + j, stride);
}

// One panel by one panel, kTall x kWide.
void multiply_here(const LeftPanel& left, const float* right, std::size_t depth, float* out,
                   std::size_t stride, bool add) {
  if (left.step == 1) {
    if (add)
      multiply_panel<true, 1>(left, right, depth, out, stride);
    else
      multiply_panel<false, 1>(left, right, depth, out, stride);
  } else {
    if (add)
      multiply_panel<true, kTall>(left, right, depth, out, stride);
    else
      multiply_panel<false, kTall>(left, right, depth, out, stride);
  }
}

// panel [depth][kTall]. The sums over `each` are independent of each other, so their latencies overlap.
void sum_rows_here(const float* HWY_RESTRICT panel, std::size_t depth, std::size_t each,
                   double* HWY_RESTRICT out) {
  const hn::CappedTag<double, kTall> d;
  const hn::Rebind<float, decltype(d)> narrow;
  constexpr std::size_t kLanesOfSum = hn::MaxLanes(d);
  for (std::size_t j = 0; j < kTall; j += kLanesOfSum) {
    auto total = hn::Zero(d);
    for (std::size_t k = 0; k < depth; k += each) {
      auto sum = hn::Zero(d);
      for (std::size_t i = k; i < std::min(depth, k + each); ++i)
        sum = hn::Add(sum, hn::PromoteTo(d, hn::LoadU(narrow, panel + i * kTall + j)));
      total = hn::Add(total, sum);
    }
    hn::StoreU(total, d, out + j);
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
HWY_EXPORT(sum_rows_here);
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
void pack_lines(const Factor& of, bool by_rows, std::size_t first, std::size_t count, std::size_t wide,
                std::size_t from, std::size_t to, float* out) {
  if (count < wide) std::fill(out, out + (to - from) * wide, 0.0F);
  if (of.transposed != by_rows)  // a line of the factor is a row in memory
    for (std::size_t i = 0; i < count; ++i) {
      const float* const row = of.of.row(first + i) + from;
      for (std::size_t k = 0; k < to - from; ++k) out[k * wide + i] = row[k];
    }
  else if (count == kTall)  // a copy of known size needs no call
    for (std::size_t k = from; k < to; ++k)
      std::memcpy(out + (k - from) * wide, of.of.row(k) + first, kTall * sizeof(float));
  else
    for (std::size_t k = from; k < to; ++k)
      std::memcpy(out + (k - from) * wide, of.of.row(k) + first, count * sizeof(float));
}

}  // namespace

void LeftPanels::reserve(std::size_t rows, std::size_t depth) {
  numbers_.reserve(parts_of(rows, kTall) * kTall * depth);
}

void LeftPanels::start(std::size_t rows, std::size_t depth) {
  rows_ = rows;
  depth_ = depth;
  // Not smaller: numbers that come back would be cleared first.
  if (const std::size_t size = parts_of(rows, kTall) * kTall * depth; numbers_.size() < size)
    numbers_.resize(size);
}

void LeftPanels::pack(const DenseRows& transpose, std::size_t from, std::size_t to) {
  for (std::size_t first = 0; first < rows_; first += kTall)
    pack_lines({transpose, true}, true, first, std::min(kTall, rows_ - first), kTall, from, to,
               numbers_.data() + first * depth_ + from * kTall);
}

void LeftPanels::sum_rows(std::size_t first, std::size_t each, double* out) const {
  alignas(64) double sums[kTall];
  HWY_DYNAMIC_DISPATCH(sum_rows_here)(panel(first), depth_, each, sums);
  std::copy_n(sums, std::min(kTall, rows_ - first), out);
}

void DenseProduct::reserve(std::size_t depth, std::size_t columns) {
  right_.reserve(parts_of(columns, kWide) * kWide * depth);
}

void DenseProduct::start(std::size_t depth, std::size_t columns) {
  reserve(depth, columns);
  depth_ = depth;
  columns_ = columns;
  if (const std::size_t size = parts_of(columns, kWide) * kWide * depth; right_.size() < size)
    right_.resize(size);
}

// Panel p, from k on: at (p depth + k) kWide.
void DenseProduct::pack(const Factor& b, std::size_t first, std::size_t end, std::size_t from,
                        std::size_t to) {
  for (; first < end; first += kWide)
    pack_lines(b, false, first, std::min(kWide, columns_ - first), kWide, from, to,
               right_.data() + first * depth_ + from * kWide);
}

// panel_at(i, k, deep, &panel): rows i ... of the left factor, `deep` numbers from k on.
template <class PanelAt>
void DenseProduct::multiply_panels(std::size_t first, std::size_t end, float* out, std::size_t stride,
                                   const PanelAt& panel_at) const {
  alignas(64) float edge[kTall * kWide];
  LeftPanel left[kGroup / kTall];
  if (depth_ == 0)  // a sum of nothing
    for (std::size_t r = first; r < end; ++r) std::fill_n(out + r * stride, columns_, 0.0F);
  for (std::size_t k = 0; k < depth_; k += kDeep) {
    const std::size_t deep = std::min(kDeep, depth_ - k);
    for (std::size_t i = first; i < end; i += kTall) panel_at(i, k, deep, &left[(i - first) / kTall]);
    for (std::size_t c = 0; c < columns_; c += kWide)
      for (std::size_t i = first; i < end; i += kTall) {
        const std::size_t high = std::min(kTall, end - i), wide = std::min(kWide, columns_ - c);
        float* const at = out + i * stride + c;
        const LeftPanel& rows = left[(i - first) / kTall];
        const float* const right = right_.data() + c * depth_ + k * kWide;
        if (high == kTall && wide == kWide) {
          HWY_DYNAMIC_DISPATCH(multiply_here)(rows, right, deep, at, stride, k > 0);
          continue;
        }
        HWY_DYNAMIC_DISPATCH(multiply_here)(rows, right, deep, edge, kWide, false);
        for (std::size_t r = 0; r < high; ++r)
          for (std::size_t j = 0; j < wide; ++j) {
            const float before = k > 0 ? at[r * stride + j] : 0.0F;
            at[r * stride + j] = before + edge[r * kWide + j];
          }
      }
  }
}

void DenseProduct::multiply_rows(const Factor& a, std::size_t first, std::size_t end, float* out,
                                 std::size_t stride, std::size_t member) {
  float* const buffer = a.transposed ? left_[member].data() : nullptr;
  for (; first < end; first += kGroup) {
    const std::size_t last = std::min(end, first + kGroup);
    multiply_panels(first, last, out, stride,
                    [&](std::size_t i, std::size_t k, std::size_t deep, LeftPanel* panel) {
                      float* const packed = buffer + (i - first) * deep;
                      if (a.transposed)
                        pack_lines(a, true, i, std::min(kTall, last - i), kTall, k, k + deep, packed);
                      panel->step = a.transposed ? kTall : 1;
                      // Beyond the last row, any row: nobody reads the result.
                      for (std::size_t r = 0; r < kTall; ++r)
                        panel->row[r] = a.transposed ? packed + r : a.of.row(std::min(i + r, last - 1)) + k;
                    });
  }
}

void DenseProduct::multiply_rows(const LeftPanels& a, std::size_t first, std::size_t end, float* out,
                                 std::size_t stride) const {
  for (; first < end; first += kGroup)
    multiply_panels(first, std::min(end, first + kGroup), out, stride,
                    [&](std::size_t i, std::size_t k, std::size_t /*deep*/, LeftPanel* panel) {
                      panel->step = kTall;
                      for (std::size_t r = 0; r < kTall; ++r) panel->row[r] = a.panel(i) + k * kTall + r;
                    });
}

// Many tasks for each member, so that all end at about the same time; but each reads all of b, from the
// second cache if it fits there. The result does not depend on it.
std::size_t DenseProduct::rows_at_once(std::size_t rows, const Team& team) const {
  constexpr std::size_t kTasksOfMember = 8, kNear = std::size_t{192} * 1024;
  if (team.size() == 1) return kGroup;
  const std::size_t least = parts_of(columns_, kWide) * kWide * depth_ <= kNear ? kTall : 2 * kTall;
  return std::clamp(parts_of(parts_of(rows, kTasksOfMember * team.size()), kTall) * kTall, least, kGroup);
}

void DenseProduct::multiply(const Factor& a, const Factor& b, float* out, std::size_t stride, Team& team) {
  const std::size_t rows = a.rows(), columns = b.columns(), depth = a.columns();
  start(depth, columns);
  if (a.transposed) {
    left_.resize(team.size());
    for (auto& left : left_) left.resize(kGroup * kDeep);
  }
  const std::size_t slices = parts_of(depth, kSlice);
  team.share(parts_of(columns, kWide) * slices, [&](std::size_t /*member*/, std::size_t task) {
    const std::size_t first = task / slices * kWide, k = task % slices * kSlice;
    pack(b, first, std::min(columns, first + kWide), k, std::min(depth, k + kSlice));
  });
  const std::size_t each = rows_at_once(rows, team);
  team.share_near(parts_of(rows, each), [&](std::size_t member, std::size_t task) {
    multiply_rows(a, task * each, std::min(rows, (task + 1) * each), out, stride, member);
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
