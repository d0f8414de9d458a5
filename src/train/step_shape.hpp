// The size of the steps of a recipe.
#pragma once

#include <cstdint>

#include "rule/rule.hpp"
#include "train/facts.hpp"

namespace truemax {

// The largest step.
StepShape step_shape(const Facts& facts);

// An epoch visits N rows; its last step may have fewer rows.
std::uint64_t steps_per_epoch(std::uint64_t rows, const Recipe& recipe);

}  // namespace truemax
