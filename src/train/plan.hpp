// What will be done with some rows, down to the size of a batch: made by bind (train/bind.hpp) from a recipe,
// and changed by nobody.
#pragma once

#include <cstdint>

#include "rule/rule.hpp"
#include "train/facts.hpp"
#include "train/memory.hpp"
#include "train/solver.hpp"

namespace truemax {

class Plan {
 public:
  const Recipe recipe;
  const Problem problem;
  const Machine machine;
  const Solver* const steps;   // takes the steps of the epochs
  const Solver* const finish;  // follows the last epoch, or takes the place of all; null: nothing does
  const StepShape shape;       // the largest step
  const std::uint64_t rows_per_step, steps_per_epoch;
  const std::size_t steps_ahead;  // of a batch, at most
  const MemoryPlan memory;        // of the largest run that trials may choose

  // The one that finds the model.
  const Solver& solver() const { return recipe.newton_alone() ? *finish : *steps; }
  Facts facts(const Draw* draw = nullptr) const { return {recipe, problem, machine, draw}; }

 private:
  struct Parts {
    const Solver *steps, *finish;
    StepShape shape;
    std::uint64_t rows_per_step, steps_per_epoch;
    std::size_t steps_ahead;
    MemoryPlan memory;
  };
  friend Plan bind(const Recipe& recipe, const Problem& problem, const Machine& machine);
  Plan(const Facts& of, const Parts& p)
      : recipe(of.recipe),
        problem(of.problem),
        machine(of.machine),
        steps(p.steps),
        finish(p.finish),
        shape(p.shape),
        rows_per_step(p.rows_per_step),
        steps_per_epoch(p.steps_per_epoch),
        steps_ahead(p.steps_ahead),
        memory(p.memory) {}
};

}  // namespace truemax
