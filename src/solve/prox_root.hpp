// The one unknown of the proximal step (solve/prox_blocks.hpp has the problem): the root that the CPU's
// vectors and the GPU's threads share. The sums over classes are the caller's.
//
// Newton's method on the logarithm of the equation, in log c_y or in log g, whichever is not a difference of
// nearly equal numbers. The result leaves a last `move` of log x, by which the caller corrects each class.
#pragma once

#include "core/host_device.hpp"
#include "solve/scalar_math.hpp"

namespace truemax {

template <class Real>
struct ProxEquation {
  Real e, inverse_rho;
  Real base;          // 1 + exp(-u') / rho, so that c_y/e = y = base - g (1 + 1/rho)
  Real label_norm;    // s of the label
  Real sum, squares;  // of o_j E_j, E_j = exp(z_j - z_y), and of its square; sum > 0
};

template <class Real>
struct ProxSums {
  Real value, slope;  // of c_y, and minus its derivative by log x
};

template <class Real>
struct ProxRoot {
  Real g;           // exp(-u)
  Real y;           // c_y/e
  Real move;        // of log x since the last evaluation
  int evaluations;  // 0: there is no root in this number type
};

inline constexpr int kMostProxEvaluations = 60;

// W(y), within a few percent.
template <class Math>
TRUEMAX_EVERYWHERE typename Math::Real rough_lambert(typename Math::Real y) {
  using Real = typename Math::Real;
  if (y < Real(2.5))
    return Math::over(y * (1 + Real(4.0 / 3) * y), 1 + y * (Real(7.0 / 3) + Real(5.0 / 6) * y));
  const Real log_y = Math::log(y), log_log_y = Math::log(log_y);
  return log_y - log_log_y + Math::over(log_log_y, log_y);
}

// exp(delta) near 0; neither 0 nor infinite for |delta| < 2.
template <class Math>
TRUEMAX_EVERYWHERE typename Math::Real grown(typename Math::Real delta) {
  using Real = typename Math::Real;
  if (magnitude(delta) < Real(0.1)) return 1 + delta * (1 + delta * (Real(0.5) + delta * Real(1.0 / 6)));
  return Math::over(2 + delta, 2 - delta);
}

// One problem alone. On a GPU, threads with different problems take the same way through the code until the
// last of them is done.
struct Alone {
  TRUEMAX_EVERYWHERE bool any(bool holds) const { return holds; }
};

// evaluate(common): the sums at x_j = common norm_j o_j E_j. `done`: there is nothing to solve here, but
// others need the evaluations; the result has no meaning.
template <class Math, class Evaluate, class Together = Alone>
TRUEMAX_EVERYWHERE ProxRoot<typename Math::Real> solve_prox_equation(
    const ProxEquation<typename Math::Real>& p, Evaluate&& evaluate, const Together& together = {},
    bool done = false) {
  using Real = typename Math::Real;
  const Real keep = 1 + p.inverse_rho, base = p.base, sum = p.sum;
  // Both ends of the bracket, in g and in y: the step that is explicit in W, and the one without classes.
  Real low = Math::over(base, keep + sum), high = Math::over(base, keep);
  Real least = 0, most = low * sum;
  const Real s = p.label_norm, s_e = s * p.e, over_keep = Math::over(1, keep);
  const Real eta = 1 + p.squares / (sum * sum);  // 2 if one class has all the mass, 1 if very many share it
  Real y = Math::over(rough_lambert<Math>(eta * s_e * sum * low), eta * s_e), g = 0;
  const auto g_of_y = [&] { return (base - y) * over_keep; };
  const auto y_of_g = [&] { return base - g * keep; };
  g = g_of_y();
  // As if a single class stood for all: its equation, log(y/(sum g)) + eta s e y = 0, needs no vector.
  for (int i = 0; i < 2 && g > low && g < high && y > 0; ++i) {
    const Real pull = eta * s_e * y;
    const Real delta =
        Math::over(-(Math::log(Math::over(y, sum * g)) + pull) * (keep * g), y + (1 + pull) * (keep * g));
    y *= grown<Math>(clamped(delta, Real(-1), Real(1)));
    g = g_of_y();
    if (magnitude(delta) < Real(0.05)) break;
  }
  if (!(g >= low && g <= high && y > 0)) g = std::sqrt(low * high), y = y_of_g();
  int evaluations = 0;
  bool failed = false;
  Real move = 0, common = p.e * g * Math::exp(-s_e * y);
  for (int round = 0; round < kMostProxEvaluations && together.any(!done); ++round) {
    const ProxSums<Real> at = evaluate(common);
    if (done) continue;
    ++evaluations;
    if (!(at.value > 0)) {  // all classes underflow
      done = failed = true;
      continue;
    }
    const Real old_g = g, old_y = y;
    const Real error = Math::log(Math::over(p.e * y, at.value)), share = Math::over(at.slope, at.value);
    if (error > 0)
      low = larger(low, g), most = smaller(most, y);
    else
      high = smaller(high, g), least = larger(least, y);
    // Of two nearly equal numbers, base and g (1 + 1/rho), only their difference y has digits.
    const bool by_y = y < Real(0.5) * base;
    if (by_y) {
      const Real weight = keep * g;
      const Real delta = clamped(Math::over(-error * weight, weight + share * y * (1 + s_e * weight)),
                                 Real(-1.5), Real(1.5));
      y *= grown<Math>(delta);
      g = g_of_y();
    } else {
      const Real slope = Math::over(g * keep, y) + share * (1 + s_e * g * keep);
      const Real delta = clamped(Math::over(error, slope), Real(-1.5), Real(1.5));
      g *= grown<Math>(delta);
      y = y_of_g();
    }
    const bool inside = y > 0 && g > 0 && (by_y ? y >= least && y <= most : g >= low && g <= high);
    if (!inside) {
      g = std::sqrt(low * high), y = y_of_g();
      if (by_y && least > 0 && !(y > least && y < most)) y = std::sqrt(least) * std::sqrt(most), g = g_of_y();
      if (!(y > 0)) {
        done = failed = true;
        continue;
      }
    }
    move = Math::log1p(Math::over(g - old_g, old_g)) - s_e * (y - old_y);
    const bool closed = by_y ? most <= least * (1 + Real(2e-7)) : high <= low * (1 + Math::kClosest);
    done = (inside && magnitude(move) < Real(0.01)) || closed || round + 1 == kMostProxEvaluations;
    if (!done) common = p.e * g * Math::exp(-s_e * y);
  }
  if (failed) return {0, 0, 0, 0};
  return {g, y, clamped(move, Real(-0.5), Real(0.5)), evaluations};
}

}  // namespace truemax
