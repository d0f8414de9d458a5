// How long a fit takes.
#pragma once

#include "train/plan.hpp"

namespace truemax {

// Of a fit of so many epochs on so many rows: clearing the weights, steps and Newton's method.
double fit_seconds(const Plan& plan, const Recipe& recipe, double rows, double epochs);

}  // namespace truemax
