#include "train/trainer.hpp"

#include <utility>

#include "core/error.hpp"
#include "train/best.hpp"
#include "train/epoch.hpp"

namespace truemax {
namespace {

// Evaluates the sets of a run one after the other; false where `stop` was raised.
class Evaluator {
 public:
  Evaluator(const TrainSets& sets, const TrainOptions& options, std::span<TrainObserver* const> observers,
            const std::atomic<bool>& stop)
      : sets_(sets),
        with_train_(options.eval_train),
        evaluation_(options.evaluation),
        seed_(options.seed),
        threads_(options.thread_count()),
        observers_(observers),
        stop_(stop) {}

  bool all(const Weights& weights, EvaluationRecord& record) const {
    return run(weights, {{train(), &record.train}, {sets_.valid, &record.valid}, {sets_.test, &record.test}});
  }
  bool valid(const Weights& weights, EvaluationRecord& record) const {
    return run(weights, {{sets_.valid, &record.valid}});
  }
  bool all_but_valid(const Weights& weights, EvaluationRecord& record) const {
    return run(weights, {{train(), &record.train}, {sets_.test, &record.test}});
  }
  void tell(const EvaluationRecord& record) const {
    for (TrainObserver* o : observers_) o->evaluated(record);
  }

 private:
  using Task = std::pair<const Dataset*, std::optional<Metrics>*>;

  const Dataset* train() const { return with_train_ ? &sets_.data : nullptr; }

  bool run(const Weights& weights, std::initializer_list<Task> tasks) const {
    std::size_t of = 0, before = 0;
    for (const auto& [set, metrics] : tasks) of += set == nullptr ? 0 : rows_to_evaluate(evaluation_, *set);
    for (const auto& [set, metrics] : tasks) {
      if (set == nullptr) continue;
      *metrics = evaluate(evaluation_, seed_, weights, *set, threads_, &stop_, [&](std::size_t done) {
        for (TrainObserver* o : observers_) o->evaluating(before + done, of);
      });
      if (!*metrics) return false;
      before += rows_to_evaluate(evaluation_, *set);
    }
    return true;
  }

  const TrainSets& sets_;
  bool with_train_;
  EvaluateOptions evaluation_;
  std::uint64_t seed_;
  std::size_t threads_;
  std::span<TrainObserver* const> observers_;
  const std::atomic<bool>& stop_;
};

// Watches the log-loss on the validation rows, and keeps the model where it was lowest.
class EarlyStop {
 public:
  EarlyStop(std::uint64_t patience, const std::string& folder) : patience_(patience), weights_(folder) {}

  bool on() const { return patience_ > 0; }
  bool over() const { return on() && waited_ >= patience_; }
  const std::optional<EvaluationRecord>& best() const { return best_; }

  void see(const EvaluationRecord& record, const Weights& weights) {
    if (!on()) return;
    if (best_ && !(record.valid->log_loss < best_->valid->log_loss)) {
      ++waited_;
      return;
    }
    waited_ = 0;
    best_ = record;
    weights_.keep(weights);
  }
  void restore(Weights& weights) { weights_.restore(weights); }

 private:
  std::uint64_t patience_, waited_ = 0;
  std::optional<EvaluationRecord> best_;
  BestWeights weights_;
};

}  // namespace

TrainOutcome train(const TrainSets& sets, const TrainOptions& options, TrainState& state, Stopwatch& watch,
                   std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                   const TrainExtras& extras) {
  const Dataset& data = sets.data;
  TrainOutcome outcome;
  const auto runner = make_epoch_runner(data, options);
  const std::uint64_t epoch_steps = steps_per_epoch(data.size(), options);
  StepPlan plan(options, epoch_steps, &watch, extras.recording);
  const Evaluator evaluator(sets, options, observers, stop);
  EarlyStop early(sets.valid != nullptr ? options.patience : 0, extras.best_folder);
  const auto steps_done = [&] { return state.epoch * epoch_steps + state.step; };
  const auto step_watch = [&](std::uint64_t steps) {
    const double seconds = watch.seconds_running();
    for (TrainObserver* o : observers) o->stepped(state.epoch, steps, epoch_steps, seconds);
  };
  const auto look = [&] {
    EvaluationRecord record;
    record.epoch = state.epoch, record.steps = steps_done(), record.train_seconds = watch.seconds();
    if (!(early.on() ? evaluator.valid(state.weights, record) : evaluator.all(state.weights, record)))
      return false;
    evaluator.tell(record);
    early.see(record, state.weights);
    outcome.last = record;
    return true;
  };

  for (TrainObserver* o : observers) o->fitting(options, watch.seconds_running());
  while (!outcome.interrupted && outcome.divergence.empty() && !early.over()) {
    const bool last = state.epoch >= options.epochs || plan.used_up(state.epoch, state.step);
    const bool due =
        options.eval_every > 0 && state.step == 0 && state.epoch > 0 && state.epoch % options.eval_every == 0;
    // The time may run out between an evaluation and the next step.
    const bool known = outcome.last && outcome.last->steps == steps_done();
    if ((last || due) && !known) {
      watch.pause();
      outcome.interrupted = !look();
      watch.resume();
    }
    if (last || early.over() || outcome.interrupted) break;
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

  if (!early.best()) return outcome;
  early.restore(state.weights);
  outcome.kept_best = true;
  outcome.last = early.best();
  EvaluationRecord final = *early.best();
  final.best = true;
  if (outcome.interrupted) return outcome;
  outcome.interrupted = !evaluator.all_but_valid(state.weights, final);
  if (outcome.interrupted) return outcome;
  evaluator.tell(final);
  outcome.last = final;
  return outcome;
}

}  // namespace truemax
