// What a run without a method takes in place of prox, where that leads to the optimum in less time. Each says
// why it does not; empty: it does. By counted work, so that the same data and options give the same choices.
#pragma once

#include <string>

#include "train/facts.hpp"

namespace truemax {

// Search and fit by Newton's method cost little beside trials of steps and, if there are `seconds` at most,
// beside those.
std::string why_not_newton(const Problem& problem, double seconds);

// Of --target train. Of the recipe, only where and how long it runs counts.
std::string why_not_lbfgs(const Facts& facts);
std::string why_not_adam(const Facts& facts);

}  // namespace truemax
