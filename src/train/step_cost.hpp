// Counted costs. The numbers, and the seconds per line by the size of W, are fixed, so that the same data and
// options give the same choices on every machine.
#pragma once

#include <cstdint>

#include "train/facts.hpp"

namespace truemax {

// In cache lines: those of the blocks and a constant part.
struct StepCost {
  double nonzeros = 1;  // per row, on average
  double seconds_per_line = 4e-9;
  double weight_bytes = 0;
  double step(double blocks) const { return 24 + blocks * (nonzeros + 6); }
  double evaluation(double all_blocks) const { return all_blocks * (0.5 * nonzeros + 6); }  // of one row
  // Includes clearing W, once per trial.
  double seconds(double steps, double blocks, double judged_rows, double all_blocks) const {
    constexpr double kClearing = 8e9, kSecondsPerEvaluatedLine = 1e-9;
    return steps * step(blocks) * seconds_per_line + weight_bytes / kClearing +
           judged_rows * evaluation(all_blocks) * kSecondsPerEvaluatedLine;
  }
  // So many drawn blocks of the tail cost about as much as the rest of a step.
  double tail_draws() const;
};
StepCost step_cost(const Problem& problem);

// Multiplications of one product of all rows with W, if a row costs as much as so many more non-zeros.
double newton_work(const Problem& problem, double more = 0);
// Into how many parts trials of Newton's method split the rows, and how many of them judge.
struct NewtonFolds {
  std::size_t of, used;
};
NewtonFolds newton_folds(const Problem& problem);

// Seconds of an epoch of L-BFGS, for the decision; train/solver_seconds.hpp has what is shown.
double lbfgs_seconds(const Facts& facts);

}  // namespace truemax
