// The trainer: epochs, evaluation at epoch ends, observers. It knows no files and prints nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/dataset.hpp"
#include "evaluate/evaluate.hpp"
#include "train/options.hpp"
#include "train/state.hpp"

namespace truemax {

// Counts training time: everything after reading, except evaluation.
class Stopwatch {
 public:
  void resume() { since_ = Clock::now(); }
  void pause() { total_ += Clock::now() - since_; }
  double seconds() const { return std::chrono::duration<double>(total_).count(); }
  double seconds_running() const {
    return std::chrono::duration<double>(total_ + (Clock::now() - since_)).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point since_{};
  Clock::duration total_{};
};

struct EvaluationRecord {
  std::uint64_t epoch = 0;  // finished epochs
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
  std::optional<EvaluationRecord> last;  // of the last epoch that was evaluated, whole
};

// Runs options.epochs epochs. `watch` has been running since the data were read, and is left paused. `state`
// is what was learnt, also after an interruption or a divergence.
TrainOutcome train(const Dataset& data, const Dataset* test, const TrainOptions& options, TrainState& state,
                   Stopwatch& watch, std::span<TrainObserver* const> observers,
                   const std::atomic<bool>& stop);

}  // namespace truemax
