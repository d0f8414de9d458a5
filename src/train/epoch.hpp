// The step loop: draw -> scores -> rule -> update, for any rule of the table. One virtual call an epoch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "data/dataset.hpp"
#include "draw/draw.hpp"
#include "train/options.hpp"
#include "train/plan.hpp"
#include "train/state.hpp"

namespace truemax {

// Watches a long epoch: called every few thousand steps with the steps done; must not change the state.
using StepWatch = std::function<void(std::uint64_t steps_done)>;

class EpochRunner {
 public:
  virtual ~EpochRunner() = default;
  // Runs the rest of the epoch state.epoch from state.step on. True when it was finished (then state.epoch
  // has grown and state.step is 0), false when `stop` was raised or the budget of the plan is used up. Throws
  // DivergenceError before a step that would leave float32. Without a plan: that of the options, no clock.
  virtual bool run(const Dataset& data, TrainState& state, const std::atomic<bool>& stop,
                   const StepWatch& watch, StepPlan* plan = nullptr) = 0;
};

// The memory of the step loop itself, besides W and the row states.
std::uint64_t step_bytes(const Dataset& data, const TrainOptions& options);

// An epoch visits N rows: the last step of several rows may have fewer of them.
std::uint64_t steps_per_epoch(std::uint64_t rows, const TrainOptions& options);

// W = 0; u = 0, or its exact value there for methods that want it.
// `spare`: weights of a run before, whose memory is used again where its shape is right; may be null.
TrainState make_state(const Dataset& data, const TrainOptions& options, Weights* spare = nullptr);

// Weights to hand to make_state as `spare`, every page of them written. A run that looks at a clock begins
// with these, before the clock starts: what the system takes to clear fresh pages would decide what the run
// learns.
Weights cleared_weights(const Dataset& data, const TrainOptions& options);

// Asks for the memory of a row that a later step will use.
inline void prefetch_row(const RowView& x, const TrainState& state, std::size_t i) {
  constexpr std::size_t kPerLine = 16;
  for (std::size_t j = 0; j < x.index.size(); j += kPerLine) {
    __builtin_prefetch(&x.index[j]);
    __builtin_prefetch(&x.value[j]);
  }
  __builtin_prefetch(&state.rows[i], 1);
}
inline void prefetch_row(const Dataset& data, const TrainState& state, std::size_t i) {
  prefetch_row(data.x(i), state, i);
}

std::unique_ptr<EpochRunner> make_epoch_runner(const Dataset& data, const TrainOptions& options);

}  // namespace truemax
