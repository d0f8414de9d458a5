#include "train/step_cost.hpp"

#include <algorithm>
#include <cmath>

#include "weights/weights.hpp"

namespace truemax {
double StepCost::tail_draws() const {
  return std::clamp(std::round(24 / std::max(1.0, nonzeros)), 1.0, 12.0);
}

StepCost step_cost(const Problem& problem) {
  constexpr double kNear = 32e6, kFar = 1e9;  // bytes
  const auto bytes = static_cast<double>(Weights::bytes_needed(problem.classes, problem.features));
  StepCost cost;
  cost.nonzeros = problem.nonzeros_per_row;
  cost.seconds_per_line = bytes <= kNear ? 4e-9 : bytes <= kFar ? 1e-8 : 2e-8;
  cost.weight_bytes = bytes;
  return cost;
}

double newton_work(const Problem& problem, double more) {
  return static_cast<double>(problem.examples) * (problem.nonzeros_per_row + more) *
         static_cast<double>(problem.classes);
}

NewtonFolds newton_folds(const Problem& problem) {
  constexpr std::size_t kFewRows = 300;
  const std::size_t of = problem.rows < kFewRows ? 10 : 5;
  return {of, newton_work(problem) > 1.5e6 ? 2 : of};
}

double lbfgs_seconds(const Facts& facts) {
  // A step reads or writes vectors of the shape of W about so many times; a row costs as much as so many
  // lines.
  constexpr double kVectors = 100, kLinesOfRow = 56;
  constexpr double kSecondsPerLbfgsLine = 2.5e-9;  // of an ordinary processor
  const Problem& problem = facts.problem;
  const auto rows = static_cast<double>(problem.examples);
  const double lines =
      static_cast<double>(problem.blocks()) *
          (rows * problem.nonzeros_per_row + kVectors * static_cast<double>(problem.features)) +
      kLinesOfRow * rows;
  return lines * kSecondsPerLbfgsLine;
}

}  // namespace truemax
