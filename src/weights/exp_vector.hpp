// exp of float32 vectors, compiled for every instruction set (hence the unusual guard).
#if defined(TRUEMAX_WEIGHTS_EXP_VECTOR_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TRUEMAX_WEIGHTS_EXP_VECTOR_HPP
#undef TRUEMAX_WEIGHTS_EXP_VECTOR_HPP
#else
#define TRUEMAX_WEIGHTS_EXP_VECTOR_HPP
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {

// exp(x) for x <= 0 as 2^n 2^f, f in [-1/2, 1/2]: adding a number too large to have a fraction leaves the
// integer n in the low bits. The polynomial is 1 + f q(f), exact at 0, within 9.2e-8 of 2^f.
template <class D, class V>
HWY_INLINE V exp_of_falling(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> i;
  const V shift = hn::Set(d, 0x1.8p23F), per_octave = hn::Set(d, 0x1.715476p0F);
  const V low = hn::Max(x, hn::Set(d, -86.6F));  // 2^-125: anything below is negligible beside exp(0)
  const V shifted = hn::MulAdd(low, per_octave, shift);
  const V f = hn::MulSub(low, per_octave, hn::Sub(shifted, shift));
  V p = hn::Set(d, 0x1.5bba14p-10F);
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.3cea88p-7F));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.c6b752p-5F));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.ebf9bcp-3F));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.62e42ap-1F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0F));
  return hn::BitCast(d, hn::Add(hn::BitCast(i, p), hn::ShiftLeft<23>(hn::BitCast(i, shifted))));
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#endif
