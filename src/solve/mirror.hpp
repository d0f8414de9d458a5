// The mirror step of u (SCENT, arXiv 2602.02877): the minimiser of
//     u + exp(-u) (1 + sum) + (1/rho) (exp(-u) - exp(-u_old) + exp(-u_old) (u - u_old)),
// where the distance is the Bregman distance of exp(-u). That is
//     exp(u) = (1 + rho (1 + sum)) / (rho + exp(-u_old)),
// or with pull = rho sum exp(-u) in place of the sum
//     exp(u) = (1 + rho) / (rho + exp(-u_old) - pull).
#pragma once

#include <algorithm>
#include <cmath>

#include "core/host_device.hpp"
#include "solve/log_sum.hpp"

namespace truemax {

class Mirror {
 public:
  // u_old >= 0, rho > 0.
  TRUEMAX_HOST_DEVICE Mirror(double u_old, double rho)
      : rho_(rho), lost_(std::expm1(-u_old)), whole_(rho + std::exp(-u_old)) {}

  // The denominator after a pull; at most 0 if there is no such step.
  TRUEMAX_HOST_DEVICE double left(double pull) const { return whole_ - pull; }

  TRUEMAX_HOST_DEVICE double from_pull(double pull) const {
    const double share = (pull - lost_) / (1 + rho_);
    return share < 0.5 ? -std::log1p(-share) : std::log((1 + rho_) / left(pull));  // precise for small u
  }

  // log_sum may be -infinity: no class.
  TRUEMAX_HOST_DEVICE double from_log_sum(double log_sum) const {
    return from_pull(0) + softplus(std::log(rho_ / (1 + rho_)) + log_sum);
  }

 private:
  double rho_, lost_, whole_;  // exp(-u_old) - 1; rho + exp(-u_old)
};

TRUEMAX_HOST_DEVICE inline double log_add(double a, double b) {
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

// The step of a log-normaliser U that examples with different labels share: exp(U) becomes the mean of
// exp(u_old) and of the new estimate, with weights 1 and rho. The mirror step would forget U wherever u is
// large, for the sake of one estimate, which misses the other labels unless they are drawn. All of them are
// relative to the same number: scores may be so large that 1 added to them is lost. At least `label`, which
// is part of every normaliser.
TRUEMAX_HOST_DEVICE inline double shared_step(double old, double estimate, double label, double rho) {
  return std::max(log_add(std::max(old, label), std::log(rho) + estimate) - std::log1p(rho), label);
}

}  // namespace truemax
