#include "weights/lbfgs.hpp"

#include <algorithm>

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/lbfgs.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using LineTag = hn::CappedTag<float, kLanes>;
using LineV = hn::Vec<LineTag>;
constexpr std::size_t kLineWidth = hn::MaxLanes(LineTag());
using HalfTag = hn::Rebind<float, hn::CappedTag<double, kLanes / 2>>;
using SumTag = hn::CappedTag<double, kLanes / 2>;
using SumV = hn::Vec<SumTag>;
constexpr std::size_t kSumWidth = hn::MaxLanes(SumTag());

HWY_INLINE SumV load_double(const float* from) {
  return hn::PromoteTo(SumTag(), hn::LoadU(HalfTag(), from));
}
HWY_INLINE double total_of(SumV sum) {
  return hn::GetLane(hn::SumOfLanes(SumTag(), sum));
}
// NaN if a number is: Max may leave it out.
HWY_INLINE float largest_of(LineV most, LineV nan) {
  const LineTag d;
  return hn::GetLane(hn::MaxOfLanes(d, most)) + hn::GetLane(hn::SumOfLanes(d, nan));
}

float step_lines(float* HWY_RESTRICT to, const float* HWY_RESTRICT w, const float* HWY_RESTRICT d,
                 const float* HWY_RESTRICT unit, std::size_t lines, float length) {
  const LineTag tag;
  LineV most = hn::Zero(tag), nan = most;
  for (std::size_t f = 0; f < lines; ++f) {
    const LineV rate = hn::Set(tag, length * unit[f]);
    for (std::size_t at = f * kLanes; at < (f + 1) * kLanes; at += kLineWidth) {
      const LineV moved = hn::MulAdd(rate, hn::LoadU(tag, d + at), hn::LoadU(tag, w + at));
      hn::StoreU(moved, tag, to + at);
      most = hn::Max(most, hn::Abs(moved));
      nan = hn::MulAdd(moved, hn::Zero(tag), nan);
    }
  }
  return largest_of(most, nan);
}

GradientSums finish_lines(float* HWY_RESTRICT g, const float* HWY_RESTRICT sum, std::size_t parts,
                          std::size_t stride, const float* HWY_RESTRICT w, const float* HWY_RESTRICT d,
                          const float* HWY_RESTRICT unit, std::size_t lines, float ridge) {
  const LineTag tag;
  const LineV of_ridge = hn::Set(tag, ridge);
  SumV slope = hn::Zero(SumTag()), squares = slope, of_weights = slope;
  for (std::size_t f = 0; f < lines; ++f) {
    const LineV of_feature = hn::Set(tag, unit[f]);
    const std::size_t first = f * kLanes;
    for (std::size_t at = first; at < first + kLanes; at += kLineWidth) {
      LineV pull = hn::LoadU(tag, sum + at);
      for (std::size_t p = 1; p < parts; ++p) pull = hn::Add(pull, hn::LoadU(tag, sum + p * stride + at));
      hn::StoreU(hn::Mul(of_feature, hn::MulSub(of_ridge, hn::LoadU(tag, w + at), pull)), tag, g + at);
    }
    for (std::size_t at = first; at < first + kLanes; at += kSumWidth) {
      const SumV of_g = load_double(g + at);
      slope = hn::MulAdd(load_double(d + at), of_g, slope);
      squares = hn::MulAdd(of_g, of_g, squares);
    }
    if (ridge == 0) continue;
    for (std::size_t at = first; at < first + kLanes; at += kSumWidth) {
      const SumV of_w = load_double(w + at);
      of_weights = hn::MulAdd(of_w, of_w, of_weights);
    }
  }
  return {total_of(slope), total_of(squares), total_of(of_weights)};
}

double pair_lines(float* HWY_RESTRICT s, float* HWY_RESTRICT y, const float* HWY_RESTRICT w,
                  const float* HWY_RESTRICT old_w, const float* HWY_RESTRICT g,
                  const float* HWY_RESTRICT old_g, const float* HWY_RESTRICT unit, std::size_t lines) {
  const LineTag tag;
  SumV squares = hn::Zero(SumTag());
  for (std::size_t f = 0; f < lines; ++f) {
    const LineV inverse = hn::Set(tag, 1 / unit[f]);
    const std::size_t first = f * kLanes;
    for (std::size_t at = first; at < first + kLanes; at += kLineWidth) {
      hn::StoreU(hn::Mul(inverse, hn::Sub(hn::LoadU(tag, w + at), hn::LoadU(tag, old_w + at))), tag, s + at);
      hn::StoreU(hn::Sub(hn::LoadU(tag, g + at), hn::LoadU(tag, old_g + at)), tag, y + at);
    }
    for (std::size_t at = first; at < first + kLanes; at += kSumWidth) {
      const SumV of_s = load_double(s + at);
      squares = hn::MulAdd(of_s, of_s, squares);
    }
  }
  return total_of(squares);
}

