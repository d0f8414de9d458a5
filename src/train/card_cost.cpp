#include "train/card_cost.hpp"

#include <algorithm>

#include "train/encoder.hpp"
#include "train/learnt_lane.hpp"
#include "train/step_cost.hpp"

namespace truemax {
namespace {

// Of an ordinary processor and card; only their ratio matters.
constexpr double kOpening = 0.5;                     // seconds until a card is ready
constexpr double kSending = 5e9;                     // bytes per second to the card
constexpr double kProducts = 5e10;                   // floating-point operations per second and thread
constexpr double kEpochs = 60, kLearntEpochs = 20;   // of the trials and the fit together, if they are open
constexpr double kBlocks = 4, kUnknownHidden = 256;  // of a step of auto; h while it is open

}  // namespace

std::uint64_t learnt_card_bytes(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  const std::uint64_t hidden = recipe.hidden;
  constexpr std::uint64_t kEntry = 8, kExample = 32;
  const std::uint64_t rows = std::min<std::uint64_t>(recipe.rows_per_step, problem.examples);
  const std::uint64_t columns = std::min<std::uint64_t>(recipe.classes_per_step, problem.classes);
  const auto used = static_cast<std::uint64_t>(static_cast<double>(rows) * problem.nonzeros_per_row);
  const std::uint64_t moved = columns + rows + std::min<std::uint64_t>(used, problem.features);
  return LearntLane::state_bytes(facts) + problem.nonzeros * kEntry + problem.examples * kExample +
         sizeof(float) * (rows * (3 * hidden + columns) + moved * hidden) + encoder_step_bytes(facts, rows);
}

CardCost card_cost(const Facts& facts, bool may_learn, bool shape_is_open) {
  const auto& [recipe, problem, machine, draw] = facts;
  const auto rows = static_cast<double>(problem.examples), threads = static_cast<double>(machine.threads);
  const auto classes = static_cast<double>(problem.classes);
  const auto features = static_cast<double>(problem.features);
  const double row_bytes = static_cast<double>(problem.nonzeros) * 8 + rows * 32;
  const bool known = recipe.epochs < kUnlimitedEpochs && !recipe.sought.epochs;
  double cpu = 0, bytes = row_bytes;
  if (recipe.learnt() || may_learn) {
    const double hidden = recipe.hidden > 0 ? static_cast<double>(recipe.hidden) : kUnknownHidden;
    const double drawn =
        std::min(classes, static_cast<double>(std::max<std::uint64_t>(recipe.classes_per_step, 1)));
    const double epochs = known ? static_cast<double>(recipe.epochs) : kLearntEpochs;
    cpu = epochs * rows * 6 * drawn * hidden / (kProducts * threads);
    bytes += 8 * hidden * (classes + features);
  }
  if (!recipe.learnt()) {
    const StepCost cost = step_cost(problem);
    const double epochs = known ? static_cast<double>(recipe.epochs) : kEpochs;
    const double blocks =
        shape_is_open ? kBlocks : 1 + static_cast<double>(recipe.classes_per_step) / kBlockClasses;
    cpu += epochs * rows * cost.step(blocks) * cost.seconds_per_line / std::min(threads, 4.0);
    bytes += classes * features * sizeof(float);
  }
  if (recipe.seconds > 0) cpu = std::max(cpu, 10 * recipe.seconds);  // more steps fit into the same time
  return {cpu, kOpening + bytes / kSending};
}

}  // namespace truemax
