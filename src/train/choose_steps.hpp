// The steps of a run without a method, by counted costs: which classes a step has, and whether Newton's
// method, lbfgs or adam take their place.
#pragma once

#include "train/draft.hpp"
#include "train/machine.hpp"
#include "train/problem.hpp"

namespace truemax {

void choose_steps(const Problem& problem, const Machine& machine, Draft& draft);
// The draft of a linear model, for `hidden` learnt features.
Draft as_learnt(const Problem& problem, Draft draft, std::uint64_t hidden);

}  // namespace truemax
