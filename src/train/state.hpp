// TrainState: plain data, all that a run carries from step to step.
#pragma once

#include <cstdint>
#include <vector>

#include "weights/weights.hpp"

namespace truemax {

// What a step needs of its row besides the features: side by side, because both are touched together.
struct RowState {
  double u = 0;  // estimate of log(1 + sum_{k != y} exp(z_k - z_y)), or what the method has in its place
  double squared_norm = 0;  // |x|^2 (+ 1 with intercept)
};

// Smoothed weights of a method that has them, as their difference to W. It decays by a factor every step,
// lazily: a class carries the logarithm of the decay at which it was brought up to date last.
struct CompanionState {
  Weights difference;
  double log_decay = 0;                     // of all steps so far
  std::vector<double> touched;              // of each class: log_decay then
  std::vector<std::vector<RowId>> journal;  // of each class: rows whose features may not be zero
  std::size_t journal_limit = 0;            // one that long stands for all features
};

// |w_k|^2 of every class, tracked from scores and coefficients, and their sum. All are times `common`.
struct NormState {
  std::vector<double> of_class;
  double total = 0, common = 1;
};

struct TrainState {
  Weights weights;
  std::vector<RowState> rows;  // one per example
  std::uint64_t epoch = 0;     // finished epochs
  std::uint64_t step = 0;      // finished steps of the epoch under way
  double largest_weight =
      0;  // no number in the memory of `weights` is larger in absolute value (an upper bound)
  CompanionState companion;          // empty for methods without
  std::vector<ClassId> draw_memory;  // of a draw that learns
  NormState norms;                   // empty for methods that do not project
};

}  // namespace truemax
