#include "train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "data/triples.hpp"
#include "train/fit.hpp"
#include "train/shared_clock.hpp"

namespace truemax {
namespace {

// Evaluates the sets of a run one after the other; false if `stop` was raised.
class Evaluator {
 public:
  Evaluator(const TrainSets& sets, const Plan& plan, std::span<TrainObserver* const> observers,
            const std::atomic<bool>& stop)
      : sets_(sets),
        train_(tails_of(sets.data)),
        with_train_(plan.recipe.eval_train),
        learnt_(plan.recipe.hidden > 0),
        evaluation_(plan.recipe.evaluation),
        threads_(plan.recipe.thread_count()),
        observers_(observers),
        stop_(stop) {}

  bool all(Fit& fit, EvaluationRecord& record) const {
    return run(fit, {{train(), &record.train}, {valid(), &record.valid}, {test(), &record.test}});
  }
  bool only_valid(Fit& fit, EvaluationRecord& record) const { return run(fit, {{valid(), &record.valid}}); }
  bool all_but_valid(Fit& fit, EvaluationRecord& record) const {
    return run(fit, {{train(), &record.train}, {test(), &record.test}});
  }
  void tell(const EvaluationRecord& record) const {
    for (TrainObserver* o : observers_) o->evaluated(record);
  }

 private:
  using Task = std::pair<const DataView*, std::optional<Metrics>*>;

  const DataView* train() const { return with_train_ ? &train_ : nullptr; }
  const DataView* valid() const { return sets_.valid ? &*sets_.valid : nullptr; }
  const DataView* test() const { return sets_.test ? &*sets_.test : nullptr; }

  bool run(Fit& fit, std::initializer_list<Task> tasks) const {
    std::size_t of = 0, before = 0;
    for (const auto& [set, metrics] : tasks) of += set == nullptr ? 0 : rows_to_evaluate(how(set), *set);
    for (const auto& [set, metrics] : tasks) {
      if (set == nullptr) continue;
      try {
        *metrics = fit.evaluate(how(set), *set, threads_, &stop_, [&](std::size_t done) {
          for (TrainObserver* o : observers_) o->evaluating(before + done, of);
        });
      } catch (const DivergenceError& error) {
        const char* const name = set == train() ? "training" : set == valid() ? "validation" : "test";
        throw DivergenceError(fmt::format("{} rows: {}", name, error.what()));
      }
      if (!*metrics) return false;
      before += rows_to_evaluate(how(set), *set);
    }
    return true;
  }

  // With learnt features, every row costs h numbers per class: many training rows are looked at in part.
  EvaluateOptions how(const DataView* set) const {
    constexpr std::size_t kMany = 50000;
    EvaluateOptions options = evaluation_;
    if (learnt_ && set == train() && set->row_count() > kMany) options.kind = EvalKind::sampled;
    return options;
  }

  const TrainSets& sets_;
  DataView train_;
  bool with_train_, learnt_;
  EvaluateOptions evaluation_;
  std::size_t threads_;
  std::span<TrainObserver* const> observers_;
  const std::atomic<bool>& stop_;
};

// Tracks the log-loss on the validation rows and keeps the model with the lowest.
class Patience {
 public:
  Patience(std::uint64_t evaluations, const std::string& folder, PatienceState& state)
      : evaluations_(evaluations), state_(state) {
    if (on() && state_.weights == nullptr) state_.weights = std::make_shared<KeptWeights>(folder);
  }

  bool on() const { return evaluations_ > 0; }
  bool over() const { return on() && state_.waited >= evaluations_; }
  const std::optional<EvaluationRecord>& best() const { return state_.best; }

  bool improves(const EvaluationRecord& record) const {
    return on() && (!state_.best || record.valid->log_loss < state_.best->valid->log_loss);
  }
  void see(const EvaluationRecord& record, const RunState& state) {
    if (!on()) return;
    if (!improves(record)) {
      ++state_.waited;
      return;
    }
    state_.waited = 0;
    state_.best = record;
    state_.weights->keep(state.weights);
    state_.tables = state.learnt.tables;
  }
  void restore(RunState& state) {
    state_.weights->restore(state.weights);
    if (!state_.tables.empty()) state.learnt.tables = std::move(state_.tables);
  }

 private:
  std::uint64_t evaluations_;
  PatienceState& state_;
};

// A run with evaluations along the way.
class WatchedFit {
 public:
  WatchedFit(const TrainSets& sets, const Plan& plan, RunState&& state, Stopwatch& watch,
             std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
             const TrainExtras& extras)
      : recipe_(plan.recipe),
        watch_(watch),
        observers_(observers),
        stop_(stop),
        fit_(sets.data, plan, std::move(state), &watch, extras.recording, extras.search_seconds),
        evaluator_(sets, plan, observers, extras.own_stop != nullptr ? *extras.own_stop : stop),
        saving_(extras.saving),
        patience_(sets.valid ? plan.recipe.patience : 0, extras.best_folder, fit_.state().patience) {
    if (!saving_.at_start) saved_ = fit_.steps();
    // Like reading the data, sending them to a device is not training.
    watch_.pause();
    fit_.prepare();
    watch_.resume();
  }

