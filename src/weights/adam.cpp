#include "weights/adam.hpp"

#include <algorithm>

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/adam.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using AdamTag = hn::CappedTag<float, kLanes>;
using AdamV = hn::Vec<AdamTag>;
constexpr std::size_t kAdamWidth = hn::MaxLanes(AdamTag());
constexpr std::size_t kAdamVectors = kLanes / kAdamWidth;  // of a line

// Two blocks side by side: rows are short, and the end of each costs a branch that cannot be predicted.
template <std::size_t kBlocks>
HWY_INLINE void add_rows_to(std::span<const RowView> x, const float* c, std::size_t stride,
                            std::size_t features, float* HWY_RESTRICT sum) {
  const AdamTag d;
  const std::size_t size = features * kLanes;
  for (std::size_t i = 0; i < x.size(); ++i) {
    AdamV of_row[kBlocks][kAdamVectors];
    for (std::size_t b = 0; b < kBlocks; ++b)
      for (std::size_t v = 0; v < kAdamVectors; ++v)
        of_row[b][v] = hn::LoadU(d, c + i * stride + b * kLanes + v * kAdamWidth);
    const FeatureId* const index = x[i].index.data();
    const float* const value = x[i].value.data();
    for (std::size_t j = 0; j < x[i].index.size(); ++j) {
      float* const line = sum + std::size_t{index[j]} * kLanes;
      const AdamV factor = hn::Set(d, value[j]);
      for (std::size_t b = 0; b < kBlocks; ++b)
        for (std::size_t v = 0; v < kAdamVectors; ++v) {
          float* const at = line + b * size + v * kAdamWidth;
          hn::StoreU(hn::MulAdd(factor, of_row[b][v], hn::LoadU(d, at)), d, at);
        }
    }
  }
}

void add_rows_here(std::span<const RowView> x, const float* c, std::size_t stride, std::size_t features,
                   std::size_t blocks, float* sum) {
  if (blocks == 2)
    add_rows_to<2>(x, c, stride, features, sum);
  else
    add_rows_to<1>(x, c, stride, features, sum);
}

template <bool kRidge>
void adam_lines_as(float* HWY_RESTRICT w, float* HWY_RESTRICT mean, float* HWY_RESTRICT square,
                   const float* HWY_RESTRICT sum, std::size_t parts, std::size_t stride,
                   const float* HWY_RESTRICT inverse, std::size_t count, const AdamStep& step) {
  const AdamTag d;
  const AdamV mean_share = hn::Set(d, step.mean_share), square_share = hn::Set(d, step.square_share);
  const AdamV tiny = hn::Set(d, step.tiny), one = hn::Set(d, 1.0F);
  for (std::size_t f = 0; f < count; ++f) {
    const AdamV unit = hn::Set(d, inverse[f]), rate = hn::Set(d, step.rate * inverse[f]);
    const AdamV shrink = hn::Set(d, kRidge ? step.ridge * inverse[f] * inverse[f] : 0.0F);
    for (std::size_t at = f * kLanes; at < (f + 1) * kLanes; at += kAdamWidth) {
      AdamV g = hn::LoadU(d, sum + at);
      for (std::size_t p = 1; p < parts; ++p) g = hn::Add(g, hn::LoadU(d, sum + p * stride + at));
      g = hn::Mul(g, unit);
      const AdamV m = hn::LoadU(d, mean + at), v = hn::LoadU(d, square + at);
      const AdamV new_m = hn::MulAdd(mean_share, hn::Sub(g, m), m);
      const AdamV new_v = hn::MulAdd(square_share, hn::Sub(hn::Mul(g, g), v), v);
      hn::StoreU(new_m, d, mean + at);
      hn::StoreU(new_v, d, square + at);
      const AdamV h = hn::Add(hn::Sqrt(new_v), tiny);
      const AdamV old = hn::LoadU(d, w + at);
      if (kRidge) {
        // Both divided by h: shrink may be infinite, never w + the rest.
        const AdamV moved = hn::MulAdd(rate, hn::Div(new_m, h), old);
        hn::StoreU(hn::Div(moved, hn::Add(one, hn::Div(shrink, h))), d, w + at);
      } else {
        hn::StoreU(hn::MulAdd(rate, hn::Div(new_m, h), old), d, w + at);
      }
    }
  }
}

void adam_lines_here(float* w, float* mean, float* square, const float* sum, std::size_t parts,
                     std::size_t stride, const float* inverse, std::size_t count, const AdamStep& step) {
  if (step.ridge > 0)
    adam_lines_as<true>(w, mean, square, sum, parts, stride, inverse, count, step);
  else
    adam_lines_as<false>(w, mean, square, sum, parts, stride, inverse, count, step);
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(add_rows_here);
HWY_EXPORT(adam_lines_here);

void add_rows(std::span<const RowView> x, const float* c, std::size_t stride, std::size_t features,
              std::size_t blocks, float* sum) {
  HWY_DYNAMIC_DISPATCH(add_rows_here)(x, c, stride, features, blocks, sum);
}

void adam_lines(float* w, float* mean, float* square, const float* sum, std::size_t parts, std::size_t stride,
                const float* inverse, std::size_t count, const AdamStep& step) {
  HWY_DYNAMIC_DISPATCH(adam_lines_here)(w, mean, square, sum, parts, stride, inverse, count, step);
}

void adam_block(const AdamPlace& to, std::size_t block, std::size_t from, std::size_t count, const float* sum,
                std::size_t parts, std::span<const float> inverse, const AdamStep& step) {
  const std::size_t at = from * kLanes;
  adam_lines(to.w.block(block) + at, to.mean.block(block) + at, to.square.block(block) + at, sum + at, parts,
             to.w.features() * kLanes, inverse.data() + from, count, step);
}

void adam_intercepts(const AdamPlace& to, std::size_t block, const float* sum, const AdamStep& step) {
  constexpr float kOne = 1;
  const std::size_t at = block * kLanes;
  adam_lines(to.w.intercept().data() + at, to.mean.intercept().data() + at, to.square.intercept().data() + at,
             sum, 1, 0, &kOne, 1, step);
}

bool at_least_zero(const Weights& weights) {
  const auto holds = [](float v) { return v >= 0; };
  return std::all_of(weights.memory().begin(), weights.memory().end(), holds) &&
         std::all_of(weights.intercept().begin(), weights.intercept().end(), holds);
}

}  // namespace truemax
#endif  // HWY_ONCE
