#include "train/study.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "train/bind.hpp"
#include "train/search.hpp"
#include "train/start.hpp"

namespace truemax {
namespace {

constexpr double kDecays = 50;  // times that the step falls over a budget of seconds

// The watch runs while this exists.
struct Running {
  explicit Running(Stopwatch& watch) : watch_(watch) { watch_.resume(); }
  ~Running() { watch_.pause(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  Stopwatch& watch_;
};

}  // namespace

StudyRun::StudyRun(const Recipe& recipe, const StudyRows& rows, std::function<void()> tick, TimeSource time)
    : rows_(rows), tick_(std::move(tick)), watch_(std::move(time)) {
  const Running running(watch_);  // allocating W and tables counts as training time
  const auto& [sets, problem, machine, stop] = rows;
  const Recipe found = recipe.sought.any()
                           ? search(recipe, {sets, problem, machine, watch_, {}, stop, &spare_}).recipe
                           : recipe;
  fit_.emplace(sets.data, bind(found, problem, machine), make_state(sets.data, found, &spare_), &watch_);
}

void StudyRun::train_until(double seconds) {
  if (seconds > watch_.seconds()) run({.seconds = seconds, .clock = &watch_});
}

void StudyRun::train_until_epoch(std::uint64_t epoch) {
  run({.epoch = epoch});
}

void StudyRun::run(const Fit::Until& until) {
  const Running running(watch_);
  const Fit::End end = fit_->run(until, rows_.stop, [this](std::uint64_t) {
    if (tick_) tick_();
  });
  if (end == Fit::End::diverged) throw DivergenceError(fit_->divergence());
  fit_->publish();
}

std::optional<double> StudyRun::log_loss(const DataView& data, std::size_t threads) {
  const std::optional<Metrics> metrics = fit_->evaluate({}, data, threads, &rows_.stop);
  if (!metrics) return std::nullopt;
  if (!std::isfinite(metrics->log_loss))
    throw DivergenceError("the log-loss is not finite; try a smaller step");
  return metrics->log_loss;
}

namespace {

// The decay per epoch that amounts to decay^50 over the budget; a short trial estimates its number of epochs.
double decay_over(const Recipe& recipe, const StudyRows& rows, const Budget& budget) {
  if (recipe.decay == 1 || recipe.schedule != Schedule::decay) return recipe.decay;
  constexpr double kTrial = 0.1;
  StudyRun trial(recipe, rows, budget.tick, budget.time);
  // The first half touches fresh memory and is slower, so only the second half is measured.
  trial.train_until(kTrial / 2 * budget.seconds);
  const double seconds = trial.seconds(), epochs = trial.epochs();
  trial.train_until(std::max(kTrial * budget.seconds, 1.5 * seconds));
  const double rate = (trial.epochs() - epochs) / (trial.seconds() - seconds);
  if (!(rate > 0)) return recipe.decay;  // stopped, or a step takes as long as the trial
  const double decays = kDecays / (rate * budget.seconds);
  return std::pow(recipe.decay, std::min(decays, kDecays));
}

// Fills in seconds and steps of a run even if it diverged.
class Note {
 public:
  Note(BudgetedRun& run, const StudyRun& of) : run_(run), of_(of) {}
  ~Note() {
    run_.seconds = of_.seconds();
    run_.steps = of_.steps();
    run_.step = of_.step();
  }
  Note(const Note&) = delete;
  Note& operator=(const Note&) = delete;

 private:
  BudgetedRun& run_;
  const StudyRun& of_;
};

// When to evaluate: at the end, at half of it, a quarter, and so on.
std::vector<double> moments(double end, std::size_t points) {
  std::vector<double> at;
  for (std::size_t i = std::max<std::size_t>(points, 1); i-- > 0;)
    at.push_back(std::ldexp(end, -static_cast<int>(i)));
  return at;
}

}  // namespace

BudgetedRun run_for(const Recipe& asked, const StudyRows& rows, const Budget& budget) {
  Recipe recipe = asked;
  const bool by_epochs = budget.epochs > 0;
  if (!recipe.newton_alone()) recipe.epochs = by_epochs ? budget.epochs : kUnlimitedEpochs;
  recipe.sought.epochs = false;
  recipe.steps = 0, recipe.seconds = 0;
  const auto& [data, test, valid] = rows.sets;
  BudgetedRun run;
  try {
    if (!by_epochs) {
      recipe.decay = decay_over(recipe, rows, budget);
      recipe.seconds = budget.seconds;
    }
    StudyRun one(recipe, rows, budget.tick, budget.time);
    const std::vector<double> when =
        moments(by_epochs ? static_cast<double>(budget.epochs) : budget.seconds, budget.points);
    for (const double at : when) {
      const std::uint64_t before = one.steps();
      const Note note(run, one);
      if (by_epochs)
        one.train_until_epoch(static_cast<std::uint64_t>(at));
      else
        one.train_until(at);
      run.interrupted = rows.stop.load();
      if (run.interrupted) break;
      const bool nothing_new = one.steps() == before;
      if (nothing_new && !(at == when.back() && run.curve.empty())) continue;
      const std::optional<double> on_train = one.log_loss(data, budget.threads);
      std::optional<double> on_test;
      if (on_train && test) on_test = one.log_loss(*test, budget.threads);
      run.interrupted = !on_train || (test && !on_test);
      if (run.interrupted) break;
      run.curve.push_back({one.seconds(), one.epochs(), *on_train, on_test});
    }
  } catch (const DivergenceError& error) {
    run.divergence = error.what();
  }
  return run;
}

}  // namespace truemax
