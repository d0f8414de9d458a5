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

// The search for the root, one evaluation at a time: whoever has the classes gives the sums at
// x_j = common() norm_j o_j E_j to take(), until it is done(). Many searches can so share one message.
template <class Math>
class ProxSearch {
 public:
  using Real = typename Math::Real;

  ProxSearch() = default;
  TRUEMAX_EVERYWHERE explicit ProxSearch(const ProxEquation<Real>& p)
      : keep_(1 + p.inverse_rho),
        base_(p.base),
        e_(p.e),
        s_e_(p.label_norm * p.e),
        over_keep_(Math::over(1, keep_)) {
    const Real sum = p.sum;
    // Both ends of the bracket, in g and in y: the step that is explicit in W, and the one without classes.
    low_ = Math::over(base_, keep_ + sum), high_ = Math::over(base_, keep_);
    least_ = 0, most_ = low_ * sum;
    const Real eta = 1 + p.squares / (sum * sum);  // 2 if one class has all the mass, 1 if very many share it
    y_ = Math::over(rough_lambert<Math>(eta * s_e_ * sum * low_), eta * s_e_);
    g_ = g_of_y();
    // As if a single class stood for all: its equation, log(y/(sum g)) + eta s e y = 0, needs no vector.
    for (int i = 0; i < 2 && g_ > low_ && g_ < high_ && y_ > 0; ++i) {
      const Real pull = eta * s_e_ * y_;
      const Real delta = Math::over(-(Math::log(Math::over(y_, sum * g_)) + pull) * (keep_ * g_),
                                    y_ + (1 + pull) * (keep_ * g_));
      y_ *= grown<Math>(clamped(delta, Real(-1), Real(1)));
      g_ = g_of_y();
      if (magnitude(delta) < Real(0.05)) break;
    }
    if (!(g_ >= low_ && g_ <= high_ && y_ > 0)) g_ = std::sqrt(low_ * high_), y_ = y_of_g();
    common_ = e_ * g_ * Math::exp(-s_e_ * y_);
  }

  // From a first guess that was found elsewhere (solve/prox_guess.hpp).
  TRUEMAX_EVERYWHERE ProxSearch(const ProxEquation<Real>& p, Real y, Real g, Real common)
      : keep_(1 + p.inverse_rho),
        base_(p.base),
        e_(p.e),
        s_e_(p.label_norm * p.e),
        over_keep_(Math::over(1, keep_)),
        low_(Math::over(base_, keep_ + p.sum)),
        high_(Math::over(base_, keep_)),
        least_(0),
        most_(low_ * p.sum),
        g_(g),
        y_(y),
        common_(common) {}

  TRUEMAX_EVERYWHERE Real common() const { return common_; }
  TRUEMAX_EVERYWHERE Real y() const { return y_; }
  TRUEMAX_EVERYWHERE Real g() const { return g_; }
  TRUEMAX_EVERYWHERE bool done() const { return done_; }

  TRUEMAX_EVERYWHERE void take(const ProxSums<Real>& at) {
    ++evaluations_;
    if (!(at.value > 0)) {  // all classes underflow
      done_ = failed_ = true;
      return;
    }
    const Real old_g = g_, old_y = y_;
    const Real error = Math::log(Math::over(e_ * y_, at.value)), share = Math::over(at.slope, at.value);
    if (error > 0)
      low_ = larger(low_, g_), most_ = smaller(most_, y_);
    else
      high_ = smaller(high_, g_), least_ = larger(least_, y_);
    // Of two nearly equal numbers, base and g (1 + 1/rho), only their difference y has digits.
    const bool by_y = y_ < Real(0.5) * base_;
    if (by_y) {
      const Real weight = keep_ * g_;
      const Real delta = clamped(Math::over(-error * weight, weight + share * y_ * (1 + s_e_ * weight)),
                                 Real(-1.5), Real(1.5));
      y_ *= grown<Math>(delta);
      g_ = g_of_y();
    } else {
      const Real slope = Math::over(g_ * keep_, y_) + share * (1 + s_e_ * g_ * keep_);
      const Real delta = clamped(Math::over(error, slope), Real(-1.5), Real(1.5));
      g_ *= grown<Math>(delta);
      y_ = y_of_g();
    }
    const bool inside = y_ > 0 && g_ > 0 && (by_y ? y_ >= least_ && y_ <= most_ : g_ >= low_ && g_ <= high_);
    if (!inside) {
      g_ = std::sqrt(low_ * high_), y_ = y_of_g();
      if (by_y && least_ > 0 && !(y_ > least_ && y_ < most_))
        y_ = std::sqrt(least_) * std::sqrt(most_), g_ = g_of_y();
      if (!(y_ > 0)) {
        done_ = failed_ = true;
        return;
      }
    }
    move_ = Math::log1p(Math::over(g_ - old_g, old_g)) - s_e_ * (y_ - old_y);
    const bool closed = by_y ? most_ <= least_ * (1 + Real(2e-7)) : high_ <= low_ * (1 + Math::kClosest);
    done_ = (inside && magnitude(move_) < Real(0.01)) || closed || evaluations_ == kMostProxEvaluations;
    if (!done_) common_ = e_ * g_ * Math::exp(-s_e_ * y_);
  }

  TRUEMAX_EVERYWHERE ProxRoot<Real> root() const {
    if (failed_) return {0, 0, 0, 0};
    return {g_, y_, clamped(move_, Real(-0.5), Real(0.5)), evaluations_};
  }

 private:
  TRUEMAX_EVERYWHERE Real g_of_y() const { return (base_ - y_) * over_keep_; }
  TRUEMAX_EVERYWHERE Real y_of_g() const { return base_ - g_ * keep_; }

  Real keep_ = 1, base_ = 1, e_ = 1, s_e_ = 1, over_keep_ = 1;
  Real low_ = 0, high_ = 0, least_ = 0, most_ = 0;
  Real g_ = 0, y_ = 0, move_ = 0, common_ = 0;
  int evaluations_ = 0;
  bool done_ = false, failed_ = false;
};

// evaluate(common): the sums at x_j = common norm_j o_j E_j. `done`: there is nothing to solve here, but
// others need the evaluations; the result has no meaning.
template <class Math, class Evaluate, class Together = Alone>
TRUEMAX_EVERYWHERE ProxRoot<typename Math::Real> solve_prox_equation(
    const ProxEquation<typename Math::Real>& p, Evaluate&& evaluate, const Together& together = {},
    bool done = false) {
  ProxSearch<Math> search(p);
  while (together.any(!done)) {
    const ProxSums<typename Math::Real> at = evaluate(search.common());
    if (done) continue;
    search.take(at);
    done = search.done();
  }
  return search.root();
}

}  // namespace truemax
