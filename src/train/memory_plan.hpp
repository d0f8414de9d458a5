// Counts the memory of a run before it is taken.
#pragma once

#include "train/facts.hpp"
#include "train/memory.hpp"

namespace truemax {

// Of the largest run that trials may choose. The draw of the facts is that of the recipe.
MemoryPlan plan_memory(const Facts& facts);

}  // namespace truemax
