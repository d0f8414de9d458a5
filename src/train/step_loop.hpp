// The step loop: visiting order, plan and stop flag. A lane takes the steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "train/lane.hpp"

namespace truemax {

// Called after every few thousand rows with the steps done in the epoch; must not change the state.
using StepWatch = std::function<void(std::uint64_t steps_done)>;

class StepLoop {
 public:
  StepLoop(const DataView& data, const Plan& plan);
  ~StepLoop();
  StepLoop(const StepLoop&) = delete;
  StepLoop& operator=(const StepLoop&) = delete;

  // Runs the rest of epoch state.epoch from state.step on. True if it was finished (then state.epoch was
  // incremented and state.step is 0), false if `stop` was raised or the plan's budget is used up. Throws
  // DivergenceError before a step that would overflow float32. Without a plan: that of the options, no clock.
  bool run(RunState& state, const std::atomic<bool>& stop, const StepWatch& watch,
           StepSchedule* plan = nullptr);

  // Brings state.weights up to date after run().
  void publish(RunState& state) { lane_->publish(state); }
  void settle(RunState& state) { lane_->settle(state); }
  void prepare(RunState& state) {
    if (lane_->visits_itself()) lane_->attach(state);
  }
  device::Passer* passer() { return lane_->passer(); }

  const Plan& plan() const { return plan_; }
  std::uint64_t steps_per_epoch() const { return plan_.steps_per_epoch; }
  // Of the steps so far, not of evaluations.
  const StepTraffic& traffic() const { return traffic_; }

 private:
  std::size_t batch_steps(const RunState& state) const;
  // Of a stream: brings the rows of the next steps into memory; returns how many of `count` steps they are.
  std::uint64_t enter_window(std::uint64_t step, std::uint64_t count);

  DataView data_;
  Plan plan_;
  ProblemInfo problem_;
  std::unique_ptr<AnyRule> rule_;
  std::unique_ptr<Draw> draw_;  // null: every step takes all classes
  Ridge ridge_;
  GrowthGuard guard_;
  LaneSetup setup_;
  VisitOrder order_;
  std::unique_ptr<RowWindows> windows_;  // null: the rows are in memory
  std::size_t window_ = 0;               // that is held
  bool window_held_ = false, next_held_ = false;
  std::unique_ptr<Lane> lane_;
  StepTraffic traffic_;
  std::uint64_t unwatched_ = 0;  // steps since the watch was last called, also over many short epochs
};

}  // namespace truemax
