// What the counting functions of the solvers are told: how, of what, on what.
#pragma once

#include "draw/draw.hpp"
#include "train/machine.hpp"
#include "train/problem.hpp"
#include "train/recipe.hpp"

namespace truemax {

struct Facts {
  const Recipe& recipe;
  const Problem& problem;
  const Machine& machine;
  const Draw* draw = nullptr;  // null: every step takes all classes
};

}  // namespace truemax
