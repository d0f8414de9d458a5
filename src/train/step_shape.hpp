// The size of the steps of a run, and how many make a batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/data_view.hpp"
#include "draw/draw.hpp"
#include "rule/rule.hpp"
#include "train/options.hpp"

namespace truemax {

// The largest step. `draw`: null if every step has all classes.
StepShape step_shape(const DataView& data, const TrainOptions& options, const Draw* draw);

// An epoch visits N rows; its last step may have fewer rows.
std::uint64_t steps_per_epoch(std::uint64_t rows, const TrainOptions& options);

// Steps per batch: fewer if steps are long, because a run with --seconds reads the clock once per batch,
// which must take only a few milliseconds. The same without a clock, so that a replay has the same bits. 1
// for a draw that learns.
std::size_t steps_ahead(const DataView& data, const TrainOptions& options, const Draw* draw);

// The memory of the step loop itself, besides W and the row states.
std::uint64_t step_bytes(const DataView& data, const TrainOptions& options);

}  // namespace truemax