// Both products of one vector with lines that are in the first cache: in float32 over a few lines, whose sums
// are added in double.
void product_lines(const float* HWY_RESTRICT v, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                   std::size_t lines, double* HWY_RESTRICT out) {
  constexpr std::size_t kFew = 16 * kLanes;
  const LineTag tag;
  SumV of_a = hn::Zero(SumTag()), of_b = of_a;
  alignas(64) float few[2][kLanes];
  for (std::size_t from = 0; from < lines * kLanes; from += kFew) {
    const std::size_t to = std::min(from + kFew, lines * kLanes);
    LineV sum_a[kLanes / kLineWidth], sum_b[kLanes / kLineWidth];
    for (std::size_t i = 0; i < kLanes / kLineWidth; ++i) sum_a[i] = sum_b[i] = hn::Zero(tag);
    for (std::size_t at = from; at < to; at += kLanes)
      for (std::size_t i = 0; i < kLanes / kLineWidth; ++i) {
        const LineV of_v = hn::LoadU(tag, v + at + i * kLineWidth);
        sum_a[i] = hn::MulAdd(of_v, hn::LoadU(tag, a + at + i * kLineWidth), sum_a[i]);
        sum_b[i] = hn::MulAdd(of_v, hn::LoadU(tag, b + at + i * kLineWidth), sum_b[i]);
      }
    for (std::size_t i = 0; i < kLanes / kLineWidth; ++i) {
      hn::StoreU(sum_a[i], tag, few[0] + i * kLineWidth);
      hn::StoreU(sum_b[i], tag, few[1] + i * kLineWidth);
    }
    for (std::size_t at = 0; at < kLanes; at += kSumWidth) {
      of_a = hn::Add(of_a, load_double(few[0] + at));
      of_b = hn::Add(of_b, load_double(few[1] + at));
    }
  }
  out[0] += total_of(of_a);
  out[1] += total_of(of_b);
}

// d += the sum of up to four vectors times their factors.
void add_lines(float* HWY_RESTRICT d, const float* const* v, const float* factor, std::size_t vectors,
               std::size_t lines) {
  const LineTag tag;
  constexpr std::size_t kTogether = 4;
  if (vectors == kTogether) {
    const float *const v0 = v[0], *const v1 = v[1], *const v2 = v[2], *const v3 = v[3];
    const LineV f0 = hn::Set(tag, factor[0]), f1 = hn::Set(tag, factor[1]);
    const LineV f2 = hn::Set(tag, factor[2]), f3 = hn::Set(tag, factor[3]);
    for (std::size_t at = 0; at < lines * kLanes; at += kLineWidth) {
      LineV sum = hn::LoadU(tag, d + at);
      sum = hn::MulAdd(f0, hn::LoadU(tag, v0 + at), sum);
      sum = hn::MulAdd(f1, hn::LoadU(tag, v1 + at), sum);
      sum = hn::MulAdd(f2, hn::LoadU(tag, v2 + at), sum);
      sum = hn::MulAdd(f3, hn::LoadU(tag, v3 + at), sum);
      hn::StoreU(sum, tag, d + at);
    }
    return;
  }
  for (std::size_t i = 0; i < vectors; ++i) {
    const LineV f = hn::Set(tag, factor[i]);
    for (std::size_t at = 0; at < lines * kLanes; at += kLineWidth)
      hn::StoreU(hn::MulAdd(f, hn::LoadU(tag, v[i] + at), hn::LoadU(tag, d + at)), tag, d + at);
  }
}

void scale_lines(float* HWY_RESTRICT d, const float* HWY_RESTRICT g, float factor, std::size_t lines) {
  const LineTag tag;
  const LineV f = hn::Set(tag, factor);
  for (std::size_t at = 0; at < lines * kLanes; at += kLineWidth)
    hn::StoreU(hn::Mul(f, hn::LoadU(tag, g + at)), tag, d + at);
}

