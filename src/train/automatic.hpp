// --method auto: chooses the options that were not given. The shape of a step (draw, head, classes) follows
// from counted costs. Step, ridge and epochs come from short trials (train/search.cpp for the linear model,
// train/learnt_search.cpp for learnt features), evaluated on rows that the trial did not train on (with
// --target train, on training rows). Which of the two models it is follows from trials too
// (train/encoder_choice.cpp). The number and length of trials follow from counted work, even with --seconds,
// so the same data and options give the same choices.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

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

double mean_squared_norm(const DataView& data);  // of a row, at least kLeastNorm
inline constexpr double kLeastNorm = 1e-300;
// The same for rows that are short beside an intercept, which counts as a feature of value 1, and for learnt
// features, whose vectors begin with numbers of one size.
inline constexpr double kShortRows = 0.1;

// The unit of step sizes, from the norms and weights of the rows. The intercept counts as a feature of value
// 1, so that tiny features do not make steps on it huge.
double unit_of_step(const DataView& data, bool intercept);
// Where the search starts, for --target valid.
double first_step(const DataView& data, bool intercept);
double first_ridge(const DataView& data);

// Replaces the method "auto" and, if they are open, chooses the draw, the head and the classes per step. With
// too few classes or features, closes the choice between linear and learnt features.
void choose_shape(const DataView& data, TrainOptions& options);
// Whether W is so small, and the run so long, that exact steps of many rows, with a step of its own for each
// weight, come nearer to the optimum of the training rows than steps of one row over drawn classes.
bool adam_is_faster(const DataView& data, const TrainOptions& options);
// Whether rows are so few, beside features too, and the run so long, that L-BFGS over all of them comes
// nearer.
bool lbfgs_is_faster(const DataView& data, const TrainOptions& options);
// The step of adam (train/adam_lane.hpp) and its rows.
double adam_step(const DataView& data, bool intercept);
std::uint64_t adam_rows(const DataView& data);
// The rank that a linear model can have: as many learnt features are no restriction.
inline std::uint64_t full_rank(const DataView& data) {
  return std::min<std::uint64_t>(data.classes->size(), data.space->features);
}
inline constexpr std::uint64_t kFewestHidden = 64;  // of trials
// The h of the first trials; 0 if the rank is too small for trials.
std::uint64_t first_hidden(const DataView& data);
// The same options for `hidden` learnt features, with the shape of their step.
// Nothing is open any more: the fit uses all rows and runs for the chosen epochs. If the user has given the
// epochs and a file of validation rows, --patience watches them.
void end_search(const TrainSets& sets, TrainOptions& options);

TrainOptions as_learnt(const DataView& data, TrainOptions options, std::uint64_t hidden);

// Fits the open choices to the memory: learnt features where the weights of a linear model do not fit, and
// trials of no more of them than fit. Returns what to tell the user; empty: nothing. memory_limit: 0:
// available memory.
std::string fit_to_memory(const TrainSets& sets, TrainOptions& options, std::uint64_t memory_limit);

struct SearchResult {
  bool finished = false;     // false if `stop` was raised
  std::uint64_t trials = 0;  // that were evaluated
  // Was tried: the options hold the best so far.
  bool step = false, ridge = false, epochs = false, layers = false, tied = false, dropout = false;
  double log_loss = 0;  // the best of the last kind of trials
  bool found() const { return step || ridge || epochs || layers || tied || dropout; }
  // If linear and learnt features were compared: their log-losses on the same rows, trained on the same part.
  struct Compared {
    double linear, learnt;
    std::uint64_t hidden;  // of the best learnt ones
    // Learnt features cost more, and a smaller gain is noise of the judges.
    bool learnt_wins() const { return learnt < linear * (1 - 0.002); }
  };
  std::optional<Compared> compared;
};

// What every search needs besides rows and options.
struct SearchTools {
  const Stopwatch& watch;                     // training time; keeps running
  std::span<TrainObserver* const> observers;  // see every trial
  const std::atomic<bool>& stop;
  Weights* spare = nullptr;                 // receives the memory of the trials for the fit to reuse
  std::span<const SearchTrial> known = {};  // finished in an earlier process: not run again
};

// Chooses linear or learnt features, h, step, ridge and epochs, if open. Trials are evaluated on
// `sets.valid`, or without it on a share of the training rows (not copied). After a stop `options` hold the
// best so far.
SearchResult choose_by_trials(const TrainSets& sets, TrainOptions& options, const SearchTools& tools);
// Its parts; tools.spare is not null.
SearchResult choose_linear_by_trials(const TrainSets& sets, TrainOptions& options, const SearchTools& tools);
// The ridge of Newton's method, which TrainOptions::newton asks for.
SearchResult choose_newton_by_trials(const TrainSets& sets, TrainOptions& options, const SearchTools& tools);
// Whether rows, features and classes are so few that search and fit cost little beside trials of steps and,
// if there are `seconds` at most, beside those. It follows from counted work.
bool newton_is_cheap(const DataView& data, double seconds = 0);
// Into how many parts trials split the rows, and how many of them judge.
struct NewtonFolds {
  std::size_t of, used;
};
NewtonFolds newton_folds(const DataView& data);
// A linear run that learnt features must beat, and how many trials found it.
struct LinearRival {
  const TrainOptions& options;
  std::uint64_t trials;
};
// Without a rival, `options` are the best found. With one, they are so only if they beat it; else the search
// ends early, and SearchResult::compared says that linear is better.
SearchResult choose_learnt_by_trials(const TrainSets& sets, TrainOptions& options, const SearchTools& tools,
                                     const LinearRival* rival = nullptr);

}  // namespace truemax
