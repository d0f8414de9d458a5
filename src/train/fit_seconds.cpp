#include "train/fit_seconds.hpp"

#include <algorithm>
#include <memory>

#include "train/solvers.hpp"
#include "train/step_inputs.hpp"
#include "weights/weights.hpp"

namespace truemax {

double fit_seconds(const Plan& plan, const Recipe& recipe, double rows, double epochs) {
  Problem part = plan.problem;
  const double share = rows / static_cast<double>(part.examples);
  for (std::uint64_t* count : {&part.rows, &part.examples, &part.inputs, &part.nonzeros})
    *count = static_cast<std::uint64_t>(std::max(1.0, share * static_cast<double>(*count)));
  const std::unique_ptr<Draw> draw = draw_for(recipe, part);
  const Facts facts{recipe, part, plan.machine, draw.get()};
  const Solver& steps = solver_of_steps(facts);
  double seconds = epochs * steps.seconds(facts);
  constexpr double kClearing = 1.5e10;  // bytes per second of W, when a run begins
  const std::uint64_t weights = Weights::bytes_needed(part.classes, recipe.weight_columns(part.features));
  if (!recipe.on_gpu()) seconds += static_cast<double>(weights) / kClearing;
  if (recipe.newton > 0) seconds += newton_solver().seconds(facts);
  return seconds;
}

}  // namespace truemax
