// Evaluation of a run at some point.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "evaluate/evaluate.hpp"
#include "evaluate/sampled.hpp"
#include "train/run_state.hpp"

namespace truemax {

// evaluate() with the model of a state.
std::optional<Metrics> evaluate(const EvaluateOptions& options, std::uint64_t seed, const RunState& state,
                                const DataView& data, std::size_t threads, const std::atomic<bool>* stop,
                                const RowWatch& watch = {});

}  // namespace truemax
