// What remains of an implicit step of one row when its classes are replaced by one: find (u, v) with
//     e (1 - exp(-u)) + u = u_old + kappa v   and   u + eta v + beta log(v eta/beta) = beta constant.
// With a = eta v/beta the second says a = W(exp(constant - u/beta)), which leaves a root in u alone, as in
// solve/implicit.hpp.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/host_device.hpp"
#include "solve/lambert.hpp"

namespace truemax {

struct OneClassModel {
  double e, u_old, kappa;
  double beta, eta, constant;

  // The model that matches, at tau, a sum over classes v and minus its first and second derivative. False if
  // the second derivative cannot be matched.
  TRUEMAX_HOST_DEVICE bool match(double tau, double v, double slope, double curve) {
    const double inverse = v / slope;
    beta = inverse * inverse * (curve / slope);  // >= 1 by Hoelder's inequality
    double alpha_v = inverse - beta;
    const bool exact = alpha_v >= -0.5 * v;
    if (!exact) alpha_v = -0.5 * v, beta = inverse + 0.5 * v;
    eta = 1 + alpha_v / v;
    constant = (tau + alpha_v) / beta + std::log(eta * v / beta);
    return exact;
  }
};

struct OneClassSolution {
  double u, v;
};

// exp(-u) - 1 without loss of digits; std::expm1 costs several times as much as std::exp.
TRUEMAX_HOST_DEVICE inline double lost_of(double u) {
  return u > 0.5 ? std::exp(-u) - 1 : std::expm1(-u);
}

// The u >= 0 with e (1 - exp(-u)) + u = target, for target >= 0.
TRUEMAX_HOST_DEVICE inline double solve_without_class(double e, double target, double guess_u = -1) {
  // Concave in u: Newton from the left never overshoots; both starts are left of the root.
  double u = guess_u >= 0 ? guess_u : std::max(target - e, target / (1 + e));
  for (int i = 0; i < 100; ++i) {
    const double lost = lost_of(u), f = u - target - e * lost, slope = 1 + e * (1 + lost);
    double curve = -e * (1 + lost);
    if (f < -0.5 * slope) curve = 0;  // as in solve_one_class
    const double move = -2 * f * slope / (2 * slope * slope - f * curve);
    u = std::max(u + move, 0.0);
    if (std::abs(move) <= 1e-5 * std::min(u, 1.0) || std::abs(move) <= 1e-16 * u) break;
  }
  return u;
}

// From a guess of u; a_there: the a at that guess, below 0 if unknown.
TRUEMAX_HOST_DEVICE inline OneClassSolution solve_one_class(const OneClassModel& p, double guess_u,
                                                            double a_there = -1) {
  constexpr double kLowest = -690;
  const double gamma = p.kappa * p.beta / p.eta, over_beta = 1 / p.beta;
  double u = guess_u;
  const auto exponent = [&] { return std::max(p.constant - u * over_beta, kLowest); };
  double a = a_there >= 0 ? a_there : lambert_w_exp(exponent());
  int leaps = 0;
  for (int i = 0; i < 300; ++i) {
    const double lost = lost_of(u), decayed = p.e * (1 + lost), rest = u - p.u_old - p.e * lost;
    const double pull = gamma * a, g = rest - pull, over = 1 / (1 + a);
    // If the pull is far too large, u would creep up by one per iteration: jump to where the pull is about
    // right.
    if (leaps < 3 && pull > 8 * (1 + std::abs(rest)) && a < 1) {
      ++leaps;
      const double wanted = (1 + std::max(rest, 0.0)) / gamma;
      const double next = p.beta * (p.constant - wanted - std::log(wanted));
      if (next > u + 1) {
        u = next;
        a = lambert_w_exp(exponent());
        continue;
      }
    }
    const double da = pull * over * over_beta, slope = 1 + decayed + da;
    double curve = -(da * over * over * over_beta + decayed);
    if (g < -0.5 * slope) curve = 0;  // Newton only, if the root is far to the right: see implicit.cpp
    const double next = std::max(u - 2 * g * slope / (2 * slope * slope - g * curve), 0.0);
    const double moved = next - u, rho = -moved * over_beta * over;
    u = next;
    if (std::abs(rho) > 0.3) {
      a = lambert_w_exp(exponent());
    } else {
      a += a * (rho + rho * rho * (0.5 * over + rho * over * (0.5 * over - 1.0 / 3.0)));
      if (std::abs(rho) > 1e-4) a = refine_lambert_w_exp(exponent(), a);
    }
    if (std::abs(moved) <= 1e-5 + 1e-14 * (u + std::abs(p.constant))) break;
  }
  return {u, p.beta / p.eta * a};
}

}  // namespace truemax
