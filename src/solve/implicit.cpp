#include "solve/implicit.hpp"

#ifndef HWY_DISABLED_TARGETS
// Sizeless vectors (SVE, RVV) use NEON or the scalar path, as in weights/tile.cpp.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "solve/implicit.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <algorithm>

#include "solve/lambert_vector.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<double, kSolveLanes>;
using V = hn::Vec<Tag>;
constexpr std::size_t kWidth = hn::MaxLanes(Tag());

// If gamma is huge, u moves by one per evaluation: about log(gamma) of them, 207 for the shortest row of
// floats.
constexpr int kMostEvaluations = 300;

int solve_vector(ImplicitProblems& p, std::size_t first, std::size_t count) {
  const Tag d;
  const V one = hn::Set(d, 1.0), zero = hn::Zero(d), lowest = hn::Set(d, kLowestLog);
  const V e = hn::Load(d, &p.e[first]), gamma = hn::Load(d, &p.gamma[first]);
  const V u_old = hn::Load(d, &p.u[first]);
  const V c =
      hn::Add(hn::Log(d, hn::Div(hn::Mul(e, hn::Load(d, &p.o[first])), gamma)), hn::Load(d, &p.gap[first]));

  V u = u_old;
  V t = hn::Max(hn::Sub(c, u), lowest);
  V a = lambert_guess<false>(d, t);
  auto open = hn::FirstN(d, std::min(count, kWidth));  // unsolved problems
  int evaluations = 0;
  while (evaluations < kMostEvaluations && !hn::AllFalse(d, open)) {
    const V over = hn::Div(one, hn::Add(one, a));
    const V residual = hn::Sub(hn::Sub(t, a), hn::Log(d, a));
    const V decayed = hn::Mul(e, hn::Exp(d, hn::Neg(u)));  // e exp(-u)
    const V delta = lambert_delta(d, residual, over);
    const V refined = hn::MulAdd(a, delta, a);
    // 1/(1 + refined) to first order: it only affects the step size, not the root.
    const V over_refined = hn::NegMulAdd(hn::Mul(a, delta), hn::Mul(over, over), over);
    const V pull = hn::Mul(gamma, refined);
    const V g = hn::Sub(hn::Add(hn::Sub(e, decayed), hn::Sub(u, u_old)), pull);
    const V da = hn::Mul(pull, over_refined);  // -gamma a'(u)
    const V slope = hn::Add(hn::Add(decayed, one), da);
    V curve = hn::Neg(hn::MulAdd(da, hn::Mul(over_refined, over_refined), decayed));
    // Halley: -2 g g' / (2 g'^2 - g g''). Left of the root Newton never overshoots (g is concave), while
    // Halley takes longer steps and can cycle if the root is far: use Newton there. Right of the root Halley
    // takes shorter steps and is always better.
    curve = hn::IfThenZeroElse(hn::Lt(g, hn::Mul(hn::Set(d, -0.5), slope)), curve);
    const V twice = hn::Add(slope, slope);
    const V move = hn::Neg(hn::Div(hn::Mul(g, twice), hn::NegMulAdd(g, curve, hn::Mul(twice, slope))));
    const V next = hn::Max(hn::Add(u, move), zero);
    const V moved = hn::Sub(next, u);
    // The error of u is now cubic in the move, that of a quartic in its residual; both are below the rounding
    // of u and C. An error of C moves u by da/slope times as much.
    const V unit = hn::Set(d, 1e-14);
    const V of_u = hn::Mul(unit, next), of_c = hn::Mul(unit, hn::Abs(c));
    // |moved| <= 1e-5 + of_u + of_c da/slope, without the division.
    const V far = hn::MulAdd(of_c, da, hn::Mul(hn::Add(hn::Set(d, 1e-5), of_u), slope));
    const auto done = hn::And(hn::Le(hn::Mul(hn::Abs(moved), slope), far),
                              hn::Le(hn::Abs(residual), hn::Add(hn::Set(d, 1e-3), hn::Add(of_u, of_c))));
    // a follows u: the residual of the refined a at the new u is minus the move. A long move needs a new
    // initial guess.
    V followed = hn::MulAdd(refined, lambert_delta(d, hn::Neg(moved), over_refined), refined);
    const V next_t = hn::Max(hn::Sub(c, next), lowest);
    const auto leap = hn::And(open, hn::Gt(hn::Abs(moved), one));
    if (!hn::AllFalse(d, leap)) followed = hn::IfThenElse(leap, lambert_guess<false>(d, next_t), followed);
    u = hn::IfThenElse(open, next, u);
    a = hn::IfThenElse(open, followed, a);
    t = hn::IfThenElse(open, next_t, t);
    open = hn::AndNot(done, open);
    ++evaluations;
  }
  hn::Store(u, d, &p.u[first]);
  hn::Store(a, d, &p.a[first]);
  return evaluations;
}

int solve_implicit_here(ImplicitProblems& problems, std::size_t count) {
  int evaluations = 0;
  for (std::size_t first = 0; first < count; first += kWidth)
    evaluations = std::max(evaluations, solve_vector(problems, first, count - first));
  return evaluations;
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(solve_implicit_here);

int solve_implicit(ImplicitProblems& problems, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(solve_implicit_here)(problems, count);
}

}  // namespace truemax
#endif  // HWY_ONCE
