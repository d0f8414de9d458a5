// For tests of lanes: whole runs on any number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <string>

#include "core/error.hpp"
#include "train/step_inputs.hpp"
#include "train/test_support.hpp"

namespace truemax {

// The end of a run of one lane.
struct Ended {
  RunState state;
  std::size_t threads = 0;
  std::string divergence = {};  // what it said
};

// The epochs of the options, on so many threads however many cores there are.
template <class OneLane>
Ended run_on(const DataView& data, Recipe options, std::size_t threads) {
  options.threads = threads;
  const Plan plan = planned(data, options);
  const auto draw = draw_for(options, plan.problem);
  const ProblemInfo problem = rule_problem(data, options);
  Ridge ridge(data, options, problem, draw.get());
  const GrowthGuard guard(options.method, options.step);
  const auto rule = make_rule(options.method, options.rule, problem);
  rule->reserve(plan.shape);
  const LaneSetup setup{data, plan, problem, ridge, guard, *rule, draw.get()};
  OneLane tested(setup, threads);
  Ended ended{make_state(data, options), tested.threads()};
  RunState& state = ended.state;
  const std::atomic<bool> stop{false};
  VisitOrder order(options.visit, options.seed, data.size());
  try {
    for (; state.epoch < options.epochs; ++state.epoch, state.step = 0) {
      order.start_epoch(state.epoch);
      const CounterRandom random(options.seed, Stream::draw, state.epoch);
      tested.attach(state);
      tested.start_epoch(state, stop, StepSchedule(options, data.size()));
      while (state.step < data.size()) {
        const std::size_t most = std::max(plan.steps_ahead, tested.most_steps());
        const double step = options.step_at(state.epoch);
        tested.take({order, random, state.step, std::min<std::size_t>(most, data.size() - state.step), step,
                     step / options.step_at(0)},
                    state);
      }
    }
  } catch (const DivergenceError& error) {
    ended.divergence = error.what();
  }
  return ended;
}

}  // namespace truemax
