// Where a run is done, and in how much memory.
#pragma once

#include <string>

#include "train/draft.hpp"
#include "train/machine.hpp"
#include "train/problem.hpp"

namespace truemax {

// False: the card has to be known first.
bool choose_device(const Problem& problem, const Machine& machine, Draft& draft);
// Learnt features where the weights of a linear model do not fit, and trials of no more of them than fit.
// Returns what to tell the user; empty: nothing.
std::string fit_to_memory(const Problem& problem, const Machine& machine, Draft& draft);
// One running mean of squared gradients for each vector, if memory is short otherwise. Whether it is.
bool save_memory(const Problem& problem, const Machine& machine, Draft& draft);

}  // namespace truemax
