// The table of solvers: every way to the optimum, and what decides between them.
#pragma once

#include <span>

#include "train/solver.hpp"

namespace truemax {

// In the order in which they are asked: an entry stands before every other that can do the same runs at a
// higher cost.
std::span<const Solver> solvers();

// The first that can take the steps of a recipe.
const Solver& solver_of_steps(const Facts& facts);
const Solver& newton_solver();

}  // namespace truemax
