#include "train/step_loop.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/huge_pages.hpp"
#include "model/model.hpp"
#include "rule/methods.hpp"
#include "train/step_inputs.hpp"

namespace truemax {
namespace {

VisitOrder order_of(const DataView& data, const Recipe& recipe) {
  if (data.streamed() == nullptr)
    return VisitOrder(recipe.visit, recipe.seed, data.size(), recipe.rows_per_step, data.rows_of_inputs());
  return VisitOrder(WindowOrder(recipe.visit, recipe.seed, data.examples_of_blocks(),
                                data.streamed()->window_blocks(), recipe.rows_per_step));
}

}  // namespace

StepLoop::StepLoop(const DataView& data, const Plan& plan)
    : data_(data),
      plan_(plan),
      problem_(rule_problem(data, plan.recipe)),
      rule_(make_rule(plan.recipe.method, plan.recipe.rule, problem_)),
      draw_(draw_for(plan.recipe, plan.problem)),
      ridge_(data, plan.recipe, problem_, draw_.get()),
      guard_(rule_->info().name, plan.recipe.step),
      setup_{data_, plan_, problem_, ridge_, guard_, *rule_, draw_.get(), ranks(), share_of(*data.classes)},
      order_(order_of(data, plan.recipe)) {
  if (data.streamed() != nullptr) windows_ = std::make_unique<RowWindows>(data.shared_stream());
  rule_->reserve(plan.shape);
  lane_ = plan.steps->make(setup_);
  if (plan.recipe.thread_count() > 1) {
    using Maker = VisitOrder::Maker;
    order_.look_ahead(plan.recipe.epochs, lane_->makes_order(order_) ? Maker::caller : Maker::thread);
  }
}

StepLoop::~StepLoop() = default;

bool StepLoop::run(RunState& state, const std::atomic<bool>& stop, const StepWatch& watch,
                   StepSchedule* given_plan) {
  // Steps between two calls of the watch.
  const std::uint64_t watch_every = std::max<std::uint64_t>(1, 8192 / plan_.rows_per_step);
  StepSchedule own_plan(plan_.recipe, steps_per_epoch());
  StepSchedule& plan = given_plan != nullptr ? *given_plan : own_plan;
  const CounterRandom random(plan_.recipe.seed, Stream::draw, state.epoch);
  if (lane_->lets_step_fall()) plan.let_steps_fall();
  if (!lane_->visits_itself()) order_.start_epoch(state.epoch);
  window_held_ = false;
  lane_->attach(state);
  if (state.step == 0) {
    if (state.learnt.empty()) lane_->tighten(state);
    if (!lane_->start_epoch(state, stop, plan)) return false;
  }
  while (state.step < steps_per_epoch()) {
    if (stop.load(std::memory_order_relaxed)) return false;
    const StepSchedule::Leg leg = plan.next(state.epoch, state.step);
    if (leg.steps == 0) return false;
    std::uint64_t count =
        std::min<std::uint64_t>({batch_steps(state), steps_per_epoch() - state.step, leg.steps});
    if (windows_) count = enter_window(state.step, count);
    Batch batch{order_,     random,
                state.step, static_cast<std::size_t>(count),
                leg.step,   leg.step / plan_.recipe.step_at(0)};
    if (leg.last_step > 0)  // at the end of the batch, which may be shorter than the leg
      batch.last_step =
          leg.step + (leg.last_step - leg.step) * static_cast<double>(count) / static_cast<double>(leg.steps);
    const Traffic before = setup_.ranks.traffic();
    lane_->take(batch, state);
    traffic_.rows += count * plan_.rows_per_step;
    traffic_.traffic += setup_.ranks.traffic() - before;
    unwatched_ += count;
    if (!watch || unwatched_ < watch_every) continue;
    unwatched_ = 0;
    watch(state.step);
  }
  state.step = 0;
  ++state.epoch;
  return true;
}

// A step that begins in one window may end in the next; a batch of several steps may not.
std::uint64_t StepLoop::enter_window(std::uint64_t step, std::uint64_t count) {
  WindowOrder& order = *order_.windows();
  const std::uint64_t first = step * plan_.rows_per_step;
  const std::size_t window = order.window_at(first);
  if (!window_held_ || window != window_) {
    windows_->enter(order.blocks_of(window), order.blocks_of(window + 1));
    order.enter(window);
    window_ = window, window_held_ = true, next_held_ = false;
  }
  const std::uint64_t whole = (order.end_of(window) - first) / plan_.rows_per_step;
  if (whole > 0) return std::min(count, whole);
  if (!next_held_ && window + 1 < order.windows()) {
    std::vector<std::uint32_t> both(order.blocks_of(window).begin(), order.blocks_of(window).end());
    both.insert(both.end(), order.blocks_of(window + 1).begin(), order.blocks_of(window + 1).end());
    windows_->enter(both, {});
    next_held_ = true;
  }
  return 1;
}

// Smaller batches at first: the first touch of a huge page clears it, which takes as long as 100 steps.
std::size_t StepLoop::batch_steps(const RunState& state) const {
  const std::size_t most = std::max(setup_.plan.steps_ahead, lane_->most_steps());
  if (lane_->visits_itself() || lane_->takes_whole_batches()) return most;
  constexpr std::size_t kFreshSteps = 8;
  // In order, the length of a batch does not depend on the number of threads.
  if (plan_.recipe.lock_free && state.pages_cleared) return most;
  const std::size_t pages = state.weights.bytes() / detail::kHugePage;
  return state.epoch == 0 && state.step < pages ? std::min(most, kFreshSteps) : most;
}

}  // namespace truemax
