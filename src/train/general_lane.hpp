// The general lane: n rows and m classes, any rule, in double. The columns of a step are its classes, each
// once: those drawn, then the labels that were not.
#pragma once

#include <memory>
#include <vector>

#include "train/drawn_batch.hpp"
#include "train/lane.hpp"
#include "train/step_hook.hpp"
#include "train/step_work.hpp"

namespace truemax {

class GeneralLane final : public Lane {
 public:
  explicit GeneralLane(const LaneSetup& setup);

  void attach(RunState& state) override;
  bool start_epoch(RunState& state, const std::atomic<bool>& stop, const StepSchedule& plan) override;
  void take(const Batch& batch, RunState& state) override;

  // The verbs, for lanes that hand over what they cannot take. Examples, labels and drawn classes of a batch:
  void prepare(const Batch& batch);
  // The classes of step t of the batch, their scores, and all that the rule is told.
  void score(RunState& state, const Batch& batch, std::size_t t);
  Growth solve(RunState& state) { return work_.solve(state); }
  void apply(RunState& state);
  // All of step t of a prepared batch; does not count it.
  void step(RunState& state, const Batch& batch, std::size_t t);

  const DrawnBatch& drawn() const { return drawn_; }

 private:
  void take_classes(RunState& state, std::size_t t);
  void fill_weights(std::size_t t);

  const LaneSetup& setup_;
  DrawnBatch drawn_;
  StepWork work_;
  std::vector<std::unique_ptr<StepHook>> hooks_;
  bool gram_of_several_;
};

}  // namespace truemax
