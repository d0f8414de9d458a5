// Fit: one run of one method on one data set, advanced in legs. The trainer, the trials of auto, compare and
// tune all use it.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "evaluate/sampled.hpp"
#include "model/model.hpp"
#include "train/run_state.hpp"
#include "train/schedule.hpp"
#include "train/step_loop.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

class Fit {
 public:
  // `watch`: the clock of --seconds and of the records; null: --seconds is ignored. `recording`: a run to
  // repeat without a clock. `search_seconds`: what the clock showed when the fit began.
  Fit(const DataView& data, const Plan& plan, RunState&& from, const Stopwatch* watch = nullptr,
      const Recording* recording = nullptr, double search_seconds = 0);

  // How far to go at most; `seconds` are read from `clock`.
  struct Until {
    std::uint64_t epoch = std::numeric_limits<std::uint64_t>::max();
    double seconds = std::numeric_limits<double>::infinity();
    const Stopwatch* clock = nullptr;
  };
  enum class End {
    reached,   // the limit of Until
    used_up,   // the epochs, steps or seconds of the options
    stopped,   // `stop` was raised
    diverged,  // divergence() says why; the state is from before the step
  };
  // Afterwards state().weights may be out of date if a device has them: publish() before reading.
  End run(const Until& until, const std::atomic<bool>& stop, const StepWatch& watch = {});
  void publish() { loop_.publish(state_); }
  // Brings the state to the device of the options, if it is one; run() would do it too.
  void prepare() { loop_.prepare(state_); }
  // state() was replaced: what a device has is out of date.
  void restored() { replaced_ = true; }
  // evaluate() with the model so far, where it is.
  // Throws DivergenceError if learnt vectors make a row leave float32.
  std::optional<Metrics> evaluate(const EvaluateOptions& options, const DataView& data, std::size_t threads,
                                  const std::atomic<bool>* stop, const RowWatch& watch = {});
  bool used_up() const;

  const Plan& plan() const { return loop_.plan(); }
  const RunState& state() const { return state_; }
  RunState& state() { return state_; }
  const std::string& divergence() const { return divergence_; }
  // Why Newton's method did not reach the optimum; empty if it did.
  const std::string& unsolved() const { return unsolved_; }
  std::uint64_t steps_per_epoch() const { return loop_.steps_per_epoch(); }
  std::uint64_t steps() const { return state_.epoch * steps_per_epoch() + state_.step; }
  double epochs() const {
    return static_cast<double>(state_.epoch) +
           static_cast<double>(state_.step) / static_cast<double>(steps_per_epoch());
  }
  const StepTraffic& traffic() const { return loop_.traffic(); }
  const std::vector<Segment>& segments() const { return schedule_.segments(); }

 private:
  bool steps_used_up() const;
  bool finished() const { return plan().finish == nullptr || state_.newton_done; }

  DataView data_;
  std::jthread clearing_;  // pages of W, while loop_ is made
  StepLoop loop_;
  StepSchedule schedule_;
  RunState state_;
  std::string divergence_, unsolved_;
  bool replaced_ = false;
};

}  // namespace truemax
