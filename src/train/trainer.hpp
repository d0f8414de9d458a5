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
#include "ranks/ranks.hpp"
#include "train/observer.hpp"
#include "train/plan.hpp"
#include "train/run_state.hpp"
#include "train/schedule.hpp"
#include "train/sets.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

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

// Runs until the epochs, steps or seconds of the options are used up, the recording ends, or patience runs
// out. `watch` must be running, and is left paused. `state` has the result, also after an interruption or a
// divergence.
TrainOutcome train(const TrainSets& sets, const Plan& plan, RunState& state, Stopwatch& watch,
                   std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                   const TrainExtras& extras = {});

}  // namespace truemax
