// No number in the memory of W may overflow float32. A run keeps an upper bound on them (RunState::
// largest_weight), to which every step adds its largest possible change; a step that could pass the limit is
// not taken. Faster lanes sum in float32 and have lower limits, beyond which the general lane takes over.
#pragma once

#include <string_view>

#include "train/run_state.hpp"
#include "weights/pairs.hpp"

namespace truemax {

// The largest change that a step can make.
struct Growth {
  double memory = 0, update = 0;  // of numbers in memory, and of the weights
  bool finite = true;
};

// Well inside float32 (largest 3.4e38), so that sums and the model file stay finite.
inline constexpr double kWeightLimit = 1e38;
inline bool may_grow(double bound, const Growth& growth) {
  return growth.finite && bound + growth.memory <= kWeightLimit;
}

// The limit for sums in float32 (weights/pairs.hpp).
inline bool float_sums_hold(double bound) {
  return bound <= kPairWeightHigh;  // also false if NaN
}
// The limit at the start of a batch whose steps ignore each other's growth: no weight can pass the limit of
// float32 sums before the batch ends.
inline bool float_batch_holds(double bound) {
  return bound <= kPairWeightHigh / 2;
}
inline constexpr double kMostBatchGrowth = kPairWeightHigh / 2;

// Steps only increase the bound; computing the true maximum once an epoch is cheap.
inline void tighten_bound(RunState& state) {
  if (state.largest_weight > kPairWeightHigh / 2) state.largest_weight = state.weights.largest();
}

class GrowthGuard {
 public:
  GrowthGuard(std::string_view method, double step) : method_(method), step_(step) {}

  // Adds the growth of the next step to the bound. Throws DivergenceError, with W unchanged, if the step
  // could overflow float32. If the bound alone would refuse the step, recomputes it from all of W first, so
  // no other thread may be writing.
  void admit(RunState& state, const Growth& growth) const;
  [[noreturn]] void diverged(const RunState& state, std::uint64_t step, double update) const;

 private:
  std::string_view method_;
  double step_;
};

}  // namespace truemax
