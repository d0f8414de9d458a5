#include "train/trainer.hpp"

#include "core/error.hpp"
#include "train/epoch.hpp"

namespace truemax {
namespace {

std::optional<EvaluationRecord> evaluate_state(const Dataset& data, const Dataset* test, std::size_t threads,
                                               const TrainState& state, double train_seconds,
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
                   Stopwatch& watch, std::span<TrainObserver* const> observers,
                   const std::atomic<bool>& stop) {
  TrainOutcome outcome;
  const auto runner = make_epoch_runner(data, options);
  const auto step_watch = [&](std::uint64_t steps) {
    const double seconds = watch.seconds_running();
    for (TrainObserver* o : observers)
      o->stepped(state.epoch, steps, steps_per_epoch(data.size(), options), seconds);
  };
  while (!outcome.interrupted && outcome.divergence.empty()) {
    const bool last = state.epoch >= options.epochs;
    if (last || (options.eval_every > 0 && state.step == 0 && state.epoch > 0 &&
                 state.epoch % options.eval_every == 0)) {
      watch.pause();
      outcome.last =
          evaluate_state(data, test, options.thread_count(), state, watch.seconds(), observers, stop);
      outcome.interrupted = !outcome.last;
      if (outcome.last)
        for (TrainObserver* o : observers) o->evaluated(*outcome.last);
      watch.resume();
    }
    if (last || outcome.interrupted) break;
    try {
      outcome.interrupted = !runner->run(data, state, stop, step_watch);
    } catch (const DivergenceError& error) {
      outcome.divergence = error.what();
    }
  }
  watch.pause();
  outcome.epochs = state.epoch;
  outcome.steps = state.epoch * steps_per_epoch(data.size(), options) + state.step;
  outcome.train_seconds = watch.seconds();
  return outcome;
}

}  // namespace truemax
