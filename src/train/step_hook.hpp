// What single methods want of the general lane besides a step: each is a hook, called at fixed places.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "train/step_work.hpp"

namespace truemax {

class StepHook {
 public:
  StepHook() = default;
  virtual ~StepHook() = default;
  StepHook(const StepHook&) = delete;
  StepHook& operator=(const StepHook&) = delete;

  // False where `stop` was raised or the time is over.
  virtual bool start_epoch(RunState& /*state*/, const std::atomic<bool>& /*stop*/,
                           const StepSchedule& /*plan*/) {
    return true;
  }
  // The classes of the step are known.
  virtual void before_scores(RunState& /*state*/, const StepWork& /*work*/) {}
  // The view is complete but for what this hook adds.
  virtual void before_solve(RunState& /*state*/, StepWork& /*work*/) {}
  // Coefficients are known, and the step will be taken.
  virtual void before_apply(RunState& /*state*/, const StepWork& /*work*/) {}
  // W, u and ridge are done.
  virtual void after_apply(RunState& /*state*/, const StepWork& /*work*/) {}
};

// Those of the method.
std::vector<std::unique_ptr<StepHook>> make_hooks(const LaneSetup& setup, const StepShape& shape);
bool tracks_norms(const LaneSetup& setup);

}  // namespace truemax
