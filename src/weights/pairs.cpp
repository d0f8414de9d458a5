#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/pairs.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "weights/pairs.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {

// x w + sum, fused only in hardware: elsewhere the compiler's fma would call a library function.
HWY_INLINE float multiply_add(float x, float w, float sum) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return __builtin_fmaf(x, w, sum);
#else
  return x * w + sum;
#endif
}

void score_pairs_here(const PairPlace* HWY_RESTRICT steps, std::size_t count,
                      double* HWY_RESTRICT score_drawn, double* HWY_RESTRICT score_label) {
  for (std::size_t t = 0; t < count; ++t) {
    const float* drawn = steps[t].drawn;
    const float* label = steps[t].label;
    const FeatureId* index = steps[t].x.index.data();
    const float* value = steps[t].x.value.data();
    const std::size_t length = steps[t].x.index.size();
    float drawn_even = 0, drawn_odd = 0, label_even = 0, label_odd = 0;
    std::size_t j = 0;
    for (; j + 1 < length; j += 2) {
      const std::size_t at0 = std::size_t{index[j]} * kLanes, at1 = std::size_t{index[j + 1]} * kLanes;
      drawn_even = multiply_add(value[j], drawn[at0], drawn_even);
      label_even = multiply_add(value[j], label[at0], label_even);
      drawn_odd = multiply_add(value[j + 1], drawn[at1], drawn_odd);
      label_odd = multiply_add(value[j + 1], label[at1], label_odd);
    }
    if (j < length) {
      const std::size_t at = std::size_t{index[j]} * kLanes;
      drawn_even = multiply_add(value[j], drawn[at], drawn_even);
      label_even = multiply_add(value[j], label[at], label_even);
    }
    score_drawn[t] = static_cast<double>(drawn_even + drawn_odd);
    score_label[t] = static_cast<double>(label_even + label_odd);
  }
}

void add_pairs_here(const PairPlace* HWY_RESTRICT steps, std::size_t count, const double* HWY_RESTRICT c) {
  for (std::size_t t = 0; t < count; ++t) {
    float* HWY_RESTRICT drawn = steps[t].drawn;
    float* HWY_RESTRICT label = steps[t].label;
    const FeatureId* index = steps[t].x.index.data();
    const float* value = steps[t].x.value.data();
    const auto factor = static_cast<float>(c[t]);
    for (std::size_t j = 0; j < steps[t].x.index.size(); ++j) {
      const std::size_t at = std::size_t{index[j]} * kLanes;
      drawn[at] = multiply_add(-factor, value[j], drawn[at]);
      label[at] = multiply_add(factor, value[j], label[at]);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(score_pairs_here);
HWY_EXPORT(add_pairs_here);

void score_pairs(const PairPlace* steps, std::size_t count, double* score_drawn, double* score_label) {
  HWY_DYNAMIC_DISPATCH(score_pairs_here)(steps, count, score_drawn, score_label);
}

void add_pairs(const PairPlace* steps, std::size_t count, const double* c) {
  HWY_DYNAMIC_DISPATCH(add_pairs_here)(steps, count, c);
}

}  // namespace truemax
#endif  // HWY_ONCE
