// The trainer: epochs, evaluation at epoch ends, observers. It knows no files and prints nothing.
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
#include "train/options.hpp"
#include "train/plan.hpp"
#include "train/run_state.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

// One trial of --method auto.
struct SearchTrial {
  std::string about;  // what it is for: "step", "ridge", "epochs"
  std::uint64_t number = 0;
  double step = 0, ridge = 0;
  std::uint64_t rows = 0, steps = 0, judged_on = 0;
  double log_loss = 0, seconds = 0;
};

// Log, progress and callers' own wishes: they watch and never change the run.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void stepped(std::uint64_t /*epoch*/, std::uint64_t /*steps*/, std::uint64_t /*of*/,
                       double /*train_seconds*/) {}
  // The search of --method auto: what comes next (its steps are planned), how far it is, what came out.
  virtual void trying(const SearchTrial& /*next*/) {}
  virtual void trial_stepped(std::uint64_t /*steps*/, std::uint64_t /*of*/) {}
  virtual void tried(const SearchTrial& /*trial*/) {}
  // The fit begins, at so many seconds of training time.
  virtual void fitting(const TrainOptions& /*options*/, double /*train_seconds*/) {}
  virtual void evaluating(std::size_t /*rows*/, std::size_t /*of*/) {}
  virtual void evaluated(const EvaluationRecord& /*record*/) {}
};

struct TrainOutcome {
  bool interrupted = false;
  std::string divergence;  // the message, where the method diverged
  std::uint64_t epochs = 0, steps = 0;
  double train_seconds = 0;
  std::vector<Segment> segments;         // step sizes that a clock chose
  std::optional<EvaluationRecord> last;  // the last evaluation that was finished; of the best model, if kept
  bool kept_best = false;                // the weights are those of `last`, and not of the last step
};

struct TrainSets {
  DataView data;
  std::optional<DataView> test{};
  std::optional<DataView> valid{};  // without it there is no patience

  std::size_t bytes() const;  // rows that they share count once
};

// Besides what the options say.
struct TrainExtras {
  const Recording* recording = nullptr;  // a run to repeat without a clock
  std::string best_folder;               // where the best model is kept; empty: in memory
  // Shown the state before each leg of the run: at its start and after every evaluation. A state that was
  // kept can be given to train() to go on from there.
  std::function<void(const RunState&)> between{};
};

// Runs until the epochs, the steps or the seconds of the options are used up, as far as a recording went, or
// while patience lasts. `watch` has been running since the data were read, and is left paused. `state` is
// what was learnt, also after an interruption or a divergence.
TrainOutcome train(const TrainSets& sets, const TrainOptions& options, RunState& state, Stopwatch& watch,
                   std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                   const TrainExtras& extras = {});

}  // namespace truemax
