// The pair lane: steps of one row and one drawn class, without ridge. Steps of a batch that commute are
// solved side by side, eight at a time (train/commuting.hpp), with float32 sums if bounds show that they are
// accurate.
#pragma once

#include "train/commuting.hpp"
#include "train/general_lane.hpp"

namespace truemax {

class PairLane final : public Lane {
 public:
  explicit PairLane(const LaneSetup& setup) : setup_(setup), general_(setup) {}

  bool start_epoch(RunState& state, const std::atomic<bool>& stop, const StepSchedule& plan) override {
    return general_.start_epoch(state, stop, plan);
  }
  void take(const Batch& batch, RunState& state) override;

 private:
  using Group = std::span<const std::uint8_t>;  // steps of the batch

  // False, with nothing changed, if float32 sums may be inaccurate.
  bool prepare(RunState& state, Group group);
  void score();
  bool solve(RunState& state, double step);
  void apply(RunState& state);

  const LaneSetup& setup_;
  GeneralLane general_;
  CommutingGroups groups_;
  Group group_;
  PairSteps pairs_;
  std::array<PairPlace, kPairSteps> places_;
};

}  // namespace truemax
