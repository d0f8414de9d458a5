#include "train/bind.hpp"

#include <algorithm>

#include "rule/methods.hpp"
#include "train/memory_plan.hpp"
#include "train/require.hpp"
#include "train/solvers.hpp"
#include "train/step_inputs.hpp"
#include "train/step_shape.hpp"

namespace truemax {

Plan bind(const Recipe& recipe, const Problem& problem, const Machine& machine) {
  const std::unique_ptr<Draw> draw = draw_for(recipe, problem);
  const Facts facts{recipe, problem, machine, draw.get()};
  require_possible(recipe, {.searches = recipe.sought.any(), .in_groups = machine.in_groups});
  require_device(facts);
  require_groups(facts);
  const Solver& steps = solver_of_steps(facts);
  const bool all_rows = find_method(recipe.method).all_rows;
  return Plan(
      facts, {.steps = &steps,
              .finish = recipe.newton > 0 ? &newton_solver() : nullptr,
              .shape = step_shape(facts),
              .rows_per_step = all_rows ? std::max<std::uint64_t>(1, problem.examples) : recipe.rows_per_step,
              .steps_per_epoch = steps_per_epoch(problem.examples, recipe),
              .steps_ahead = steps.steps_ahead(facts),
              .memory = plan_memory(facts)});
}

}  // namespace truemax
