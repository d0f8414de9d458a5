// The trainer: epochs, evaluation at epoch ends, observers. Reads and prints nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/data_view.hpp"
#include "evaluate/evaluate.hpp"
#include "ranks/ranks.hpp"
#include "train/options.hpp"
#include "train/plan.hpp"
#include "train/run_state.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

// One trial of --method auto.
struct SearchTrial {
  std::string about;  // what it tests: "step", "ridge", "epochs", "hidden", or "linear" beside learnt ones
  std::uint64_t number = 0;
  std::uint64_t hidden = 0;  // learnt features; 0: linear
  double step = 0, ridge = 0;
  std::uint64_t rows = 0, steps = 0, judged_on = 0;
  std::uint64_t rows_per_step = 1;
  double log_loss = 0, seconds = 0;
};

// For the log, progress and callers' own code: observers never change the run.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void stepped(std::uint64_t /*epoch*/, std::uint64_t /*steps*/, std::uint64_t /*of*/,
                       double /*train_seconds*/) {}
  // The search of --method auto: the next trial (with its planned steps), its progress, its result.
  virtual void trying(const SearchTrial& /*next*/) {}
  virtual void trial_stepped(std::uint64_t /*steps*/, std::uint64_t /*of*/) {}
  virtual void tried(const SearchTrial& /*trial*/) {}
  // The fit begins, after so many seconds of training time.
  virtual void fitting(const TrainOptions& /*options*/, double /*train_seconds*/) {}
  virtual void evaluating(std::size_t /*rows*/, std::size_t /*of*/) {}
  virtual void evaluated(const EvaluationRecord& /*record*/) {}
  // Something failed that does not end the run.
  virtual void warned(const std::string& /*what*/) {}
};

struct TrainOutcome {
  bool interrupted = false;
  std::string divergence;      // the message, if the method diverged
  bool at_evaluation = false;  // that of a row to evaluate: every step was taken
  std::string unsolved;        // the message, if Newton's method did not reach the optimum
  std::uint64_t epochs = 0, steps = 0;
  double train_seconds = 0;
  StepTraffic traffic;                   // of the steps of this process
  std::vector<Segment> segments;         // step sizes chosen by the clock
  std::optional<EvaluationRecord> last;  // the last finished evaluation; if kept_best, of the best model
  bool kept_best = false;                // the weights are those of `last`, not of the last step
};

struct TrainSets {
  DataView data;
  std::optional<DataView> test{};
  std::optional<DataView> valid{};  // required by --patience

  std::size_t bytes() const;  // shared rows count once
};

struct Model;

// When the state of a run is saved. train() can resume from a saved copy. Saving is not training time.
struct SavePlan {
  std::uint64_t epochs = 0;  // every so many, after their evaluation; 0: not by epochs
  // Every so many of wall-clock time, also within an epoch, or less often if saving is slow; 0: not by time.
  double seconds = 0;
  bool at_start = true;  // before the first step too; false for a run that was resumed
  // Also called at the end, unless the run diverged. `finished`: not interrupted.
  std::function<void(const RunState&, bool finished)> save{};
};

// Settings that are not options.
struct TrainExtras {
  const Recording* recording = nullptr;  // a run to repeat without a clock
  std::string best_folder;               // where --patience keeps the best model; empty: in memory
  SavePlan saving{};
  const Model* start = nullptr;                    // a model to start from (train/warm_start.hpp)
  std::span<const SearchTrial> known_trials = {};  // of a search that is resumed
  // Of a fit that is resumed: turns a fresh state into the saved one.
  std::function<void(RunState&)> restore{};
  // What evaluations look at instead of `stop`: a signal of this rank. All ranks then agree to end them.
  const std::atomic<bool>* own_stop = nullptr;
  double search_seconds = 0;  // training time before the fit
};

// evaluate() with the model of a state.
std::optional<Metrics> evaluate(const EvaluateOptions& options, std::uint64_t seed, const RunState& state,
                                const DataView& data, std::size_t threads, const std::atomic<bool>* stop,
                                const RowWatch& watch = {});

// Runs until the epochs, steps or seconds of the options are used up, the recording ends, or patience runs
// out. `watch` must be running, and is left paused. `state` has the result, also after an interruption or a
// divergence.
TrainOutcome train(const TrainSets& sets, const TrainOptions& options, RunState& state, Stopwatch& watch,
                   std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                   const TrainExtras& extras = {});

}  // namespace truemax
