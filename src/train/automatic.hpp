// --method auto: what a run needs not be told. The shape of a step (draw, head, classes) follows from counted
// costs; step, ridge and epochs from short trials (train/search.cpp), judged on rows that the trial did not
// see (or, for --target train, on training rows). How many trials there are and how long they run follows
// from counted work, also under --seconds: the same data and options give the same choices.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "train/trainer.hpp"

namespace truemax {

// Costs of a step in cache lines: those of its blocks, and what does not depend on them. Fixed numbers, so
// that a choice is the same on every machine; so are the seconds they are taken for, by the size of W.
struct StepCost {
  double nonzeros = 1;  // of a row, in the mean
  double seconds_per_line = 4e-9;
  double weight_bytes = 0;
  double step(double blocks) const { return 24 + blocks * (nonzeros + 6); }
  double evaluation(double all_blocks) const { return all_blocks * (0.5 * nonzeros + 6); }  // of one row
  // W is cleared before every trial.
  double seconds(double steps, double blocks, double judged_rows, double all_blocks) const {
    constexpr double kClearing = 8e9, kSecondsPerEvaluatedLine = 1e-9;
    return steps * step(blocks) * seconds_per_line + weight_bytes / kClearing +
           judged_rows * evaluation(all_blocks) * kSecondsPerEvaluatedLine;
  }
};
StepCost step_cost(const DataView& data);

// With fewer rows nothing is searched.
inline constexpr std::size_t kFewestRows = 50;

double clamped_step(double step);
inline double clamped_ridge(double mu) {
  return std::min(mu, 1e15);
}

// What steps are measured in: from the length and the weights of the rows. A step moves the intercept too,
// which is a feature of size 1: where the others are tiny, their size must not decide.
double unit_of_step(const DataView& data, bool intercept);
// The step that the search for validation begins with.
double first_step(const DataView& data, bool intercept);
// And the ridge.
double first_ridge(const DataView& data);

// The method, and where they are open the draw, the head and the classes of a step. `options.method` is no
// longer "auto" then.
void choose_shape(const DataView& data, TrainOptions& options);

// What a search came to.
struct SearchResult {
  bool finished = false;                             // false where `stop` was raised
  std::uint64_t trials = 0;                          // that were judged
  bool step = false, ridge = false, epochs = false;  // trials about it were judged: it is the best so far
  double log_loss = 0;                               // of the best of the last kind of trials
};

// Step, ridge and epochs, where they are open. `sets.valid`: rows to judge by; without them a share of the
// training rows is set aside (parts of it, no copy). Observers are told of every trial. After a stop
// `options` hold the best so far. The time counts as training time: `watch` runs on.
// `spare`: gets the memory of the trials, for the fit to use.
SearchResult choose_by_trials(const TrainSets& sets, TrainOptions& options, const Stopwatch& watch,
                              std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                              Weights* spare = nullptr);

}  // namespace truemax
