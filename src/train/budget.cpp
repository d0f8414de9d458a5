#include "train/budget.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "core/error.hpp"
#include "evaluate/evaluate.hpp"
#include "train/automatic.hpp"
#include "train/epoch.hpp"
#include "train/plan.hpp"
#include "train/stopwatch.hpp"

namespace truemax {
namespace {

constexpr double kDecays = 50;  // how often the step falls over a budget of seconds

// Raises a flag after so many seconds, or soon after `stop` was raised. The step loop looks at the clock now
// and then itself; where its steps are too long for that, a thread does it, which sleeps meanwhile. Only the
// steady clock has that thread: nobody could sleep until another one shows the time.
class Alarm {
 public:
  Alarm(double seconds, const std::atomic<bool>& stop, const TimeSource& time)
      : stop_(stop),
        time_(time),
        end_(now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(std::min(seconds, kLongest)))) {
    if (!time_) thread_ = std::jthread([this] { wait(); });
  }
  ~Alarm() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  const std::atomic<bool>& flag() const { return flag_; }
  void look() {
    if (stop_.load() || now() >= end_) flag_.store(true);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kLongest = 1e9;  // beyond, a clock would overflow

  Clock::time_point now() const { return time_ ? time_() : Clock::now(); }
  void wait() {
    constexpr auto kLook = std::chrono::milliseconds(20);
    std::unique_lock lock(mutex_);
    while (!over_ && !stop_.load() && Clock::now() < end_)
      changed_.wait_until(lock, std::min(end_, Clock::now() + kLook));
    flag_.store(true);
  }

  const std::atomic<bool>& stop_;
  const TimeSource& time_;
  Clock::time_point end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::atomic<bool> flag_{false};
  std::jthread thread_;  // last: it uses all the others
};

double epochs_of(const TrainState& state, std::uint64_t steps_an_epoch) {
  return static_cast<double>(state.epoch) +
         static_cast<double>(state.step) / static_cast<double>(steps_an_epoch);
}

// Trains until the watch shows so many seconds or so many epochs are done.
class Trainee {
 public:
  Trainee(const TrainOptions& options, const Dataset& data, const Budget& budget,
          const std::atomic<bool>& stop)
      : data_(data),
        tick_(budget.tick),
        time_(budget.time),
        stop_(stop),
        watch_(budget.time),
        options_(chosen(options)),
        steps_(steps_per_epoch(data.size(), options_)),
        plan_(options_, steps_, &watch_) {
    const Running running(watch_);  // W and the tables of a method are part of what it costs
    runner_ = make_epoch_runner(data, options_);
    state_ = make_state(data, options_, &spare_);
  }

  // The end of the budget is kept by the plan; a moment before it is when the alarm says so.
  void train_until(double seconds) {
    const double left = seconds - watch_.seconds();
    if (left <= 0) return;
    std::optional<Alarm> alarm;
    if (seconds != options_.seconds) alarm.emplace(left, stop_, time_);
    const auto look = [&](std::uint64_t) {
      if (tick_) tick_();
      if (alarm) alarm->look();
    };
    const Running running(watch_);
    while (runner_->run(data_, state_, alarm ? alarm->flag() : stop_, look, &plan_))
      if (alarm) alarm->look();
  }
  void train_until_epoch(std::uint64_t epoch) {
    const auto look = [this](std::uint64_t) {
      if (tick_) tick_();
    };
    const Running running(watch_);
    while (state_.epoch < epoch && runner_->run(data_, state_, stop_, look, &plan_)) {
    }
  }
  const TrainState& state() const { return state_; }
  double seconds() const { return watch_.seconds(); }
  double epochs() const { return epochs_of(state_, steps_); }
  std::uint64_t steps() const { return state_.epoch * steps_ + state_.step; }
  double step() const { return options_.step; }

 private:
  // The watch runs while this lives, also where a divergence ends it.
  struct Running {
    explicit Running(Stopwatch& watch) : watch_(watch) { watch_.resume(); }
    ~Running() { watch_.pause(); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    Stopwatch& watch_;
  };

  // What the method finds out by itself is part of what it costs.
  TrainOptions chosen(TrainOptions options) {
    if (!options.automatic()) return options;
    const Running running(watch_);
    choose_shape(data_, options);
    if (options.open.any()) choose_by_trials({data_, nullptr, nullptr}, options, watch_, {}, stop_, &spare_);
    return options;
  }

  const Dataset& data_;
  const std::function<void()>& tick_;
  const TimeSource& time_;
  const std::atomic<bool>& stop_;
  Stopwatch watch_;
  Weights spare_;  // the memory of trials
  TrainOptions options_;
  std::uint64_t steps_;
  std::unique_ptr<EpochRunner> runner_;
  TrainState state_;
  StepPlan plan_;
};

// The decay per epoch that comes to decay^50 over the seconds: how many epochs they hold, a short trial says.
double decay_over(const TrainOptions& options, const Dataset& data, const Budget& budget,
                  const std::atomic<bool>& stop) {
  if (options.decay == 1 || options.schedule != Schedule::decay) return options.decay;
  constexpr double kTrial = 0.1;
  Trainee trial(options, data, budget, stop);
  // The first half touches fresh memory and is slower than what follows.
  trial.train_until(kTrial / 2 * budget.seconds);
  const double seconds = trial.seconds(), epochs = trial.epochs();
  trial.train_until(std::max(kTrial * budget.seconds, 1.5 * seconds));
  const double rate = (trial.epochs() - epochs) / (trial.seconds() - seconds);
  if (!(rate > 0)) return options.decay;  // stopped, or steps as long as the trial
  const double decays = kDecays / (rate * budget.seconds);
  return std::pow(options.decay, std::min(decays, kDecays));
}

// What a run has done is noted also where it diverged.
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

// When to evaluate: the end, and before it each time half as much was done.
std::vector<double> moments(double end, std::size_t points) {
  std::vector<double> at;
  for (std::size_t i = std::max<std::size_t>(points, 1); i-- > 0;)
    at.push_back(std::ldexp(end, -static_cast<int>(i)));
  return at;
}

}  // namespace

BudgetedRun run_for(const TrainOptions& asked, const Dataset& data, const Dataset* test, const Budget& budget,
                    const std::atomic<bool>& stop) {
  TrainOptions options = asked;
  options.threads = 1;
  options.steps = 0, options.seconds = 0;
  const bool by_epochs = budget.epochs > 0;
  options.epochs = by_epochs ? budget.epochs : kUnlimitedEpochs;
  options.open.epochs = false;
  BudgetedRun run;
  try {
    if (!by_epochs) {
      options.decay = decay_over(options, data, budget, stop);
      options.seconds = budget.seconds;
    }
    Trainee trainee(options, data, budget, stop);
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
      const auto on_train = evaluate(trainee.state().weights, data, budget.threads, &stop);
      std::optional<Metrics> on_test;
      if (on_train && test != nullptr)
        on_test = evaluate(trainee.state().weights, *test, budget.threads, &stop);
      run.interrupted = !on_train || (test != nullptr && !on_test);
      if (run.interrupted) break;
      CurvePoint point{trainee.seconds(), trainee.epochs(), on_train->log_loss, std::nullopt};
      if (on_test) point.test_loss = on_test->log_loss;
      if (!std::isfinite(point.train_loss) || (on_test && !std::isfinite(*point.test_loss)))
        throw DivergenceError("the log-loss is no finite number; try a smaller step");
      run.curve.push_back(point);
    }
  } catch (const DivergenceError& error) {
    run.divergence = error.what();
  }
  return run;
}

}  // namespace truemax
