// The lane of `adam`: n rows against all classes in float32, then a step of its own for every weight
// (solve/adam.hpp). Threads share the rows for the scores and the blocks of W for the rest; every sum has one
// order, so the bits do not depend on their number.
//
// Steps are in units of the features: a feature has the size of the root mean square of its values that are
// not 0, the intercept has size 1, and a weight moves by about the step divided by that. So the step is about
// the most by which a row's score changes through one feature, whatever the features are measured in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/huge_pages.hpp"
#include "core/team.hpp"
#include "solve/adam.hpp"
#include "train/drawn_batch.hpp"
#include "train/feature_units.hpp"
#include "train/lane.hpp"
#include "train/softmax_gradient.hpp"
#include "weights/adam.hpp"

namespace truemax {

class AdamLane final : public Lane {
 public:
  explicit AdamLane(const LaneSetup& setup);

  void take(const Batch& batch, RunState& state) override;

  // Means of zero.
  static MomentState start(const DataView& data, const Recipe& recipe);
  // The arrays of the steps.
  static std::uint64_t bytes(const Facts& facts);

 private:
  void admit(RunState& state, double step);
  void prepare(std::size_t t);
  void move(RunState& state, double step);
  void move_intercepts(const AdamPlace& to, std::size_t block, const AdamStep& step) const;

  const LaneSetup& setup_;
  DrawnBatch visited_;  // draws nothing
  FeatureUnits units_;
  AdamMeans means_;
  Team team_;
  SoftmaxGradient gradient_;
  HugeVector<float> sums_;  // [members x blocks of a task or blocks x parts][features][kLanes]
};

}  // namespace truemax
