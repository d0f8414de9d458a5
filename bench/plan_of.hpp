// The plan of a run on this machine.
#pragma once

#include "train/bind.hpp"

namespace truemax {

inline Plan plan_of(const DataView& data, const Recipe& recipe) {
  const Problem problem = facts_of(data);
  return bind(recipe, problem, machine_of(recipe.threads, 0, problem));
}

}  // namespace truemax
