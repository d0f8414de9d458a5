// The lane of `lbfgs`: a step is the loss and the gradient of all rows over all classes at one point
// (train/softmax_gradient.hpp), tried along a direction that is found from the last such points
// (solve/lbfgs.hpp). There is one step in an epoch. Between steps the weights are the last point that was
// accepted; the next one to try is made within a step, so a run may end after any of them. Threads share the
// rows, and the lines of W; every sum has one order, so the bits do not depend on their number.
//
// Weights are in units of their features (FeatureUnits) and larger ones of rare features, or in that of the
// ridge where it is less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/huge_pages.hpp"
#include "core/team.hpp"
#include "train/feature_units.hpp"
#include "train/lane.hpp"
#include "train/softmax_gradient.hpp"
#include "weights/lbfgs.hpp"

namespace truemax {

class LbfgsLane final : public Lane {
 public:
  explicit LbfgsLane(const LaneSetup& setup);

  void take(const Batch& batch, RunState& state) override;
  bool visits_itself() const override { return true; }
  bool lets_step_fall() const override { return false; }

  // No gradient is known yet.
  static LbfgsState start(const DataView& data, const Recipe& recipe);
  // Vectors of the shape of W, with W itself.
  static std::uint64_t copies(const Problem& problem);
  // The other arrays of the steps.
  static std::uint64_t bytes(const Problem& problem);

 private:
  struct Point {
    double loss = 0, slope = 0;  // along the direction
    double gradient = 0;         // its squared length
  };
  static std::size_t rows_at_once(const Problem& problem);
  Point evaluate(const Weights& weights, const Weights& direction, Weights& gradient);
  void begin(RunState& state);
  void try_next(RunState& state);
  bool accept(RunState& state, const Point& point);
  void choose_direction(RunState& state);
  void descend(RunState& state);
  bool search_along(RunState& state, const CurvaturePairs::Factors& factors);

  const LaneSetup& setup_;
  FeatureUnits units_;
  Team team_;
  SoftmaxGradient gradient_;
  LineUnits line_units_;
  double ridge_;  // of the mean loss
  double most_weight_;
  std::vector<Lines> lines_;
  Weights trial_, trial_gradient_;
  double trial_largest_ = 0;  // of trial_
  HugeVector<float> sums_;    // [blocks x parts][features][kLanes]
  std::vector<double> intercepts_;
  std::vector<float> intercept_sums_;
  // Of all lines of a task, then of W.
  std::vector<GradientSums> gradient_sums_;
  std::vector<DirectionSums> direction_sums_;
  std::vector<float> largest_;
  std::vector<double> products_, total_;
  std::vector<const Weights*> vectors_;  // s and y of the pairs
  std::vector<float> factors_;
  std::vector<double> moves_by_[2], changes_by_[2], of_move_, of_change_;  // by the gradient and its change
};

}  // namespace truemax
