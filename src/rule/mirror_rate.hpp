// The mirror strength rho of a step: it falls with the step unless --no-rho-falls is given.
#pragma once

#include <algorithm>
#include <limits>

#include "rule/rule.hpp"

namespace truemax {

class MirrorRate {
 public:
  explicit MirrorRate(const RuleOptions& options) : rho_(options.rho), falls_(options.rho_falls) {}

  // Above 0 even after the step has decayed to nothing.
  double at(const StepView& view) const { return at(view.decayed, view.complete); }
  // If every step has all classes, the normaliser is exact and replaces the old u.
  double at(double decayed, bool complete) const {
    constexpr double kComplete = 1e6;
    if (complete) return kComplete;
    return falls_ ? std::max(rho_ * decayed, std::numeric_limits<double>::min()) : rho_;
  }

 private:
  double rho_;
  bool falls_;
};

}  // namespace truemax
