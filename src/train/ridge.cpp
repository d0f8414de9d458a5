#include "train/ridge.hpp"

#include <algorithm>

#include "train/step_inputs.hpp"

namespace truemax {

Ridge::Ridge(const DataView& data, const Recipe& recipe, const ProblemInfo& problem, const Draw* draw)
    : mu_(recipe.ridge),
      total_weight_(problem.total_weight),
      rows_per_step_(static_cast<double>(recipe.rows_per_step)),
      free_intercept_(problem.free_intercept),
      with_intercept_(recipe.ridge_intercept) {
  // Learnt features have a ridge of their own.
  if (!on() || recipe.hidden > 0 || (draw != nullptr && draw->learns())) return;
  const std::size_t n = recipe.rows_per_step;
  beta_ = ridge_weights(data, draw, std::min(n, data.size()));
  if (data.size() > n && data.size() % n != 0) last_beta_ = ridge_weights(data, draw, data.size() % n);
}

void Ridge::follow(const DataView& data, const Draw& draw) {
  if (!beta_.empty()) beta_ = ridge_weights(data, &draw, 1);
}

std::uint64_t Ridge::bytes(const Recipe& recipe, const Problem& problem) {
  if (recipe.ridge == 0 || recipe.hidden > 0) return 0;
  const std::uint64_t arrays = problem.examples % recipe.rows_per_step == 0 ? 3 : 4;  // beta, scales, norms
  return problem.classes * arrays * sizeof(double);
}

}  // namespace truemax
