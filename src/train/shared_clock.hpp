// What the ranks of a run agree on while it goes: the time, and whether to stop.
#pragma once

#include <atomic>
#include <chrono>

#include "ranks/ranks.hpp"
#include "train/observer.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

// The clock of rank 0; for a run in one process its own. All ranks read a watch that uses it at the same
// places, because what a run does depends on what it reads.
inline TimeSource shared_clock() {
  if (ranks().alone()) return {};
  return [&all = ranks()] {
    using Clock = std::chrono::steady_clock;
    return Clock::time_point(Clock::duration(all.broadcast_value(Clock::now().time_since_epoch().count())));
  };
}

// A signal may reach one rank, or all at different times. The flag that a run reads is raised for all ranks
// at the same step or trial.
class SharedStop final : public TrainObserver {
 public:
  explicit SharedStop(const std::atomic<bool>& own) : own_(own) {}

  const std::atomic<bool>& flag() const { return agreed_; }
  void stepped(std::uint64_t /*epoch*/, std::uint64_t /*steps*/, std::uint64_t /*of*/,
               double /*train_seconds*/) override {
    agree();
  }
  void trial_stepped(std::uint64_t /*steps*/, std::uint64_t /*of*/) override { agree(); }
  void tried(const SearchTrial& /*trial*/) override { agree(); }
  void evaluated(const EvaluationRecord& /*record*/) override { agree(); }

 private:
  void agree() {
    if (ranks().max_of(own_.load(std::memory_order_relaxed) ? 1 : 0) == 0) return;
    agreed_.store(true);
    ranks().agreed_to_stop();
  }

  const std::atomic<bool>& own_;
  std::atomic<bool> agreed_ = false;
};

}  // namespace truemax
