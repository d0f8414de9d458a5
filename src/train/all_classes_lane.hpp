// The all-classes lane: n rows against every class, block by block. Column k is class k; padding in the last
// block has probability 0.
#pragma once

#include <vector>

#include "train/drawn_batch.hpp"
#include "train/lane.hpp"
#include "train/step_work.hpp"

namespace truemax {

class AllClassesLane final : public Lane {
 public:
  explicit AllClassesLane(const LaneSetup& setup);

  void take(const Batch& batch, RunState& state) override;

 private:
  void prepare(const RunState& state, std::size_t t);
  void score(const RunState& state, const Batch& batch);
  void apply(RunState& state);

  const LaneSetup& setup_;
  DrawnBatch visited_;  // draws nothing
  StepWork work_;
};

}  // namespace truemax
