// Runs that are compared: each trains in legs, by a clock or by epochs, and is evaluated along the way.
// compare (train/compare.hpp) gives all the same time, tune (train/tune.hpp) lets the better half go on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/fit.hpp"
#include "train/machine.hpp"
#include "train/problem.hpp"
#include "train/recipe.hpp"
#include "train/sets.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

// What the runs of a study have in common.
struct StudyRows {
  const TrainSets& sets;
  const Problem& problem;
  const Machine& machine;
  const std::atomic<bool>& stop;
};

// One run. Training and, before it, trials of what the recipe seeks count as its time, evaluations do not.
class StudyRun {
 public:
  // `tick` is called periodically by the training thread; `time` empty: the steady clock.
  StudyRun(const Recipe& recipe, const StudyRows& rows, std::function<void()> tick = {},
           TimeSource time = {});

  // Both throw DivergenceError.
  void train_until(double seconds);
  void train_until_epoch(std::uint64_t epoch);
  // The log-loss; nullopt if `stop` was raised. Throws DivergenceError if it is not finite.
  std::optional<double> log_loss(const DataView& data, std::size_t threads);

  double seconds() const { return watch_.seconds(); }
  double epochs() const { return fit_->epochs(); }
  std::uint64_t whole_epochs() const { return fit_->state().epoch; }
  std::uint64_t steps() const { return fit_->steps(); }
  double step() const { return fit_->plan().recipe.step; }  // given, or found by trials

 private:
  void run(const Fit::Until& until);

  const StudyRows rows_;
  std::function<void()> tick_;
  Stopwatch watch_;
  Weights spare_;  // memory of the trials
  std::optional<Fit> fit_;
};

// How far a run of a comparison goes: either seconds (of training only) or epochs.
struct Budget {
  double seconds = 0;
  std::uint64_t epochs = 0;
  std::size_t points = 8;        // evaluations, the last at the end; geometric in time or epochs
  std::size_t threads = 1;       // for evaluation; training uses one
  std::function<void()> tick{};  // as in StudyRun
  TimeSource time{};
};

struct CurvePoint {
  double seconds = 0, epochs = 0;
  double train_loss = 0;
  std::optional<double> test_loss;
};

struct BudgetedRun {
  std::vector<CurvePoint> curve;
  std::string divergence;    // the message, if the method diverged
  bool interrupted = false;  // `stop` was raised
  double seconds = 0;        // of training
  std::uint64_t steps = 0;
  double step = 0;  // first step size: given, or found by trials

  bool finished() const { return !interrupted && divergence.empty(); }
};

// The recipe ends as the budget says. With a budget of seconds, --schedule decay multiplies the step by
// recipe.decay every fiftieth of the time.
BudgetedRun run_for(const Recipe& recipe, const StudyRows& rows, const Budget& budget);

}  // namespace truemax
