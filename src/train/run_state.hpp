// RunState: plain data, all that a run carries from step to step. Another process can continue from it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/state_stream.hpp"
#include "core/types.hpp"
#include "evaluate/evaluate.hpp"
#include "weights/kept.hpp"
#include "weights/weights.hpp"

namespace truemax {

// What a step needs of its example besides the features: side by side, because both are touched together.
struct RowState {
  double u = 0;  // estimate of log(1 + sum_{k != y} exp(z_k - z_y)), or what the method has in its place
  double squared_norm = 0;  // |x|^2 (+ 1 with intercept)
};

// Smoothed weights of a method that has them, as their difference to W. It decays by a factor every step,
// lazily: a class carries the logarithm of the decay at which it was brought up to date last.
struct CompanionState {
  Weights difference;
  double log_decay = 0;                         // of all steps so far
  std::vector<double> touched;                  // of each class: log_decay then
  std::vector<std::vector<ExampleId>> journal;  // of each class: rows whose features may not be zero
  std::size_t journal_limit = 0;                // one that long stands for all features
};

// |w_k|^2 of every class, tracked from scores and coefficients, and their sum. All are times `common`.
struct NormState {
  std::vector<double> of_class;
  double total = 0, common = 1;
};

// From `first_step` (counted from 0 over the whole run) until the next segment the step size is `step`.
struct Segment {
  std::uint64_t first_step = 0;
  double step = 0;
  bool operator==(const Segment&) const = default;
};

// What was measured, and when.
struct EvaluationRecord {
  std::uint64_t epoch = 0;  // finished epochs
  std::uint64_t steps = 0;  // of the whole run
  double train_seconds = 0;
  // Of the sets that were evaluated: with --patience only the validation rows, until the end.
  std::optional<Metrics> train, valid, test;
  bool best = false;  // the final evaluation of the best model
};

// Where the plan of a run with a clock stands.
struct PlanState {
  double seconds = 0;             // of training so far
  std::vector<Segment> segments;  // step sizes that the clock chose
};

// --patience: how long nothing was better, and what was best.
struct PatienceState {
  std::uint64_t waited = 0;  // evaluations
  std::optional<EvaluationRecord> best;
  std::shared_ptr<KeptWeights> weights;  // of `best`; null without
};

struct RunState {
  RowState& row(ExampleId i) { return rows[number_of(i)]; }
  const RowState& row(ExampleId i) const { return rows[number_of(i)]; }

  Weights weights;
  std::vector<RowState> rows;  // one per example
  std::uint64_t epoch = 0;     // finished epochs
  std::uint64_t step = 0;      // finished steps of the epoch under way
  // No number in the memory of `weights` is larger in absolute value: an upper bound.
  double largest_weight = 0;
  CompanionState companion;          // empty for methods without
  std::vector<ClassId> draw_memory;  // of a draw that learns
  NormState norms;                   // empty for methods that do not project
  PlanState plan;
  std::optional<EvaluationRecord> last;  // the last evaluation that was finished
  PatienceState patience;
};

// All of a state, for the program that wrote it. Reading throws UserError where bytes are missing or make no
// sense.
void write(const RunState& state, StateSink& to);
void read(RunState& state, StateSource& from);

}  // namespace truemax
