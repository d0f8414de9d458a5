// The mirror step of u (SCENT, arXiv 2602.02877): the minimiser of
//     u + exp(-u) (1 + sum) + (1/rho) (exp(-u) - exp(-u_old) + exp(-u_old) (u - u_old)),
// where the distance is the Bregman distance of exp(-u). That is
//     exp(u) = (1 + rho (1 + sum)) / (rho + exp(-u_old)),
// or with pull = rho sum exp(-u) in place of the sum
//     exp(u) = (1 + rho) / (rho + exp(-u_old) - pull).
#pragma once

#include <cmath>

#include "solve/log_sum.hpp"

namespace truemax {

class Mirror {
 public:
  // u_old >= 0, rho > 0.
  Mirror(double u_old, double rho) : rho_(rho), lost_(std::expm1(-u_old)), whole_(rho + std::exp(-u_old)) {}

  // The denominator after a pull; at most 0 if there is no such step.
  double left(double pull) const { return whole_ - pull; }

  double from_pull(double pull) const {
    const double share = (pull - lost_) / (1 + rho_);
    return share < 0.5 ? -std::log1p(-share) : std::log((1 + rho_) / left(pull));  // precise for small u
  }

  // log_sum may be -infinity: no class.
  double from_log_sum(double log_sum) const {
    return from_pull(0) + softplus(std::log(rho_ / (1 + rho_)) + log_sum);
  }

 private:
  double rho_, lost_, whole_;  // exp(-u_old) - 1; rho + exp(-u_old)
};

}  // namespace truemax