  TrainOutcome run() {
    for (TrainObserver* o : observers_) o->fitting(fit_.plan(), watch_.seconds_running());
    since_saved_ = started();
    while (go_on()) {
    }
    if (outcome_.divergence.empty()) save(!outcome_.interrupted);
    watch_.pause();
    fit_.publish();
    outcome_.epochs = fit_.state().epoch;
    outcome_.steps = fit_.steps();
    outcome_.segments = fit_.segments();
    outcome_.traffic = fit_.traffic();
    outcome_.train_seconds = watch_.seconds();
    outcome_.last = fit_.state().last;
    if (patience_.best()) finish_with_best();
    return std::move(outcome_);
  }
  RunState&& take_state() { return std::move(fit_.state()); }

 private:
  // Trains until the next evaluation; false at the end of the run.
  bool go_on() {
    const RunState& state = fit_.state();
    const bool last = fit_.used_up();
    const bool due =
        recipe_.eval_every > 0 && state.step == 0 && state.epoch > 0 && state.epoch % recipe_.eval_every == 0;
    // Time may run out between an evaluation and the next step.
    const bool known = state.last && state.last->steps == fit_.steps();
    if ((last || due) && !known) look();
    if (last || patience_.over() || outcome_.interrupted || !outcome_.divergence.empty()) return false;
    if (save_is_due()) save(false);
    if (saved_ == fit_.steps()) since_saved_ = started();
    const Fit::End end = fit_.run(next_pause(), stop_, [&](std::uint64_t steps) {
      const double seconds = watch_.seconds_running();
      for (TrainObserver* o : observers_) o->stepped(state.epoch, steps, fit_.steps_per_epoch(), seconds);
    });
    outcome_.interrupted = end == Fit::End::stopped;
    outcome_.divergence = fit_.divergence();
    outcome_.unsolved = fit_.unsolved();
    return end != Fit::End::stopped && end != Fit::End::diverged;
  }

  // The next evaluation or saving.
  Fit::Until next_pause() const {
    Fit::Until until;
    for (const std::uint64_t every : {recipe_.eval_every, saving_.save ? saving_.epochs : 0})
      if (every > 0) until.epoch = std::min(until.epoch, (fit_.state().epoch / every + 1) * every);
    if (saving_.save && saving_.seconds > 0) until.seconds = seconds_between(), until.clock = &since_saved_;
    return until;
  }

  bool save_is_due() const {
    const RunState& state = fit_.state();
    if (!saving_.save || saved_ == fit_.steps()) return false;
    if (!saved_) return true;
    if (saving_.seconds > 0 && since_saved_.seconds_running() >= seconds_between()) return true;
    return saving_.epochs > 0 && state.step == 0 && state.epoch > 0 && state.epoch % saving_.epochs == 0;
  }

  void save(bool finished) {
    if (!saving_.save || (!finished && saved_ == fit_.steps())) return;
    watch_.pause();
    fit_.publish();
    fit_.state().plan.seconds = watch_.seconds();
    const Stopwatch own = started();
    saving_.save(fit_.state(), finished);
    save_seconds_ = own.seconds_running();
    saved_ = fit_.steps();
    watch_.resume();
  }

  static Stopwatch started() {
    Stopwatch watch(shared_clock());
    watch.resume();
    return watch;
  }
  // As asked, but on a slow disk at most a tenth of the time goes to saving.
  double seconds_between() const { return std::max(saving_.seconds, 9 * save_seconds_); }

  void look() {
    watch_.pause();
    RunState& state = fit_.state();
    EvaluationRecord record;
    record.epoch = state.epoch, record.steps = fit_.steps(), record.train_seconds = watch_.seconds();
    try {
      outcome_.interrupted =
          !(patience_.on() ? evaluator_.only_valid(fit_, record) : evaluator_.all(fit_, record));
    } catch (const DivergenceError& error) {
      outcome_.divergence = error.what(), outcome_.at_evaluation = true;
    }
    if (outcome_.interrupted) {
      ranks().agreed_to_stop();
    } else if (!outcome_.at_evaluation) {  // else the model stays as it is: more steps would hardly help
      evaluator_.tell(record);
      if (patience_.improves(record)) fit_.publish();
      patience_.see(record, state);
      state.last = record;
    }
    watch_.resume();
  }

  void finish_with_best() {
    RunState& state = fit_.state();
    patience_.restore(state);
    fit_.restored();
    outcome_.kept_best = true;
    outcome_.last = patience_.best();
    if (outcome_.interrupted) return;
    EvaluationRecord final = *patience_.best();
    final.best = true;
    try {
      outcome_.interrupted = !evaluator_.all_but_valid(fit_, final);
    } catch (const DivergenceError& error) {
      outcome_.divergence = error.what(), outcome_.at_evaluation = true;
    }
    if (outcome_.interrupted || !outcome_.divergence.empty()) return;
    evaluator_.tell(final);
    outcome_.last = final;
  }

  const Recipe& recipe_;
  Stopwatch& watch_;
  std::span<TrainObserver* const> observers_;
  const std::atomic<bool>& stop_;
  Fit fit_;
  Evaluator evaluator_;
  SavePlan saving_;
  std::optional<std::uint64_t> saved_;  // the steps that were done when it was last saved
  Stopwatch since_saved_;               // wall-clock time
  double save_seconds_ = 0;             // that the last saving took
  Patience patience_;
  TrainOutcome outcome_;
};

}  // namespace

TrainOutcome train(const TrainSets& sets, const Plan& plan, RunState& state, Stopwatch& watch,
                   std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                   const TrainExtras& extras) {
  WatchedFit run(sets, plan, std::move(state), watch, observers, stop, extras);
  TrainOutcome outcome = run.run();
  state = run.take_state();
  return outcome;
}

}  // namespace truemax
