// A lane is one way to take steps: one row and one class, whole blocks, any rows and classes, or all classes.
// Each step has the phases prepare (rows, classes, ridge), score, solve and apply. Scores and updates are in
// weights/, the mathematics in a rule.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/random.hpp"
#include "data/data_view.hpp"
#include "device/engine.hpp"
#include "draw/draw.hpp"
#include "ranks/ranks.hpp"
#include "rule/any_rule.hpp"
#include "train/growth.hpp"
#include "train/plan.hpp"
#include "train/ridge.hpp"
#include "train/run_state.hpp"
#include "train/schedule.hpp"
#include "train/visit_order.hpp"

namespace truemax {

// Shared by the lanes of a run; outlives them.
struct LaneSetup {
  const DataView& data;
  const Plan& plan;
  const ProblemInfo& problem;
  Ridge& ridge;
  const GrowthGuard& guard;
  AnyRule& rule;
  Draw* draw;  // null: every step takes all classes
  // Of the run. A lane asks them only in the thread that calls it.
  Ranks& ranks = truemax::ranks();
  std::shared_ptr<const BlockShare> share{};  // the rank's part of W; null: all of it
  const Recipe& recipe = plan.recipe;

  Facts facts() const { return plan.facts(draw); }

  // W does not fit in the cache: its lines are prefetched some rows ahead.
  bool weights_are_far() const {
    constexpr std::uint64_t kNear = std::uint64_t{2} << 20;
    return Weights::bytes_needed(share ? share->classes() : data.classes->size(), data.space->features) >
           kNear;
  }
  bool draw_learns() const { return draw != nullptr && draw->learns(); }
  bool has_rivals() const { return draw != nullptr && draw->most_rivals() > 0; }
};

// Whether an example may come twice in a batch. An epoch in the order of the file or shuffled has each once.
inline bool examples_recur(const LaneSetup& setup) {
  return setup.recipe.visit == Visit::random || setup.data.shares_inputs();
}

// Consecutive steps of one epoch with one step size.
struct Batch {
  const VisitOrder& order;
  const CounterRandom& random;
  std::uint64_t first = 0;  // first step, counted in the epoch
  std::size_t count = 0;
  double step = 0;       // eta N
  double decayed = 1;    // step / first step
  double last_step = 0;  // if the step falls within the batch (StepSchedule::let_steps_fall); 0: it stays

  // The share of `step` that step t has.
  double share_of_step(std::size_t t) const {
    if (last_step == 0) return 1;
    return 1 + (last_step / step - 1) * static_cast<double>(t) / static_cast<double>(count);
  }
  Batch one(std::size_t t) const { return {order, random, first + t, 1, step, decayed}; }
};

class Lane {
 public:
  Lane() = default;
  virtual ~Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Called before an epoch, or the rest of one.
  virtual void attach(RunState& /*state*/) {}
  // Work of a method at the start of an epoch; false if `stop` was raised or the time is up.
  virtual bool start_epoch(RunState& /*state*/, const std::atomic<bool>& /*stop*/,
                           const StepSchedule& /*plan*/) {
    return true;
  }
  // Takes the steps of a batch, with the bits of taking them in order, and adds them to state.step. Throws
  // DivergenceError before a step that would overflow float32.
  virtual void take(const Batch& batch, RunState& state) = 0;
  // Called before state.weights is read; only a lane that keeps W elsewhere has something to do.
  virtual void publish(RunState& /*state*/) {}
  // Called before a clock is read: waits for steps that are under way. Throws as take() does.
  virtual void settle(RunState& /*state*/) {}
  // Steps only increase the bound on the weights; computing the true maximum once an epoch is cheap.
  virtual void tighten(RunState& state) { tighten_bound(state); }
  // Chooses the rows of its steps itself.
  virtual bool visits_itself() const { return false; }
  // Lets the step fall within a batch (Batch::last_step). Otherwise a batch ends where the step changes.
  virtual bool lets_step_fall() const { return visits_itself(); }
  // Of a batch; 0: those of the setup.
  virtual std::size_t most_steps() const { return 0; }
  // Its groups must not be cut, except by the plan.
  virtual bool takes_whole_batches() const { return false; }
  // True: it will make the order of the next epoch while its threads wait for each other, with
  // VisitOrder::make_some().
  virtual bool makes_order(VisitOrder& /*order*/) { return false; }
  // The device that has W, and evaluates; null: state.weights has it.
  virtual device::Passer* passer() { return nullptr; }
};

// Prefetches the memory of an example that a later step will use.
inline void prefetch_example(const RowView& x, const RunState& state, ExampleId i) {
  prefetch_row(x);
  __builtin_prefetch(&state.row(i), 1);
}
inline void prefetch_example(const DataView& data, const RunState& state, ExampleId i) {
  prefetch_example(data.x(i), state, i);
}

}  // namespace truemax
