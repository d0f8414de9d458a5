#include "solve/prox_blocks.hpp"

#ifndef HWY_DISABLED_TARGETS
// Sizeless vectors (SVE, RVV) use NEON or the scalar path, as in weights/tile.cpp.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "solve/prox_blocks.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "solve/prox_root.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ProxTag = hn::CappedTag<float, kProxLanes>;
using ProxV = hn::Vec<ProxTag>;
constexpr std::size_t kProxWidth = hn::MaxLanes(ProxTag());

// exp of a larger difference, or numbers made from it, could overflow float32.
constexpr float kHighestGap = 40.0F, kLowestGap = -80.0F;
constexpr double kSmallestFactor = 1e-18, kLargestFactor = 1e18;

// w (1 + delta) solves w' + log w' = t + moved, where w + log w = t: the series of lambert_vector.hpp in
// float32.
HWY_INLINE ProxV moved(ProxV w, ProxV residual, ProxV over) {
  const ProxTag d;
  const ProxV rho = hn::Mul(residual, over);
  const ProxV cubic = hn::Mul(over, hn::MulSub(hn::Set(d, 0.5F), over, hn::Set(d, 1.0F / 3.0F)));
  const ProxV square = hn::MulAdd(rho, cubic, hn::Mul(hn::Set(d, 0.5F), over));
  return hn::MulAdd(w, hn::MulAdd(hn::Mul(rho, rho), square, rho), w);
}

// W(x) for x >= 0, with relative error of about 1e-5.
HWY_INLINE ProxV lambert_of(ProxV x) {
  const ProxTag d;
  const ProxV one = hn::Set(d, 1.0F);
  // W(x) = x (1 - x + 3/2 x^2 - 8/3 x^3 + ...): all that most blocks of a trained model need.
  if (hn::AllTrue(d, hn::Lt(x, hn::Set(d, 0.015F))))
    return hn::Mul(x, hn::NegMulAdd(x, hn::NegMulAdd(hn::Set(d, 1.5F), x, one), one));
  const ProxV e = hn::Min(x, hn::Set(d, 2.7182818F));
  ProxV w = hn::Div(hn::Mul(e, hn::MulAdd(hn::Set(d, 4.0F / 3.0F), e, one)),
                    hn::MulAdd(e, hn::MulAdd(hn::Set(d, 5.0F / 6.0F), e, hn::Set(d, 7.0F / 3.0F)), one));
  const auto large = hn::Gt(x, hn::Set(d, 2.7182818F));
  if (HWY_UNLIKELY(!hn::AllFalse(d, large))) {
    const ProxV t = hn::Log(d, hn::Max(x, one)), beyond = hn::Sub(t, one);
    const ProxV middle = hn::MulAdd(beyond, hn::MulAdd(beyond, hn::Set(d, 0.0625F), hn::Set(d, 0.5F)), one);
    const ProxV at_least = hn::Max(t, one), log_t = hn::Log(d, at_least);
    const ProxV far = hn::Add(hn::Sub(at_least, log_t), hn::Div(log_t, at_least));
    w = hn::IfThenElse(large, hn::IfThenElse(hn::Lt(t, hn::Set(d, 2.5F)), middle, far), w);
  }
  // The guess is within 7%; x/w = exp(t)/w, so t itself is not needed.
  const ProxV safe = hn::Max(w, hn::Set(d, 1e-30F));
  const ProxV residual = hn::Sub(hn::Log(d, hn::Max(hn::Div(x, safe), hn::Set(d, 0.5F))), w);
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, 1e-6F)), moved(w, residual, hn::Div(one, hn::Add(one, w))), x);
}

// c_y and its slope at x_j = factor_b * E_j; leaves s c_j in `coefficient`. Sums stay in lanes until the end,
// because the following code waits for their reduction.
HWY_INLINE ProxSums<double> evaluate_prox(const ProxBlocks& p, double common) {
  const ProxTag d;
  const ProxV one = hn::Set(d, 1.0F);
  ProxV sum = hn::Zero(d), first = hn::Zero(d);
  for (std::size_t b = 0; b < p.blocks; ++b) {
    const ProxV factor = hn::Set(d, static_cast<float>(common * (p.norm[b] * p.weight[b])));
    const ProxV over_norm = hn::Set(d, static_cast<float>(1 / p.norm[b]));
    for (std::size_t v = b * kProxLanes; v < (b + 1) * kProxLanes; v += kProxWidth) {
      const ProxV w = lambert_of(hn::Mul(factor, hn::LoadU(d, p.score + v)));
      hn::StoreU(w, d, p.coefficient + v);
      sum = hn::MulAdd(w, over_norm, sum);
      first = hn::MulAdd(hn::Div(w, hn::Add(one, w)), over_norm, first);
    }
  }
  return {static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum))),
          static_cast<double>(hn::GetLane(hn::SumOfLanes(d, first)))};
}

