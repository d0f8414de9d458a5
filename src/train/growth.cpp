#include "train/growth.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace truemax {

void GrowthGuard::admit(RunState& state, const Growth& growth) const {
  constexpr double kDiverged = 1e37;  // weights of this size are useless
  if (!may_grow(state.largest_weight, growth)) {
    state.largest_weight = state.weights.largest();
    if (!(state.largest_weight <= kDiverged) || !may_grow(state.largest_weight, growth))
      diverged(state, state.step, growth.update);
  }
  state.largest_weight += growth.memory;
}

void GrowthGuard::diverged(const RunState& state, std::uint64_t step, double update) const {
  throw DivergenceError(fmt::format(
      "{} diverged at step {} of epoch {}: the next update would overflow the weights (largest weight "
      "{:.2g}, update {:.2g}). Try --step {:.3g}",
      method_, step + 1, state.epoch + 1,
      state.learnt.empty() ? state.weights.largest_weight() : state.largest_weight, update, step_ / 100));
}

}  // namespace truemax
