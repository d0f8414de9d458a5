#include "train/ridge.hpp"

#include <algorithm>

#include "train/problem.hpp"

namespace truemax {

Ridge::Ridge(const DataView& data, const TrainOptions& options, const ProblemInfo& problem, const Draw* draw)
    : mu_(options.ridge),
      total_weight_(problem.total_weight),
      rows_per_step_(static_cast<double>(options.rows_per_step)),
      free_intercept_(problem.free_intercept),
      with_intercept_(options.ridge_intercept) {
  // Learnt features have a ridge of their own.
  if (!on() || options.hidden > 0 || (draw != nullptr && draw->learns())) return;
  const std::size_t n = options.rows_per_step;
  beta_ = ridge_weights(data, draw, std::min(n, data.size()));
  if (data.size() > n && data.size() % n != 0) last_beta_ = ridge_weights(data, draw, data.size() % n);
}

void Ridge::follow(const DataView& data, const Draw& draw) {
  if (!beta_.empty()) beta_ = ridge_weights(data, &draw, 1);
}

std::uint64_t Ridge::bytes(const DataView& data, const TrainOptions& options) {
  if (options.ridge == 0 || options.hidden > 0) return 0;
  const std::uint64_t arrays = data.size() % options.rows_per_step == 0 ? 3 : 4;  // beta, scales, norms
  return data.classes->size() * arrays * sizeof(double);
}

}  // namespace truemax
