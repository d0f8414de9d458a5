// --method auto: what a run needs not be told. The shape of a step (draw, head, classes) follows from counted
// costs; step, ridge and epochs from short trials, judged on rows that the trial did not see (or, for
// --target train, on training rows). No clock has a say, except under --seconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "train/trainer.hpp"

namespace truemax {

// Costs of a step in cache lines: those of its blocks, and what does not depend on them. Fixed numbers, so
// that a choice is the same on every machine.
struct StepCost {
  double nonzeros = 1;  // of a row, in the mean
  double step(double blocks) const { return 24 + blocks * (nonzeros + 6); }
  double evaluation(double all_blocks) const { return all_blocks * (0.5 * nonzeros + 6); }  // of one row
};
StepCost step_cost(const Dataset& data);

// With fewer rows nothing is searched.
inline constexpr std::size_t kFewestRows = 50;

// The step that the search for validation begins with: from the length and the weights of the rows.
double first_step(const Dataset& data, bool intercept);
// And the ridge.
double first_ridge(const Dataset& data);

// The method, and where they are open the draw, the head and the classes of a step. `options.method` is no
// longer "auto" then.
void choose_shape(const Dataset& data, TrainOptions& options);

// Step, ridge and epochs, where they are open. `sets.valid`: rows to judge by; without them a share of the
// training rows is set aside (parts of it, no copy). Observers are told of every trial. False where `stop`
// was raised. The time counts as training time: `watch` runs on. `spare`: gets the memory of the trials, for
// the fit to use.
bool choose_by_trials(const TrainSets& sets, TrainOptions& options, const Stopwatch& watch,
                      std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                      Weights* spare = nullptr);

}  // namespace truemax