DirectionSums direction_lines(const float* HWY_RESTRICT d, const float* HWY_RESTRICT g,
                              const float* HWY_RESTRICT unit, std::size_t lines) {
  const LineTag tag;
  LineV most = hn::Zero(tag), nan = most;
  SumV slope = hn::Zero(SumTag());
  for (std::size_t f = 0; f < lines; ++f) {
    const LineV of_feature = hn::Set(tag, unit[f]);
    const std::size_t first = f * kLanes;
    for (std::size_t at = first; at < first + kLanes; at += kLineWidth) {
      const LineV move = hn::Mul(of_feature, hn::LoadU(tag, d + at));
      most = hn::Max(most, hn::Abs(move));
      nan = hn::MulAdd(move, hn::Zero(tag), nan);
    }
    for (std::size_t at = first; at < first + kLanes; at += kSumWidth)
      slope = hn::MulAdd(load_double(d + at), load_double(g + at), slope);
  }
  return {total_of(slope), largest_of(most, nan)};
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(step_lines);
HWY_EXPORT(finish_lines);
HWY_EXPORT(pair_lines);
HWY_EXPORT(product_lines);
HWY_EXPORT(add_lines);
HWY_EXPORT(scale_lines);
HWY_EXPORT(direction_lines);

namespace {

constexpr std::size_t kNearLines = 128;  // of a vector: several stay in the first cache

float* start_of(Weights& of, const Lines& lines) {
  return (lines.block < of.blocks() ? of.block(lines.block) : of.intercept().data()) + lines.from * kLanes;
}
const float* start_of(const Weights& of, const Lines& lines) {
  return (lines.block < of.blocks() ? of.block(lines.block) : of.intercept().data()) + lines.from * kLanes;
}
const float* start_of(const LineUnits& units, const Weights& of, const Lines& lines) {
  return (lines.block < of.blocks() ? units.features : units.intercepts).data() + lines.from;
}

}  // namespace

std::vector<Lines> lines_of(const Weights& weights) {
  constexpr std::size_t kMostTasks = 1000;
  const std::size_t all = weights.blocks() * weights.features();
  const std::size_t of_task = std::max(kNearLines, all / kMostTasks);
  std::vector<Lines> tasks;
  const auto add = [&](std::size_t block, std::size_t count) {
    const std::size_t pieces = (count + of_task - 1) / of_task;
    for (std::size_t p = 0; p < pieces; ++p) {
      const std::size_t from = count * p / pieces;
      tasks.push_back({block, from, count * (p + 1) / pieces - from});
    }
  };
  for (std::size_t b = 0; b < weights.blocks(); ++b) add(b, weights.features());
  if (weights.has_intercept()) add(weights.blocks(), weights.blocks());
  return tasks;
}

float step_along(Weights& to, const Weights& w, const Weights& d, const LineUnits& units, const Lines& lines,
                 float length) {
  return HWY_DYNAMIC_DISPATCH(step_lines)(start_of(to, lines), start_of(w, lines), start_of(d, lines),
                                          start_of(units, w, lines), lines.count, length);
}

GradientSums finish_gradient(Weights& g, const float* sum, std::size_t parts, std::size_t stride,
                             const Weights& w, const Weights& d, const LineUnits& units, const Lines& lines,
                             float ridge) {
  return HWY_DYNAMIC_DISPATCH(finish_lines)(start_of(g, lines), sum, parts, stride, start_of(w, lines),
                                            start_of(d, lines), start_of(units, w, lines), lines.count,
                                            ridge);
}

double find_pair(Weights& s, Weights& y, const TwoPoints& of, const LineUnits& units, const Lines& lines) {
  return HWY_DYNAMIC_DISPATCH(pair_lines)(
      start_of(s, lines), start_of(y, lines), start_of(of.w, lines), start_of(of.old_w, lines),
      start_of(of.g, lines), start_of(of.old_g, lines), start_of(units, of.w, lines), lines.count);
}

void add_products(std::span<const Weights* const> v, const Weights& a, const Weights& b, const Lines& lines,
                  double* out) {
  for (std::size_t at = 0; at < lines.count; at += kNearLines) {
    const Lines some{lines.block, lines.from + at, std::min(kNearLines, lines.count - at)};
    for (std::size_t i = 0; i < v.size(); ++i) HWY_DYNAMIC_DISPATCH(product_lines)
    (start_of(*v[i], some), start_of(a, some), start_of(b, some), some.count, out + 2 * i);
  }
}

DirectionSums combine(Weights& d, const Weights& g, float factor, std::span<const Weights* const> v,
                      std::span<const float> factors, const LineUnits& units, const Lines& lines) {
  constexpr std::size_t kTogether = 4;
  DirectionSums sums;
  for (std::size_t at = 0; at < lines.count; at += kNearLines) {
    const Lines some{lines.block, lines.from + at, std::min(kNearLines, lines.count - at)};
    float* const to = start_of(d, some);
    HWY_DYNAMIC_DISPATCH(scale_lines)(to, start_of(g, some), factor, some.count);
    for (std::size_t i = 0; i < v.size(); i += kTogether) {
      const std::size_t count = std::min(kTogether, v.size() - i);
      const float* from[kTogether] = {};
      for (std::size_t j = 0; j < count; ++j) from[j] = start_of(*v[i + j], some);
      HWY_DYNAMIC_DISPATCH(add_lines)(to, from, &factors[i], count, some.count);
    }
    const DirectionSums of_some =
        HWY_DYNAMIC_DISPATCH(direction_lines)(to, start_of(g, some), start_of(units, g, some), some.count);
    sums.slope += of_some.slope;
    // Not std::max: NaN must stay.
    if (!(of_some.largest <= sums.largest)) sums.largest = of_some.largest;
  }
  return sums;
}

}  // namespace truemax
#endif  // HWY_ONCE
