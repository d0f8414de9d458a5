#include "train/trainer.hpp"

#include "core/error.hpp"
#include "train/epoch.hpp"

namespace truemax {
namespace {

std::optional<EvaluationRecord> evaluate_state(const Dataset& data, const Dataset* test, std::size_t threads,
                                               const TrainState& state, std::uint64_t steps,
                                               double train_seconds,
                                               std::span<TrainObserver* const> observers,
                                               const std::atomic<bool>& stop) {
  const std::size_t rows = data.rows.rows(), all = rows + (test == nullptr ? 0 : test->rows.rows());
  const auto watch_from = [&](std::size_t before) {
    return [&observers, all, before](std::size_t done) {
      for (TrainObserver* o : observers) o->evaluating(before + done, all);
    };
  };
  EvaluationRecord record;
  record.epoch = state.epoch;
  record.steps = steps;
  record.train_seconds = train_seconds;
  const auto on_train = evaluate(state.weights, data, threads, &stop, watch_from(0));
  if (!on_train) return std::nullopt;
  record.train = *on_train;
  if (test != nullptr) {
    record.test = evaluate(state.weights, *test, threads, &stop, watch_from(rows));
    if (!record.test) return std::nullopt;
  }
  return record;
}

}  // namespace

TrainOutcome train(const Dataset& data, const Dataset* test, const TrainOptions& options, TrainState& state,
                   Stopwatch& watch, std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                   const Recording* recording) {
  TrainOutcome outcome;
  const auto runner = make_epoch_runner(data, options);
  const std::uint64_t epoch_steps = steps_per_epoch(data.size(), options);
  StepPlan plan(options, epoch_steps, &watch, recording);
  const auto steps_done = [&] { return state.epoch * epoch_steps + state.step; };
  const auto step_watch = [&](std::uint64_t steps) {
    const double seconds = watch.seconds_running();
    for (TrainObserver* o : observers) o->stepped(state.epoch, steps, epoch_steps, seconds);
  };
  while (!outcome.interrupted && outcome.divergence.empty()) {
    const bool last = state.epoch >= options.epochs || plan.used_up(state.epoch, state.step);
    const bool due =
        options.eval_every > 0 && state.step == 0 && state.epoch > 0 && state.epoch % options.eval_every == 0;
    // The time may run out between an evaluation and the next step.
    const bool known = outcome.last && outcome.last->steps == steps_done();
    if ((last || due) && !known) {
      watch.pause();
      outcome.last = evaluate_state(data, test, options.thread_count(), state, steps_done(), watch.seconds(),
                                    observers, stop);
      outcome.interrupted = !outcome.last;
      if (outcome.last)
        for (TrainObserver* o : observers) o->evaluated(*outcome.last);
      watch.resume();
    }
    if (last || outcome.interrupted) break;
    try {
      const bool whole = runner->run(data, state, stop, step_watch, &plan);
      outcome.interrupted = !whole && stop.load(std::memory_order_relaxed);
    } catch (const DivergenceError& error) {
      outcome.divergence = error.what();
    }
  }
  watch.pause();
  outcome.epochs = state.epoch;
  outcome.steps = steps_done();
  outcome.segments = plan.segments();
  outcome.train_seconds = watch.seconds();
  return outcome;
}

}  // namespace truemax
