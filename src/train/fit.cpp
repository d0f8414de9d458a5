#include "train/fit.hpp"

#include <fmt/format.h>

#include <new>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/row_encoder.hpp"
#include "core/text.hpp"
#include "train/encoder.hpp"
#include "train/evaluate_state.hpp"
#include "train/newton.hpp"

namespace truemax {
namespace {

// Times the largest number of a learnt vector that steps allow (train/learnt_step.cpp), a row with this sum
// of |value| stays inside float32.
constexpr double kSafeBag = 1e22;

// Making the loop keeps one thread busy: meanwhile the others clear the pages that its first steps would.
std::jthread clear_pages(RunState& state, const DataView& data, const Plan& plan) {
  const std::size_t threads = plan.recipe.thread_count();
  const Recipe& recipe = plan.recipe;
  const bool together = threads > 1 && (recipe.lock_free || recipe.group > 0) && recipe.hidden == 0;
  if (!together || recipe.on_gpu() || !has_fresh_pages(state, data, recipe)) return {};
  try {
    return std::jthread([pages = state.weights.fresh_pages(), threads] {
      try {
        pages.clear(threads);
      } catch (const std::bad_alloc&) {  // steps clear them
      }
    });
  } catch (const std::system_error&) {  // no more threads
    return {};
  }
}

}  // namespace

Fit::Fit(const DataView& data, const Plan& plan, RunState&& from, const Stopwatch* watch,
         const Recording* recording, double search_seconds)
    : data_(data),
      clearing_(clear_pages(from, data, plan)),
      loop_(data, plan),
      schedule_(plan.recipe, plan.steps_per_epoch, watch, recording, search_seconds),
      state_(std::move(from)) {
  if (clearing_.joinable()) {
    clearing_.join();
    state_.pages_cleared = true;
  }
  schedule_.continue_from(state_.plan);
}

// A clock does not wait for steps that change nothing.
bool Fit::steps_used_up() const {
  return state_.epoch >= plan().recipe.epochs || schedule_.used_up(state_.epoch, state_.step) ||
         (state_.lbfgs.ended && schedule_.has_clock());
}

bool Fit::used_up() const {
  return steps_used_up() && finished();
}

Fit::End Fit::run(const Until& until, const std::atomic<bool>& stop, const StepWatch& watch) {
  const auto reached = [&] {
    return state_.epoch >= until.epoch ||
           (until.clock != nullptr && until.clock->seconds_running() >= until.seconds);
  };
  schedule_.cut_at(until.seconds, until.clock);
  End end = End::reached;
  try {
    while (!reached()) {
      const bool steps_over = steps_used_up(), over = steps_over && finished();
      const bool stopped = stop.load(std::memory_order_relaxed);
      if (over || stopped) {
        // The clock may have advanced since then.
        if (!reached()) end = over ? End::used_up : End::stopped;
        break;
      }
      if (!steps_over) {
        loop_.run(state_, stop, watch, &schedule_);
        continue;
      }
      loop_.publish(state_);
      // After steps, which used up the time, it is not cut.
      const auto time_is_up = [&]() -> bool { return plan().recipe.epochs == 0 && schedule_.out_of_time(); };
      const NewtonEnd newton = plan().finish->finish(data_, plan().recipe, state_.weights, stop, time_is_up);
      if (newton == NewtonEnd::stopped) continue;
      state_.newton_done = true;
      if (newton == NewtonEnd::steps)
        unsolved_ = fmt::format("Newton's method has not reached the optimum in {}; give more --newton",
                                counted(plan().recipe.newton, "step"));
      if (newton == NewtonEnd::time)
        unsolved_ = fmt::format("Newton's method has not reached the optimum in {:g} s; give more --seconds",
                                plan().recipe.seconds);
      if (newton == NewtonEnd::stuck)
        unsolved_ =
            "Newton's method ended before the optimum: no step leads further in double precision; give "
            "more --ridge";
      state_.largest_weight = state_.weights.largest();
      state_.last.reset();  // of other weights
      state_.lbfgs.known = state_.lbfgs.ended = false;
    }
    loop_.settle(state_);
  } catch (const DivergenceError& error) {
    divergence_ = error.what();
    end = End::diverged;
  }
  if (loop_.passer() == nullptr) loop_.publish(state_);
  schedule_.cut_at(until.seconds, nullptr);
  state_.plan.segments = schedule_.segments();
  return end;
}

std::optional<Metrics> Fit::evaluate(const EvaluateOptions& options, const DataView& data,
                                     std::size_t threads, const std::atomic<bool>* stop,
                                     const RowWatch& watch) {
  // Triples are ranked on the CPU, which also finds rows that leave float32.
  if (device::Passer* const device = loop_.passer();
      device != nullptr && !replaced_ && takes_all_classes(options) && !data.ranking &&
      (state_.learnt.empty() || largest_bag(data).sum <= kSafeBag))
    return truemax::evaluate(options, plan().recipe.seed, *device, data, threads, stop, watch);
  if (!replaced_) publish();
  try {
    return truemax::evaluate(options, plan().recipe.seed, state_, data, threads, stop, watch);
  } catch (const RowBeyondFloat& error) {
    // What was learnt is kept, as that before a step that leaves float32.
    throw DivergenceError(error.what());
  }
}

}  // namespace truemax
