// The state a run starts from.
#pragma once

#include "train/recipe.hpp"
#include "train/run_state.hpp"

namespace truemax {

// W = 0, of the rank's own classes (ranks/ranks.hpp); u = 0 or, for methods with exact_start, its exact
// value. `spare` may be null; else weights of an earlier run, whose memory is reused if the shape matches.
RunState make_state(const DataView& data, const Recipe& recipe, Weights* spare = nullptr);

// Weights with every page touched, to pass to make_state as `spare`. A run with a clock makes them before the
// clock starts; otherwise the time that the system takes to clear fresh pages would affect the result.
Weights cleared_weights(const DataView& data, const Recipe& recipe);

}  // namespace truemax
