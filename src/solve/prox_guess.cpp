#include "solve/prox_guess.hpp"

#ifndef HWY_DISABLED_TARGETS
// Sizeless vectors (SVE, RVV) use NEON or the scalar path, as in weights/tile.cpp.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "solve/prox_guess.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using GuessTag = hn::CappedTag<double, 8>;
using GuessV = hn::Vec<GuessTag>;
constexpr std::size_t kGuessWidth = hn::MaxLanes(GuessTag());

// As quick_log and quick_exp of solve/quick_math.hpp, operation by operation.
HWY_INLINE GuessV guess_log(GuessV x) {
  const GuessTag d;
  const hn::RebindToSigned<GuessTag> di;
  const auto bits = hn::BitCast(di, x);
  const auto exponent = hn::ShiftRight<52>(hn::Sub(bits, hn::Set(di, std::int64_t{0x3FE6A09E667F3BCD})));
  const GuessV m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<52>(exponent))), one = hn::Set(d, 1.0);
  const GuessV q = hn::Div(hn::Sub(m, one), hn::Add(m, one)), s = hn::Mul(q, q);
  const GuessV high =
      hn::Add(hn::Set(d, 0.2), hn::Mul(s, hn::Add(hn::Set(d, 1.0 / 7), hn::Mul(s, hn::Set(d, 1.0 / 9)))));
  const GuessV series = hn::Add(hn::Add(one, hn::Mul(s, hn::Set(d, 1.0 / 3))), hn::Mul(hn::Mul(s, s), high));
  return hn::Add(hn::Mul(hn::ConvertTo(d, exponent), hn::Set(d, 0.69314718055994531)),
                 hn::Mul(hn::Mul(hn::Set(d, 2.0), q), series));
}

HWY_INLINE GuessV guess_exp(GuessV asked) {
  const GuessTag d;
  const hn::RebindToUnsigned<GuessTag> du;
  const GuessV shift = hn::Set(d, 0x1.8p52), one = hn::Set(d, 1.0);
  const GuessV t = hn::Min(asked, hn::Set(d, 708.0));
  const GuessV shifted = hn::Add(hn::Mul(t, hn::Set(d, 1.4426950408889634)), shift);
  const GuessV whole = hn::Sub(shifted, shift);
  const GuessV r = hn::Sub(hn::Sub(t, hn::Mul(whole, hn::Set(d, 0.693147180369123816))),
                           hn::Mul(whole, hn::Set(d, 1.90821492927058770e-10)));
  const GuessV s = hn::Mul(r, r);
  const GuessV low =
      hn::Add(hn::Add(one, r), hn::Mul(s, hn::Add(hn::Set(d, 0.5), hn::Mul(r, hn::Set(d, 1.0 / 6)))));
  const GuessV high = hn::Add(hn::Add(hn::Set(d, 1.0 / 24), hn::Mul(r, hn::Set(d, 1.0 / 120))),
                              hn::Mul(s, hn::Add(hn::Set(d, 1.0 / 720), hn::Mul(r, hn::Set(d, 1.0 / 5040)))));
  const auto power = hn::ShiftLeft<52>(hn::Add(hn::BitCast(du, shifted), hn::Set(du, std::uint64_t{1023})));
  const GuessV found = hn::Mul(hn::Add(low, hn::Mul(hn::Mul(s, s), high)), hn::BitCast(d, power));
  return hn::IfThenZeroElse(hn::Lt(asked, hn::Set(d, -708.0)), found);
}

// rough_lambert and grown of solve/prox_root.hpp.
HWY_INLINE GuessV guess_lambert(GuessV y) {
  const GuessTag d;
  const GuessV one = hn::Set(d, 1.0), from = hn::Set(d, 2.5);
  const GuessV small =
      hn::Div(hn::Mul(y, hn::Add(one, hn::Mul(hn::Set(d, 4.0 / 3), y))),
              hn::Add(one, hn::Mul(y, hn::Add(hn::Set(d, 7.0 / 3), hn::Mul(hn::Set(d, 5.0 / 6), y)))));
  const auto below = hn::Lt(y, from);
  if (hn::AllTrue(d, below)) return small;
  const GuessV log_y = guess_log(hn::Max(y, from)), log_log_y = guess_log(log_y);
  return hn::IfThenElse(below, small, hn::Add(hn::Sub(log_y, log_log_y), hn::Div(log_log_y, log_y)));
}

