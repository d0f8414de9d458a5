// The trainer: epochs, evaluation at epoch ends, observers. It knows no files and prints nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "evaluate/evaluate.hpp"
#include "train/options.hpp"
#include "train/plan.hpp"
#include "train/state.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

struct EvaluationRecord {
  std::uint64_t epoch = 0;  // finished epochs
  std::uint64_t steps = 0;  // of the whole run
  double train_seconds = 0;
  Metrics train;
  std::optional<Metrics> test;
};

// Log, progress and callers' own wishes: they watch and never change the run.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void stepped(std::uint64_t /*epoch*/, std::uint64_t /*steps*/, std::uint64_t /*of*/,
                       double /*train_seconds*/) {}
  virtual void evaluating(std::size_t /*rows*/, std::size_t /*of*/) {}
  virtual void evaluated(const EvaluationRecord& /*record*/) {}
};

struct TrainOutcome {
  bool interrupted = false;
  std::string divergence;  // the message, where the method diverged
  std::uint64_t epochs = 0, steps = 0;
  double train_seconds = 0;
  std::vector<Segment> segments;         // step sizes that a clock chose
  std::optional<EvaluationRecord> last;  // of the last evaluation, whole
};

// Runs until the epochs, the steps or the seconds of the options are used up, or as far as `recording` went.
// `watch` has been running since the data were read, and is left paused. `state` is what was learnt, also
// after an interruption or a divergence.
TrainOutcome train(const Dataset& data, const Dataset* test, const TrainOptions& options, TrainState& state,
                   Stopwatch& watch, std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                   const Recording* recording = nullptr);

}  // namespace truemax
