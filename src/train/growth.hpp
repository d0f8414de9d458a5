// No number in the memory of W may leave float32. A run keeps an upper bound on them (RunState::
// largest_weight) to which every step adds what it may grow them by; a step that could pass the limit is not
// taken. Faster lanes add up in float32 and have narrower limits: beyond them the general lane takes over.
#pragma once

#include <string_view>

#include "train/commuting.hpp"
#include "train/run_state.hpp"
#include "weights/pairs.hpp"

namespace truemax {

// How far a step may move weights.
struct Growth {
  double memory = 0, update = 0;  // numbers in memory, and the weights themselves
  bool finite = true;
};

// Well inside float32 (largest 3.4e38), so that sums and the model file stay finite.
inline constexpr double kWeightLimit = 1e38;
inline bool may_grow(double bound, const Growth& growth) {
  return growth.finite && bound + growth.memory <= kWeightLimit;
}

// Sums in float32, step after step (weights/pairs.hpp).
inline bool float_sums_hold(double bound) {
  return bound <= kPairWeightHigh;  // also false if NaN
}
// Batches whose steps do not look at each other's growth: no weight passes the limit of float32 sums before
// the batch ends.
inline bool float_batch_holds(double bound) {
  return bound <= kPairWeightHigh / 2;
}
inline constexpr double kMostBatchGrowth = kPairWeightHigh / 2;
inline bool may_grow_in_batch(double growth) {
  return growth <= kMostBatchGrowth / static_cast<double>(kStepsAhead);
}

// The bound only grows as steps are taken; the truth is cheap once an epoch.
inline void tighten_bound(RunState& state) {
  if (state.largest_weight > kPairWeightHigh / 2) state.largest_weight = state.weights.largest();
}

class GrowthGuard {
 public:
  GrowthGuard(std::string_view method, double step) : method_(method), step_(step) {}

  // Adds the growth of the next step to the bound. Throws DivergenceError, with W as it was, where the step
  // could leave float32. Looks at all of W first if the bound alone says so, so no other thread may write.
  void admit(RunState& state, const Growth& growth) const;
  [[noreturn]] void diverged(const RunState& state, std::uint64_t step, double update) const;

 private:
  std::string_view method_;
  double step_;
};

}  // namespace truemax
