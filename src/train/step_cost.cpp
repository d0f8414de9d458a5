#include "train/step_cost.hpp"

#include <algorithm>
#include <cmath>

#include "weights/weights.hpp"

namespace truemax {
namespace {

// Of an ordinary processor.
constexpr double kSecondsPerAdamLine = 4e-9, kSecondsPerLbfgsLine = 2.5e-9, kSecondsPerProduct = 1e-9;
constexpr double kProducts = 8e10;        // floating-point operations per second of learnt features
constexpr double kDeviceProducts = 2e13;  // on a card
constexpr double kDeviceSteps = 2e8;      // per second

}  // namespace

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

double row_seconds(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  const StepCost cost = step_cost(problem);
  const auto all = static_cast<double>(problem.blocks());
  const double blocks =
      draw == nullptr ? all
                      : std::min(all, draw->whole_blocks() ? static_cast<double>(draw->most_blocks())
                                                           : static_cast<double>(draw->most_classes()) + 1);
  return static_cast<double>(problem.examples) * cost.step(blocks) * cost.seconds_per_line;
}

double adam_seconds(const Facts& facts) {
  const Problem& problem = facts.problem;
  const double of_step =
      static_cast<double>(problem.features) / static_cast<double>(facts.recipe.rows_per_step);
  return static_cast<double>(problem.examples) * static_cast<double>(problem.blocks()) *
         (problem.nonzeros_per_row + of_step) * kSecondsPerAdamLine;
}

double lbfgs_seconds(const Facts& facts) {
  // A step reads or writes vectors of the shape of W about so many times; a row costs as much as so many
  // lines.
  constexpr double kVectors = 100, kLinesOfRow = 56;
  const Problem& problem = facts.problem;
  const auto rows = static_cast<double>(problem.examples);
  const double lines =
      static_cast<double>(problem.blocks()) *
          (rows * problem.nonzeros_per_row + kVectors * static_cast<double>(problem.features)) +
      kLinesOfRow * rows;
  return lines * kSecondsPerLbfgsLine;
}

namespace {

double learnt_products(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  const auto h = static_cast<double>(recipe.hidden);
  const double layer = static_cast<double>(recipe.layers * problem.width) * h;
  const auto classes = static_cast<double>(std::min<std::uint64_t>(recipe.classes_per_step, problem.classes));
  return 6 * static_cast<double>(problem.examples) * h * (classes + layer);
}

}  // namespace

double learnt_seconds(const Facts& facts) {
  return learnt_products(facts) / kProducts;
}
double device_learnt_seconds(const Facts& facts) {
  return learnt_products(facts) / kDeviceProducts;
}
double device_seconds(const Facts& facts) {
  return static_cast<double>(facts.problem.examples) / kDeviceSteps;
}

double newton_seconds(const Facts& facts) {
  constexpr double kProductsOfFit = 300;
  return newton_work(facts.problem, 4) * kProductsOfFit * kSecondsPerProduct;
}

}  // namespace truemax
