// From a recipe to the plan of some rows: of all rows of a run, or of those of a trial.
#pragma once

#include "train/plan.hpp"

namespace truemax {

// Throws UserError if these rows cannot be trained on so.
Plan bind(const Recipe& recipe, const Problem& problem, const Machine& machine);

}  // namespace truemax
