// W(e^t) in vectors, for the solvers, compiled for every instruction set (hence the unusual guard).
#if defined(TRUEMAX_SOLVE_LAMBERT_VECTOR_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TRUEMAX_SOLVE_LAMBERT_VECTOR_HPP
#undef TRUEMAX_SOLVE_LAMBERT_VECTOR_HPP
#else
#define TRUEMAX_SOLVE_LAMBERT_VECTOR_HPP
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {

// exp(t) below this is denormal; w is kept at 1e-300, which is negligible against any weight.
constexpr double kLowestLog = -690;

// The w that solves w + log(w) = t, from a guess a with residual = t - a - log(a) and over = 1/(1 + a): w = a
// (1 + delta) with delta (1 + a) - delta^2/2 + delta^3/3 = residual, by its series in residual * over. The
// relative error is quartic in that, and within 10% where it is one. Returns delta.
template <class D, class V>
HWY_INLINE V lambert_delta(D d, V residual, V over) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V rho = hn::Mul(residual, over);
  const V cubic = hn::Mul(over, hn::MulSub(hn::Set(d, 0.5), over, hn::Set(d, 1.0 / 3.0)));
  const V square = hn::MulAdd(rho, cubic, hn::Mul(hn::Set(d, 0.5), over));
  return hn::MulAdd(hn::Mul(rho, rho), square, rho);
}

// A guess for w + log(w) = t within 7%, for t >= kLowestLog. kBranch: branch on whether all t are small,
// which pays if that is predictable.
template <bool kBranch, class D, class V>
HWY_INLINE V lambert_guess(D d, V t) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V one = hn::Set(d, 1.0);
  const V e = hn::Exp(d, hn::Min(t, one));
  const V small = hn::Div(hn::Mul(e, hn::MulAdd(hn::Set(d, 4.0 / 3.0), e, one)),
                          hn::MulAdd(e, hn::MulAdd(hn::Set(d, 5.0 / 6.0), e, hn::Set(d, 7.0 / 3.0)), one));
  if (kBranch && hn::AllTrue(d, hn::Lt(t, one))) return small;
  const V beyond = hn::Sub(t, one);
  const V middle = hn::MulAdd(beyond, hn::MulAdd(beyond, hn::Set(d, 0.0625), hn::Set(d, 0.5)), one);
  const V positive = hn::Max(t, one);
  const V log_t = hn::Log(d, positive);
  const V large = hn::Add(hn::Sub(positive, log_t), hn::Div(log_t, positive));
  return hn::IfThenElse(hn::Lt(t, one), small, hn::IfThenElse(hn::Lt(t, hn::Set(d, 2.5)), middle, large));
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#endif
