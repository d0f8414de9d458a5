// Fit: one run of one method on one data set, from its start to wherever it is told to go. The trainer, the
// trials of auto, compare and tune all drive their runs through it.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>

#include "train/plan.hpp"
#include "train/run_state.hpp"
#include "train/step_loop.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

// W = 0; u = 0, or its exact value there for methods that want it.
// `spare`: weights of a run before, whose memory is used again where its shape is right; may be null.
RunState make_state(const DataView& data, const TrainOptions& options, Weights* spare = nullptr);

// Weights to hand to make_state as `spare`, every page of them written. A run that looks at a clock begins
// with these, before the clock starts: what the system takes to clear fresh pages would decide what the run
// learns.
Weights cleared_weights(const DataView& data, const TrainOptions& options);

class Fit {
 public:
  // `watch`: what --seconds counts, and what the records show; null: --seconds is not looked at.
  // `recording`: a run to repeat without a clock.
  Fit(const DataView& data, const TrainOptions& options, RunState&& from, const Stopwatch* watch = nullptr,
      const Recording* recording = nullptr);

  // How far to go at most. Seconds are those of the clock that is named.
  struct Until {
    std::uint64_t epoch = std::numeric_limits<std::uint64_t>::max();
    double seconds = std::numeric_limits<double>::infinity();
    const Stopwatch* clock = nullptr;
  };
  enum class End {
    reached,   // as far as it was told to go
    used_up,   // epochs, steps or seconds of the options
    stopped,   // `stop` was raised
    diverged,  // divergence() says why; the state is that before the step
  };
  End run(const Until& until, const std::atomic<bool>& stop, const StepWatch& watch = {});
  bool used_up() const;

  const RunState& state() const { return state_; }
  RunState& state() { return state_; }
  const std::string& divergence() const { return divergence_; }
  std::uint64_t steps_per_epoch() const { return loop_.steps_per_epoch(); }
  std::uint64_t steps() const { return state_.epoch * steps_per_epoch() + state_.step; }
  double epochs() const {
    return static_cast<double>(state_.epoch) +
           static_cast<double>(state_.step) / static_cast<double>(steps_per_epoch());
  }
  const std::vector<Segment>& segments() const { return plan_.segments(); }

 private:
  std::uint64_t epochs_;  // of the options
  StepLoop loop_;
  StepPlan plan_;
  RunState state_;
  std::string divergence_;
};

}  // namespace truemax
