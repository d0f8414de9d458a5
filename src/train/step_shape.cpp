#include "train/step_shape.hpp"

#include <algorithm>

#include "rule/methods.hpp"

namespace truemax {

StepShape step_shape(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  const std::size_t drawn = draw != nullptr ? draw->most_classes() : 0;
  const std::size_t rows = std::min<std::size_t>(recipe.rows_per_step, problem.examples);
  return {rows, drawn, draw == nullptr ? problem.blocks() * kBlockClasses : drawn + rows};
}

std::uint64_t steps_per_epoch(std::uint64_t rows, const Recipe& recipe) {
  if (find_method(recipe.method).all_rows) return rows > 0 ? 1 : 0;
  return (rows + recipe.rows_per_step - 1) / recipe.rows_per_step;
}

}  // namespace truemax
