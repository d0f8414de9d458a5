// How large the steps of a run are, and how many of them make a batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/data_view.hpp"
#include "draw/draw.hpp"
#include "rule/rule.hpp"
#include "train/options.hpp"

namespace truemax {

// The largest step. `draw`: null where every step has all classes.
StepShape step_shape(const DataView& data, const TrainOptions& options, const Draw* draw);

// An epoch visits N rows: the last step of several rows may have fewer of them.
std::uint64_t steps_per_epoch(std::uint64_t rows, const TrainOptions& options);

// Steps that are drawn at once: few where a step is long. The clock of a run with --seconds is looked at once
// for all of them, so that they must be over in a few milliseconds; it is the same number without a clock, so
// that a run can be repeated bit for bit. One where the draw learns.
std::size_t steps_ahead(const DataView& data, const TrainOptions& options, const Draw* draw);

// The memory of the step loop itself, besides W and the row states.
std::uint64_t step_bytes(const DataView& data, const TrainOptions& options);

}  // namespace truemax
