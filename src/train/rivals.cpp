#include "train/rivals.hpp"

#include <algorithm>
#include <cmath>

#include "train/step_cost.hpp"

namespace truemax {

RivalSlice RivalPlan::before(std::uint64_t epoch) const {
  if (epoch == 0 || all_ == 0 || epoch % epochs_ != 0) return {};
  const std::size_t number = (epoch / epochs_ - 1) % slices(), first = number * rows_;
  return {number, first, std::min(first + rows_, all_)};
}

RivalPlan rival_plan(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  constexpr double kShare = 1;                                       // of the time of an epoch's steps
  constexpr double kSecondsPerEvaluatedLine = 1e-9, kReading = 8e9;  // W is read once for each slice
  // Measured: steps gain more from a card than passes do.
  const double card = recipe.on_gpu() ? 3 : 1;
  const StepCost cost = step_cost(problem);
  const auto rows = static_cast<double>(std::max<std::uint64_t>(problem.rows, 1));
  const auto blocks = static_cast<double>(problem.blocks());
  const double of_row = card * cost.evaluation(blocks) * kSecondsPerEvaluatedLine;
  const double reading = cost.weight_bytes / kReading;
  const double step = cost.step(static_cast<double>(draw->most_blocks())) * cost.seconds_per_line;
  const double budget = kShare * static_cast<double>(problem.examples) * step;
  // Enough rows that reading W is not most of the work.
  const double slice = std::clamp(std::max(budget, reading) / of_row, 1.0, rows);
  const double epochs = std::ceil((slice * of_row + reading) / budget * 0.999);
  return {problem.rows, static_cast<std::size_t>(slice),
          static_cast<std::uint64_t>(std::clamp(epochs, 1.0, 1e18))};
}

// The label is among them, and others share a block.
std::size_t rival_classes(const Draw& draw) {
  return draw.most_rivals() + 4;
}

}  // namespace truemax