// E_j = exp(z_j - z_y), 0 for unused lanes; S = sum o E and the sum of squares.
HWY_INLINE ProxStart start_prox(ProxBlocks& p) {
  const ProxTag d;
  const ProxV zero_at = hn::Set(d, static_cast<float>(p.label_score));
  const ProxV lowest = hn::Set(d, kLowestGap);
  ProxV highest = lowest, once = hn::Zero(d), squared = hn::Zero(d);
  double least = 1e300, most = 0;
  for (std::size_t b = 0; b < p.blocks; ++b) {
    const ProxV o = hn::Set(d, static_cast<float>(p.weight[b]));
    for (std::size_t v = b * kProxLanes; v < (b + 1) * kProxLanes; v += kProxWidth) {
      const ProxV gap = hn::Sub(hn::LoadU(d, p.score + v), zero_at);
      highest = hn::Max(highest, gap);
      const ProxV part = hn::IfThenElseZero(
          hn::Gt(gap, lowest), hn::Exp(d, hn::Max(lowest, hn::Min(gap, hn::Set(d, kHighestGap)))));
      hn::StoreU(part, d, p.score + v);
      const ProxV weighted = hn::Mul(o, part);
      once = hn::Add(once, weighted);
      squared = hn::MulAdd(weighted, weighted, squared);
    }
    const double factor = p.e * p.norm[b] * p.weight[b];
    least = std::min(least, factor), most = std::max(most, factor);
  }
  constexpr double kOutside = std::numeric_limits<double>::infinity();
  if (!hn::AllTrue(d, hn::Lt(highest, hn::Set(d, kHighestGap))) || !(least >= kSmallestFactor) ||
      !(most <= kLargestFactor))
    return {kOutside, kOutside};
  return {static_cast<double>(hn::GetLane(hn::SumOfLanes(d, once))),
          static_cast<double>(hn::GetLane(hn::SumOfLanes(d, squared)))};
}

// The fourth power of the move is negligible.
HWY_INLINE double finish_prox(const ProxBlocks& p, double move) {
  const ProxTag d;
  const ProxV one = hn::Set(d, 1.0F), last = hn::Set(d, static_cast<float>(move));
  ProxV all = hn::Zero(d);
  for (std::size_t b = 0; b < p.blocks; ++b) {
    const ProxV scale = hn::Set(d, static_cast<float>(-1 / p.norm[b]));
    for (std::size_t v = b * kProxLanes; v < (b + 1) * kProxLanes; v += kProxWidth) {
      const ProxV w = hn::LoadU(d, p.coefficient + v);
      const ProxV c = hn::Mul(scale, moved(w, last, hn::Div(one, hn::Add(one, w))));
      hn::StoreU(c, d, p.coefficient + v);
      all = hn::Add(all, c);
    }
  }
  return -static_cast<double>(hn::GetLane(hn::SumOfLanes(d, all)));
}

int solve_prox_blocks_here(ProxBlocks& p) {
  const double over_rho = p.inverse_rho;
  const double base = 1 + quick_exp(-p.u) * over_rho;  // c_y/e = y = base - g keep
  const auto [sum, squares] = start_prox(p);
  if (!prox_takes(p.u, over_rho) || !(squares < kMostProxSquares)) return 0;  // bounds the sum too

  p.label_coefficient = 0;
  if (!(sum > kLeastProxSum)) {
    std::fill_n(p.coefficient, p.blocks * kProxLanes, 0.0F);
    p.u = prox_alone(p.u, over_rho);
    return 1;
  }
  const ProxRoot<double> root =
      solve_prox_equation<DoubleMath>({p.e, over_rho, base, p.label_norm, sum, squares},
                                      [&](double common) { return evaluate_prox(p, common); });
  if (root.evaluations == 0) return 0;
  p.label_coefficient = finish_prox(p, root.move);
  p.u = -quick_log(root.g);
  return root.evaluations;
}

ProxStart prox_start_here(ProxBlocks& p) {
  return start_prox(p);
}
ProxSums<double> prox_sums_here(const ProxBlocks& p, double common) {
  return evaluate_prox(p, common);
}
double prox_finish_here(const ProxBlocks& p, double move) {
  return finish_prox(p, move);
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(solve_prox_blocks_here);
HWY_EXPORT(prox_start_here);
HWY_EXPORT(prox_sums_here);
HWY_EXPORT(prox_finish_here);

ProxStart prox_start(ProxBlocks& step) {
  return HWY_DYNAMIC_DISPATCH(prox_start_here)(step);
}

ProxSums<double> prox_sums(const ProxBlocks& step, double common) {
  return HWY_DYNAMIC_DISPATCH(prox_sums_here)(step, common);
}

double prox_finish(const ProxBlocks& step, double move) {
  return HWY_DYNAMIC_DISPATCH(prox_finish_here)(step, move);
}

double prox_alone(double u, double inverse_rho) {
  return std::log((1 + inverse_rho) / (1 + std::exp(-u) * inverse_rho));  // the exact solution
}

int solve_prox_blocks(ProxBlocks& step) {
  return HWY_DYNAMIC_DISPATCH(solve_prox_blocks_here)(step);
}

}  // namespace truemax
#endif  // HWY_ONCE