HWY_INLINE GuessV guess_grown(GuessV delta) {
  const GuessTag d;
  const GuessV one = hn::Set(d, 1.0), two = hn::Set(d, 2.0);
  const GuessV cubic = hn::Add(hn::Set(d, 0.5), hn::Mul(delta, hn::Set(d, 1.0 / 6)));
  const GuessV near = hn::Add(one, hn::Mul(delta, hn::Add(one, hn::Mul(delta, cubic))));
  const GuessV far = hn::Div(hn::Add(two, delta), hn::Sub(two, delta));
  return hn::IfThenElse(hn::Lt(hn::Abs(delta), hn::Set(d, 0.1)), near, far);
}

void guess_prox_here(const ProxGuesses::Arrays& rows, std::size_t count, double inverse_rho) {
  const GuessTag d;
  const GuessV one = hn::Set(d, 1.0), zero = hn::Zero(d);
  const GuessV keep = hn::Set(d, 1 + inverse_rho), over_keep = hn::Div(one, keep);
  for (std::size_t i = 0; i < count; i += kGuessWidth) {
    const GuessV e = hn::LoadU(d, rows.e + i), base = hn::LoadU(d, rows.base + i),
                 sum = hn::LoadU(d, rows.sum + i);
    const GuessV s_e = hn::Mul(hn::LoadU(d, rows.label_norm + i), e);
    const GuessV low = hn::Div(base, hn::Add(keep, sum)), high = hn::Div(base, keep);
    const GuessV eta = hn::Add(one, hn::Div(hn::LoadU(d, rows.squares + i), hn::Mul(sum, sum)));
    const GuessV eta_s_e = hn::Mul(eta, s_e);
    GuessV y = hn::Div(guess_lambert(hn::Mul(hn::Mul(eta_s_e, sum), low)), eta_s_e);
    GuessV g = hn::Mul(hn::Sub(base, y), over_keep);
    const auto open = [&]() HWY_ATTR {
      return hn::And(hn::And(hn::Gt(g, low), hn::Lt(g, high)), hn::Gt(y, zero));
    };
    auto active = open();
    for (int round = 0; round < 2 && !hn::AllFalse(d, active); ++round) {
      const GuessV pull = hn::Mul(eta_s_e, y), weight = hn::Mul(keep, g);
      const GuessV error = hn::Neg(hn::Add(guess_log(hn::Div(y, hn::Mul(sum, g))), pull));
      const GuessV delta = hn::Div(hn::Mul(error, weight), hn::Add(y, hn::Mul(hn::Add(one, pull), weight)));
      const GuessV step = hn::Min(hn::Max(delta, hn::Set(d, -1.0)), one);
      y = hn::IfThenElse(active, hn::Mul(y, guess_grown(step)), y);
      g = hn::IfThenElse(active, hn::Mul(hn::Sub(base, y), over_keep), g);
      active = hn::And(hn::And(active, open()), hn::Ge(hn::Abs(delta), hn::Set(d, 0.05)));
    }
    const auto inside = hn::And(hn::And(hn::Ge(g, low), hn::Le(g, high)), hn::Gt(y, zero));
    if (!hn::AllTrue(d, inside)) {
      const GuessV middle = hn::Sqrt(hn::Mul(low, high));
      g = hn::IfThenElse(inside, g, middle);
      y = hn::IfThenElse(inside, y, hn::Sub(base, hn::Mul(middle, keep)));
    }
    hn::StoreU(y, d, rows.y + i);
    hn::StoreU(g, d, rows.g + i);
    hn::StoreU(hn::Mul(hn::Mul(e, g), guess_exp(hn::Mul(hn::Neg(s_e), y))), d, rows.common + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(guess_prox_here);

void guess_prox(const ProxGuesses::Arrays& rows, std::size_t count, double inverse_rho) {
  HWY_DYNAMIC_DISPATCH(guess_prox_here)(rows, count, inverse_rho);
}

void ProxGuesses::reserve(std::size_t rows) {
  constexpr std::size_t kWidest = 8;
  for (std::vector<double>* array : {&e_, &base_, &label_norm_, &sum_, &squares_, &y_, &g_, &common_})
    array->assign((rows + kWidest - 1) / kWidest * kWidest, 1.0);
}

void ProxGuesses::find(double inverse_rho) {
  guess_prox({e_.data(), base_.data(), label_norm_.data(), sum_.data(), squares_.data(), y_.data(), g_.data(),
              common_.data()},
             count_, inverse_rho);
}

}  // namespace truemax
#endif  // HWY_ONCE
