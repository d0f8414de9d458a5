#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/complex.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <cmath>

#include "weights/complex.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ComplexTag = hn::CappedTag<float, 16>;
using ComplexV = hn::Vec<ComplexTag>;
constexpr std::size_t kComplexWidth = hn::MaxLanes(ComplexTag());

// kSign: 1 for a b, -1 for a conj(b).
template <int kSign>
HWY_INLINE void product_here(float* HWY_RESTRICT out, const float* HWY_RESTRICT a,
                             const float* HWY_RESTRICT b, std::size_t h) {
  const ComplexTag d;
  const std::size_t half = h / 2;
  constexpr auto sign = static_cast<float>(kSign);
  std::size_t i = 0;
  for (; i + kComplexWidth <= half; i += kComplexWidth) {
    const ComplexV ar = hn::LoadU(d, a + i), ai = hn::LoadU(d, a + half + i);
    const ComplexV br = hn::LoadU(d, b + i), bi = hn::Mul(hn::Set(d, sign), hn::LoadU(d, b + half + i));
    hn::StoreU(hn::Sub(hn::Mul(ar, br), hn::Mul(ai, bi)), d, out + i);
    hn::StoreU(hn::Add(hn::Mul(ar, bi), hn::Mul(ai, br)), d, out + half + i);
  }
  for (; i < half; ++i) {
    const float bi = sign * b[half + i];
    out[i] = a[i] * b[i] - a[half + i] * bi;
    out[half + i] = a[i] * bi + a[half + i] * b[i];
  }
}

void multiply_complex_here(float* out, const float* a, const float* b, std::size_t h) {
  product_here<1>(out, a, b, h);
}
void multiply_conjugate_here(float* out, const float* a, const float* b, std::size_t h) {
  product_here<-1>(out, a, b, h);
}

void add_cubed_here(float* HWY_RESTRICT out, const float* HWY_RESTRICT v, float factor, std::size_t h) {
  const ComplexTag d;
  const ComplexV f = hn::Set(d, factor);
  const std::size_t half = h / 2;
  std::size_t i = 0;
  for (; i + kComplexWidth <= half; i += kComplexWidth) {
    const ComplexV re = hn::LoadU(d, v + i), im = hn::LoadU(d, v + half + i);
    const ComplexV scale = hn::Mul(f, hn::Sqrt(hn::MulAdd(re, re, hn::Mul(im, im))));
    hn::StoreU(hn::MulAdd(scale, re, hn::LoadU(d, out + i)), d, out + i);
    hn::StoreU(hn::MulAdd(scale, im, hn::LoadU(d, out + half + i)), d, out + half + i);
  }
  for (; i < half; ++i) {
    const float scale = factor * std::sqrt(v[i] * v[i] + v[half + i] * v[half + i]);
    out[i] += scale * v[i];
    out[half + i] += scale * v[half + i];
  }
}

void count_above_here(const float* HWY_RESTRICT score, const float* HWY_RESTRICT target, std::size_t n,
                      std::uint32_t* HWY_RESTRICT above, std::uint32_t* HWY_RESTRICT equal) {
  const ComplexTag d;
  const hn::RebindToUnsigned<ComplexTag> du;
  const auto one = hn::Set(du, 1U);
  std::size_t i = 0;
  for (; i + kComplexWidth <= n; i += kComplexWidth) {
    const ComplexV s = hn::LoadU(d, score + i), t = hn::LoadU(d, target + i);
    const auto more = hn::IfThenElseZero(hn::RebindMask(du, hn::Gt(s, t)), one);
    const auto same = hn::IfThenElseZero(hn::RebindMask(du, hn::Eq(s, t)), one);
    hn::StoreU(hn::Add(hn::LoadU(du, above + i), more), du, above + i);
    hn::StoreU(hn::Add(hn::LoadU(du, equal + i), same), du, equal + i);
  }
  for (; i < n; ++i) {
    above[i] += score[i] > target[i] ? 1U : 0U;
    equal[i] += score[i] == target[i] ? 1U : 0U;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(multiply_complex_here);
HWY_EXPORT(multiply_conjugate_here);
HWY_EXPORT(add_cubed_here);
HWY_EXPORT(count_above_here);

void multiply_complex(float* out, const float* a, const float* b, std::size_t h) {
  HWY_DYNAMIC_DISPATCH(multiply_complex_here)(out, a, b, h);
}
void multiply_conjugate(float* out, const float* a, const float* b, std::size_t h) {
  HWY_DYNAMIC_DISPATCH(multiply_conjugate_here)(out, a, b, h);
}
void add_cubed(float* out, const float* v, float factor, std::size_t h) {
  HWY_DYNAMIC_DISPATCH(add_cubed_here)(out, v, factor, h);
}
void count_above(const float* score, const float* target, std::size_t n, std::uint32_t* above,
                 std::uint32_t* equal) {
  HWY_DYNAMIC_DISPATCH(count_above_here)(score, target, n, above, equal);
}

}  // namespace truemax
#endif  // HWY_ONCE
