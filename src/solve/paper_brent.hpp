// Algorithm 1 as the paper prints it: the bracket on u from the sign of the derivative at the old u, then
// Brent's root finder on g with the Lambert function. Slow but faithful: the oracle of solve_implicit and the
// reference for the number of evaluations. (Boost's brent_find_minima minimises; what the paper calls Brent's
// method is the root finder.)
#pragma once

#include <algorithm>
#include <cmath>

#include "solve/lambert.hpp"

namespace truemax {

struct Problem {
  double e, o, gap, gamma, u_old;  // as in solve/implicit.hpp
};

struct Solution {
  double u, a;
  int evaluations;
};

struct Bracket {
  double low, high;
};

// g(u) = e (1 - exp(-u)) + u - u_old - gamma W(exp(C - u)): half of eq:u_derivative.
inline double paper_derivative(const Problem& p, double u) {
  const double c = std::log(p.e * p.o / p.gamma) + p.gap;
  return -p.e * std::expm1(-u) + (u - p.u_old) - p.gamma * lambert_w_exp(c - u);
}

// log(1 + o exp(gap)) without overflow.
inline double log_one_plus_weighted_exp(double o, double gap) {
  const double t = std::log(o) + gap;
  return t > 0 ? t + std::log1p(std::exp(-t)) : std::log1p(std::exp(t));
}

// "Calculate lower and upper bounds on u_i" of Algorithm 1; P(exp(t)) is computed from t.
inline Bracket paper_bracket(const Problem& p) {
  const double g = paper_derivative(p, p.u_old);
  const auto bound = [&](double gap) {
    return p.u_old + lambert_w_exp(std::log(p.e) + p.e - p.u_old + log_one_plus_weighted_exp(p.o, gap)) - p.e;
  };
  if (g < 0) return {p.u_old, bound(p.gap)};
  if (g > 0) return {bound(p.gap - p.e / p.gamma), p.u_old};
  return {p.u_old, p.u_old};
}

// Brent (1973), "zeroin": a root of f in [a, b] where f changes sign. Counts its evaluations.
template <class F>
double brent_root(F&& f, double a, double b, double tolerance, int* evaluations) {
  double fa = f(a), fb = f(b), c = a, fc = fa, d = b - a, e = d;
  *evaluations = 2;
  for (int i = 0; i < 200; ++i) {
    if ((fb > 0) == (fc > 0)) c = a, fc = fa, d = e = b - a;
    if (std::abs(fc) < std::abs(fb)) a = b, b = c, c = a, fa = fb, fb = fc, fc = fa;
    const double limit = 2 * 2.2e-16 * std::abs(b) + 0.5 * tolerance;
    const double half = 0.5 * (c - b);
    if (std::abs(half) <= limit || fb == 0) return b;
    if (std::abs(e) >= limit && std::abs(fa) > std::abs(fb)) {
      const double s = fb / fa;
      double p, q;
      if (a == c) {
        p = 2 * half * s, q = 1 - s;
      } else {
        const double t = fa / fc, r = fb / fc;
        p = s * (2 * half * t * (t - r) - (b - a) * (r - 1)), q = (t - 1) * (r - 1) * (s - 1);
      }
      if (p > 0) q = -q;
      p = std::abs(p);
      if (2 * p < std::min(3 * half * q - std::abs(limit * q), std::abs(e * q)))
        e = d, d = p / q;
      else
        d = e = half;
    } else {
      d = e = half;
    }
    a = b, fa = fb;
    b += std::abs(d) > limit ? d : (half > 0 ? limit : -limit);
    fb = f(b);
    ++*evaluations;
  }
  return b;
}

inline Solution solve_as_printed(const Problem& p, double tolerance) {
  const Bracket bracket = paper_bracket(p);
  Solution s{bracket.low, 0, 1};
  if (bracket.low < bracket.high) {
    int evaluations = 0;
    s.u = brent_root([&](double u) { return paper_derivative(p, u); }, bracket.low, bracket.high, tolerance,
                     &evaluations);
    s.evaluations += evaluations;
  }
  s.a = lambert_w_exp(std::log(p.e * p.o / p.gamma) + p.gap - s.u);
  return s;
}

}  // namespace truemax
