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
#include <span>
#include <vector>

#include "core/huge_pages.hpp"
#include "core/team.hpp"
#include "solve/adam.hpp"
#include "train/drawn_batch.hpp"
#include "train/lane.hpp"
#include "weights/adam.hpp"

namespace truemax {

// The sizes of the features of a problem.
struct AdamUnits {
  AdamUnits(const DataView& data, std::size_t threads);

  std::vector<float> inverse;                  // 1/size, by feature; 1 if it is never seen
  double most_inverse = 0;                     // of those that are seen
  double largest = 0, longest = 0;             // |x_f|, sum of |x_f| of a row
  double mean_weight = 1, largest_weight = 1;  // of the rows
};

class AdamLane final : public Lane {
 public:
  explicit AdamLane(const LaneSetup& setup);

  void take(const Batch& batch, RunState& state) override;

  // Means of zero.
  static MomentState start(const DataView& data, const TrainOptions& options);
  // The arrays of the steps.
  static std::uint64_t bytes(const DataView& data, const TrainOptions& options);

 private:
  static std::size_t parts_of(std::size_t blocks);
  static std::size_t width_for(std::size_t blocks, std::size_t members);
  static std::size_t members_for(const DataView& data, const TrainOptions& options);
  void admit(RunState& state, double step);
  void prepare(std::size_t t);
  void find_coefficients(const Weights& weights, std::size_t first, std::size_t count);
  void finish_row(const Weights& weights, std::size_t i);
  void move(RunState& state, double step);
  void move_intercepts(const AdamPlace& to, std::size_t block, const AdamStep& step) const;

  const LaneSetup& setup_;
  DrawnBatch visited_;  // draws nothing
  AdamUnits units_;
  AdamMeans means_;
  Team team_;
  std::size_t classes_, blocks_, columns_, parts_, width_;
  std::vector<std::uint32_t> all_blocks_;
  std::vector<float> no_intercept_;
  // Of a step.
  std::vector<RowView> x_;
  std::vector<ClassId> label_;
  std::vector<double> e_;          // of a row: its weight/(n mean weight)
  HugeVector<float> coefficient_;  // [rows][columns]: scores, then C
  HugeVector<float> sums_;         // [members x width or blocks x parts][features][kLanes]
};

}  // namespace truemax
