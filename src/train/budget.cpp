#include "train/budget.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/error.hpp"
#include "evaluate/evaluate.hpp"
#include "train/bind.hpp"
#include "train/fit.hpp"
#include "train/search.hpp"
#include "train/start.hpp"
#include "train/stopwatch.hpp"

namespace truemax {
namespace {

constexpr double kDecays = 50;  // times that the step falls over a budget of seconds

// What a run is of.
struct Task {
  const TrainSets& sets;
  const Problem& problem;
  const Machine& machine;
  const Budget& budget;
  const std::atomic<bool>& stop;
};

// Trains up to a number of seconds or epochs.
class Trainee {
 public:
  Trainee(const Recipe& recipe, const Task& task)
      : tick_(task.budget.tick), stop_(task.stop), watch_(task.budget.time) {
    const Running running(watch_);  // the search, and allocating W and tables, count as training time
    const Plan plan = bind(chosen(recipe, task), task.problem, task.machine);
    fit_.emplace(task.sets.data, plan, make_state(task.sets.data, plan.recipe, &spare_), &watch_);
  }

  void train_until(double seconds) {
    if (seconds > watch_.seconds()) run({.seconds = seconds, .clock = &watch_});
  }
  void train_until_epoch(std::uint64_t epoch) { run({.epoch = epoch}); }
  const Weights& weights() const { return fit_->state().weights; }
  double seconds() const { return watch_.seconds(); }
  double epochs() const { return fit_->epochs(); }
  std::uint64_t steps() const { return fit_->steps(); }
  double step() const { return fit_->plan().recipe.step; }

 private:
  // The watch runs while this exists.
  struct Running {
    explicit Running(Stopwatch& watch) : watch_(watch) { watch_.resume(); }
    ~Running() { watch_.pause(); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    Stopwatch& watch_;
  };

  void run(const Fit::Until& until) {
    const Running running(watch_);
    const Fit::End end = fit_->run(until, stop_, [this](std::uint64_t) {
      if (tick_) tick_();
    });
    if (end == Fit::End::diverged) throw DivergenceError(fit_->divergence());
    fit_->publish();
  }

  Recipe chosen(const Recipe& recipe, const Task& task) {
    if (!recipe.sought.any()) return recipe;
    return search(recipe, {task.sets, task.problem, task.machine, watch_, {}, stop_, &spare_}).recipe;
  }

  const std::function<void()>& tick_;
  const std::atomic<bool>& stop_;
  Stopwatch watch_;
  Weights spare_;  // memory of the trials
  std::optional<Fit> fit_;
};

// The decay per epoch that amounts to decay^50 over the budget; a short trial estimates its number of epochs.
double decay_over(const Recipe& recipe, const Task& task) {
  if (recipe.decay == 1 || recipe.schedule != Schedule::decay) return recipe.decay;
  constexpr double kTrial = 0.1;
  const Budget& budget = task.budget;
  Trainee trial(recipe, task);
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
  Note(BudgetedRun& run, const Trainee& trainee) : run_(run), trainee_(trainee) {}
  ~Note() {
    run_.seconds = trainee_.seconds();
    run_.steps = trainee_.steps();
    run_.step = trainee_.step();
  }
  Note(const Note&) = delete;
  Note& operator=(const Note&) = delete;

 private:
  BudgetedRun& run_;
  const Trainee& trainee_;
};

// When to evaluate: at the end, at half of it, a quarter, and so on.
std::vector<double> moments(double end, std::size_t points) {
  std::vector<double> at;
  for (std::size_t i = std::max<std::size_t>(points, 1); i-- > 0;)
    at.push_back(std::ldexp(end, -static_cast<int>(i)));
  return at;
}

}  // namespace

BudgetedRun run_for(const Recipe& asked, const TrainSets& sets, const Problem& problem,
                    const Machine& machine, const Budget& budget, const std::atomic<bool>& stop) {
  const Task task{sets, problem, machine, budget, stop};
  const DataView& data = sets.data;
  const std::optional<DataView>& test = sets.test;
  Recipe recipe = asked;
  const bool by_epochs = budget.epochs > 0;
  if (!recipe.newton_alone()) recipe.epochs = by_epochs ? budget.epochs : kUnlimitedEpochs;
  recipe.sought.epochs = false;
  recipe.steps = 0, recipe.seconds = 0;
  BudgetedRun run;
  try {
    if (!by_epochs) {
      recipe.decay = decay_over(recipe, task);
      recipe.seconds = budget.seconds;
    }
    Trainee trainee(recipe, task);
    const std::vector<double> when =
        moments(by_epochs ? static_cast<double>(budget.epochs) : budget.seconds, budget.points);
    for (const double at : when) {
      const std::uint64_t before = trainee.steps();
      const Note note(run, trainee);
      if (by_epochs)
        trainee.train_until_epoch(static_cast<std::uint64_t>(at));
      else
        trainee.train_until(at);
      run.interrupted = stop.load();
      if (run.interrupted) break;
      const bool nothing_new = trainee.steps() == before;
      if (nothing_new && !(at == when.back() && run.curve.empty())) continue;
      const auto on_train = evaluate(trainee.weights(), data, budget.threads, &stop);
      std::optional<Metrics> on_test;
      if (on_train && test) on_test = evaluate(trainee.weights(), *test, budget.threads, &stop);
      run.interrupted = !on_train || (test && !on_test);
      if (run.interrupted) break;
      CurvePoint point{trainee.seconds(), trainee.epochs(), on_train->log_loss, std::nullopt};
      if (on_test) point.test_loss = on_test->log_loss;
      if (!std::isfinite(point.train_loss) || (on_test && !std::isfinite(*point.test_loss)))
        throw DivergenceError("the log-loss is not finite; try a smaller step");
      run.curve.push_back(point);
    }
  } catch (const DivergenceError& error) {
    run.divergence = error.what();
  }
  return run;
}

}  // namespace truemax
