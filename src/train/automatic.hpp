// --method auto: chooses the options that were not given. The shape of a step (draw, head, classes) follows
// from counted costs. Step, ridge and epochs come from short trials (train/search.cpp), evaluated on rows
// that the trial did not train on (with --target train, on training rows). The number and length of trials
// follow from counted work, even with --seconds, so the same data and options give the same choices.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "train/trainer.hpp"

namespace truemax {

// Costs in cache lines: those of the blocks and a constant part. The numbers, and the seconds per line by the
// size of W, are fixed so that choices are the same on every machine.
struct StepCost {
  double nonzeros = 1;  // per row, on average
  double seconds_per_line = 4e-9;
  double weight_bytes = 0;
  double step(double blocks) const { return 24 + blocks * (nonzeros + 6); }
  double evaluation(double all_blocks) const { return all_blocks * (0.5 * nonzeros + 6); }  // of one row
  // Includes clearing W, once per trial.
  double seconds(double steps, double blocks, double judged_rows, double all_blocks) const {
    constexpr double kClearing = 8e9, kSecondsPerEvaluatedLine = 1e-9;
    return steps * step(blocks) * seconds_per_line + weight_bytes / kClearing +
           judged_rows * evaluation(all_blocks) * kSecondsPerEvaluatedLine;
  }
};
StepCost step_cost(const DataView& data);

// With fewer rows there are no trials.
inline constexpr std::size_t kFewestRows = 50;

double clamped_step(double step);
inline double clamped_ridge(double mu) {
  return std::min(mu, 1e15);
}

// The unit of step sizes, from the norms and weights of the rows. The intercept counts as a feature of value
// 1, so that tiny features do not make steps on it huge.
double unit_of_step(const DataView& data, bool intercept);
// Where the search starts, for --target valid.
double first_step(const DataView& data, bool intercept);
double first_ridge(const DataView& data);

// Replaces the method "auto" and, if they are open, chooses the draw, the head and the classes per step.
void choose_shape(const DataView& data, TrainOptions& options);

struct SearchResult {
  bool finished = false;                             // false if `stop` was raised
  std::uint64_t trials = 0;                          // that were evaluated
  bool step = false, ridge = false, epochs = false;  // was tried: the options hold the best so far
  double log_loss = 0;                               // the best of the last kind of trials
  // If linear and learnt features were compared: their log-losses on the same rows.
  struct Compared {
    double linear, learnt;
    std::uint64_t hidden;
  };
  std::optional<Compared> compared;
};

// Chooses step, ridge and epochs, if open. Trials are evaluated on `sets.valid`, or without it on a share of
// the training rows (not copied). Observers see every trial. After a stop `options` hold the best so far. The
// search counts as training time: `watch` keeps running. `spare` receives the memory of the trials for the
// fit to reuse.
SearchResult choose_by_trials(const TrainSets& sets, TrainOptions& options, const Stopwatch& watch,
                              std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                              Weights* spare = nullptr);
// The h that is worth a trial against linear features; 0: none, as where a linear model of that rank is no
// restriction.
std::uint64_t hidden_worth_trying(const DataView& data);

// The same for learnt features (train/learnt_search.cpp). `rival`: null, or the options of a linear run,
// which `options` become if they are better.
SearchResult choose_learnt_by_trials(const TrainSets& sets, TrainOptions& options, const Stopwatch& watch,
                                     std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                                     Weights& spare, const TrainOptions* rival = nullptr);

}  // namespace truemax
