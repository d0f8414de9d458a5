// RunState: plain data, everything a run carries from step to step. Another process can resume from it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/state_stream.hpp"
#include "core/types.hpp"
#include "data/data_view.hpp"
#include "evaluate/evaluate.hpp"
#include "solve/lbfgs.hpp"
#include "train/learnt_state.hpp"
#include "train/recipe.hpp"
#include "weights/kept.hpp"
#include "weights/weights.hpp"

namespace truemax {

// What a step needs of an example besides its features; together because a step touches both.
struct RowState {
  // Estimate of log(1 + sum_{k != y} exp(z_k - z_y)), or what the method uses instead. Of an input that
  // examples share: of its log-normaliser, u + z_y.
  double u = 0;
  double squared_norm = 0;  // |x|^2 (+ 1 with intercept)
};

// Smoothed weights, stored as their difference to W. It decays by a factor every step, applied lazily: each
// class stores the value of log_decay at its last update.
struct CompanionState {
  Weights difference;
  double log_decay = 0;                         // sum over all steps so far
  std::vector<double> touched;                  // by class: log_decay at the last update
  std::vector<std::vector<ExampleId>> journal;  // by class: rows whose features may be non-zero
  std::size_t journal_limit = 0;                // a journal of this length stands for all features
};

// |w_k|^2 of every class, tracked from scores and coefficients, and their sum; all to be multiplied by
// `common`.
struct NormState {
  std::vector<double> of_class;
  double total = 0, common = 1;
};

// Running means of gradients and of their squares, for a method that moves every weight by a step of its own
// (solve/adam.hpp): one for each weight and intercept.
struct MomentState {
  bool empty() const { return mean.classes() == 0; }
  Weights mean, square;
  std::uint64_t updates = 0;  // steps so far
};

// Of a method that moves all weights along one direction (train/lbfgs_lane.hpp); vectors are of the shape of
// W.
struct LbfgsState {
  bool empty() const { return gradient.classes() == 0; }
  bool known = false;                   // the gradient, and all below
  bool ended = false;                   // float32 has no better point
  Weights gradient, direction;          // of the loss at the weights; from there
  std::vector<Weights> moves, changes;  // the last ones, of the weights and of the gradient, by slot
  CurvaturePairs pairs;
  LineSearch search;
  double squared_gradient = 0;  // its length
};

// The step size is `step` from `first_step` (counted from 0 over the whole run) until the next segment.
struct Segment {
  std::uint64_t first_step = 0;
  double step = 0;
  bool operator==(const Segment&) const = default;
};

// One evaluation.
struct EvaluationRecord {
  std::uint64_t epoch = 0;  // finished epochs
  std::uint64_t steps = 0;  // in the whole run
  double train_seconds = 0;
  // Only the sets that were evaluated; with --patience only validation rows until the end.
  std::optional<Metrics> train, valid, test;
  bool best = false;  // the final evaluation of the best model
};

// The position of the plan of a run with a clock.
struct PlanState {
  double seconds = 0;             // training time so far
  std::vector<Segment> segments;  // step sizes chosen by the clock
};

// --patience: the best so far, and evaluations since.
struct PatienceState {
  std::uint64_t waited = 0;  // evaluations
  std::optional<EvaluationRecord> best;
  std::shared_ptr<KeptWeights> weights;  // of `best`; null if there is none
  EncoderTables tables;                  // of `best`; empty unless features are learnt
};

struct RunState {
  RowState& row(ExampleId i) { return rows[number_of(i)]; }
  const RowState& row(ExampleId i) const { return rows[number_of(i)]; }

  Weights weights;
  LearntState learnt;          // empty unless features are learnt
  std::vector<RowState> rows;  // one per example, or per input that examples share
  std::uint64_t epoch = 0;     // finished epochs
  std::uint64_t step = 0;      // finished steps of the current epoch
  bool newton_done = false;    // Newton's method has followed the last epoch
  // Upper bound on the absolute value of any number in the memory of `weights`.
  double largest_weight = 0;
  bool zero_weights = false;         // no number of W was written yet, intercepts aside; not saved
  bool pages_cleared = false;        // of W (clear_fresh_pages); not saved
  CompanionState companion;          // empty unless has_companion
  std::vector<ClassId> draw_memory;  // for a draw that learns
  NormState norms;                   // empty unless the method projects
  MomentState moments;               // empty unless by_weight, and not all_rows
  LbfgsState lbfgs;                  // empty unless all_rows
  PlanState plan;
  std::optional<EvaluationRecord> last;  // the last finished evaluation
  PatienceState patience;
};

// The system clears a page of new weights when it is first touched, and steps on several threads would wait
// for that one after the other: all threads clear them before the first step. Only if the steps of the first
// epoch touch nearly all of them anyway.
void clear_fresh_pages(RunState& state, const DataView& data, const Recipe& recipe, std::size_t threads);
// Whether that would do something.
bool has_fresh_pages(const RunState& state, const DataView& data, const Recipe& recipe);

// Serialises a whole state, for the program that wrote it. read() throws UserError if bytes are missing,
// or if no run could have written them. Over several ranks all call it; the bytes are those of one rank with
// all classes, written by the first and read by all, and `state` must know its share before it is read.
void write(const RunState& state, StateSink& to);
void read(RunState& state, StateSource& from);

// Throws UserError unless the parts of a state fit each other: arrays have the sizes that others imply,
// numbers are finite, and ids are below what they number. Whether it fits the data is for the caller.
void require_consistent(const RunState& state);

}  // namespace truemax
