// TrainState: plain data, all that a run carries from step to step.
#pragma once

#include <cstdint>
#include <vector>

#include "weights/weights.hpp"

namespace truemax {

// What a step needs of its row besides the features: side by side, because both are touched together.
struct RowState {
  double u = 0;             // estimate of log(1 + sum_{k != y} exp(z_k - z_y))
  double squared_norm = 0;  // |x|^2 (+ 1 with intercept)
};

struct TrainState {
  Weights weights;
  std::vector<RowState> rows;  // one per example
  std::uint64_t epoch = 0;     // finished epochs
  std::uint64_t step = 0;      // finished steps of the epoch under way
  double largest_weight = 0;   // no weight is larger than this in absolute value (an upper bound)
};

}  // namespace truemax
