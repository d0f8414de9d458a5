// The trainer: when it evaluates, what observers see, how it ends.
#include "train/trainer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "train/fit.hpp"
#include "train/require.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

// Records calls, and can raise `stop` at an epoch or after some steps.
struct Recorder final : TrainObserver {
  std::vector<EvaluationRecord> records;
  std::vector<std::uint64_t> steps;
  int evaluations_watched = 0;
  std::atomic<bool>* stop = nullptr;
  std::uint64_t stop_at_epoch = ~0ULL, stop_at_step = ~0ULL;

  void stepped(std::uint64_t /*epoch*/, std::uint64_t done, std::uint64_t /*of*/,
               double /*seconds*/) override {
    steps.push_back(done);
    if (stop != nullptr && done >= stop_at_step) *stop = true;
  }
  void evaluating(std::size_t rows, std::size_t of) override { evaluations_watched += rows == of; }
  void evaluated(const EvaluationRecord& record) override {
    records.push_back(record);
    if (stop != nullptr && record.epoch == stop_at_epoch) *stop = true;
  }
  std::vector<std::uint64_t> epochs() const {
    std::vector<std::uint64_t> list;
    for (const auto& r : records) list.push_back(r.epoch);
    return list;
  }
};

struct Trained {
  RunState state;
  TrainOutcome outcome;
  Recorder seen;
};

Trained train_once(const Dataset& data, const std::optional<DataView>& test, const Recipe& options) {
  Trained r;
  r.state = make_state(data, options);
  Stopwatch watch;
  watch.resume();
  const std::atomic<bool> stop{false};
  TrainObserver* observers[] = {&r.seen};
  const TrainSets sets{data, test};
  r.outcome = train(sets, planned(sets, options), r.state, watch, observers, stop);
  return r;
}

TEST(Train, EvaluatesOnScheduleAndAtTheEnd) {
  using Epochs = std::vector<std::uint64_t>;
  const Dataset data = random_data({});
  struct Case {
    std::uint64_t epochs, every;
    Epochs expected;
  };
  for (const Case& c : {Case{5, 2, {2, 4, 5}}, Case{6, 3, {3, 6}}, Case{3, 1, {1, 2, 3}}, Case{4, 0, {4}},
                        Case{4, 100, {4}}, Case{0, 1, {0}}, Case{1, 1, {1}}}) {
    Recipe options = options_of("implicit", 1);
    options.epochs = c.epochs, options.eval_every = c.every;
    const Trained r = train_once(data, {}, options);
    EXPECT_EQ(r.seen.epochs(), c.expected) << c.epochs << ' ' << c.every;
    EXPECT_EQ(r.seen.evaluations_watched, static_cast<int>(c.expected.size()));
    EXPECT_FALSE(r.outcome.interrupted);
    EXPECT_EQ(r.outcome.epochs, c.epochs);
    EXPECT_EQ(r.outcome.steps, c.epochs * data.size());
    ASSERT_TRUE(r.outcome.last);
    EXPECT_EQ(r.outcome.last->epoch, c.epochs);
    EXPECT_FALSE(r.outcome.last->test);
  }
}

TEST(Train, EvaluatesTheCurrentState) {
  const Dataset data = random_data({}), test = random_data({.rows = 80, .seed = 2});
  Recipe options = options_of("umax", 2);
  options.epochs = 3, options.eval_every = 1;
  const Trained r = train_once(data, DataView(test), options);
  ASSERT_EQ(r.seen.records.size(), 3U);
  EXPECT_EQ(r.seen.records.back().train->log_loss, evaluate(r.state.weights, data, 1)->log_loss);
  EXPECT_EQ(r.seen.records.back().test->log_loss, evaluate(r.state.weights, test, 1)->log_loss);
  EXPECT_NE(r.seen.records[0].train->log_loss, r.seen.records[2].train->log_loss);
  EXPECT_LE(r.seen.records[0].train_seconds, r.seen.records[2].train_seconds);
}

TEST(Train, EvaluationDoesNotChangeTheModel) {
  const Dataset data = random_data({});
  for (const char* method : {"implicit", "umax"}) {
    Recipe options = options_of(method, 1);
    options.epochs = 4, options.eval_every = 1;
    const auto often = bits_of(train_once(data, {}, options).state);
    options.eval_every = 0;
    EXPECT_EQ(bits_of(train_once(data, {}, options).state), often);
    options.threads = 3;
    EXPECT_EQ(bits_of(train_once(data, {}, options).state), often);
    EXPECT_EQ(bits_of(run_epochs(data, options)), often);
  }
}

TEST(Train, StopsBetweenStepsAndResumesExactly) {
  const Dataset data = random_data({.rows = 30000, .classes = 25});
  for (const char* method : {"implicit", "umax"}) {
    Recipe options = options_of(method, 1);
    options.epochs = 2, options.eval_every = 0;
    const auto whole = bits_of(train_once(data, {}, options).state);
    RunState state = make_state(data, options);
    std::atomic<bool> stop{false};
    Recorder seen;
    seen.stop = &stop, seen.stop_at_step = 15000;
    TrainObserver* observers[] = {&seen};
    Stopwatch watch;
    watch.resume();
    const TrainOutcome first = train({data}, planned(data, options), state, watch, observers, stop);
    EXPECT_TRUE(first.interrupted);
    EXPECT_FALSE(first.last);
    EXPECT_EQ(first.epochs, 0U);
    EXPECT_EQ(first.steps, state.step);
    EXPECT_EQ(first.steps, seen.steps.back());
    EXPECT_TRUE(seen.records.empty());
    stop = false, seen.stop = nullptr;
    watch.resume();
    const TrainOutcome second = train({data}, planned(data, options), state, watch, observers, stop);
    EXPECT_FALSE(second.interrupted);
    EXPECT_EQ(bits_of(state), whole);
  }
}

TEST(Train, StopDuringEvaluationInterrupts) {
  const Dataset data = random_data({});
  Recipe options = options_of("implicit", 1);
  options.epochs = 5, options.eval_every = 1;
  RunState state = make_state(data, options);
  std::atomic<bool> stop{false};
  Recorder seen;
  seen.stop = &stop, seen.stop_at_epoch = 2;
  TrainObserver* observers[] = {&seen};
  Stopwatch watch;
  watch.resume();
  const TrainOutcome outcome = train({data}, planned(data, options), state, watch, observers, stop);
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_EQ(outcome.epochs, 2U);
  EXPECT_EQ(outcome.steps, 2 * data.size());
  stop = true;
  RunState untouched = make_state(data, options);
  const auto before = bits_of(untouched);
  EXPECT_TRUE(train({data}, planned(data, options), untouched, watch, {}, stop).interrupted);
  EXPECT_EQ(bits_of(untouched), before);
}

TEST(Train, ReportsDivergenceAndKeepsTheFiniteState) {
  const Dataset data = random_data({.scale = 30});
  Recipe options = options_of("umax", 5);
  options.step = 1e4, options.decay = 1, options.epochs = 20, options.eval_every = 0,
  options.rule.delta = 1e6;
  const Trained r = train_once(data, {}, options);
  EXPECT_NE(r.outcome.divergence.find("umax diverged"), std::string::npos) << r.outcome.divergence;
  EXPECT_FALSE(r.outcome.interrupted);
  EXPECT_FALSE(r.outcome.last);
  EXPECT_LT(r.outcome.epochs, 20U);
  EXPECT_EQ(r.outcome.steps, r.state.epoch * data.size() + r.state.step);
  EXPECT_TRUE(std::isfinite(r.state.weights.largest()));
}

// A state that is already past the last epoch has nothing left to do.
TEST(Train, EndsAtOnceIfEpochsAreAlreadyDone) {
  const Dataset data = random_data({.rows = 20000});
  Recipe options = options_of("implicit", 1);
  RunState state = run_epochs(data, options);
  options.epochs = 1;
  std::atomic<bool> stop{false};
  Recorder seen;
  seen.stop = &stop, seen.stop_at_step = 1;  // else a failure would never end
  TrainObserver* observers[] = {&seen};
  Stopwatch watch;
  watch.resume();
  EXPECT_FALSE(train({data}, planned(data, options), state, watch, observers, stop).interrupted);
  EXPECT_EQ(state.epoch, 2U);
}

TEST(Stopwatch, CountsOnlyWhileItRuns) {
  FakeClock clock;
  Stopwatch watch(clock.source());
  EXPECT_EQ(watch.seconds(), 0);
  watch.resume();
  clock.add(2);
  EXPECT_EQ(watch.seconds_running(), 2);
  EXPECT_EQ(watch.seconds(), 0);  // only finished intervals
  watch.pause();
  EXPECT_EQ(watch.seconds(), 2);
  clock.add(4);
  EXPECT_EQ(watch.seconds(), 2);
  watch.resume();
  clock.add(8);
  EXPECT_EQ(watch.seconds_running(), 10);
  watch.pause();
  EXPECT_EQ(watch.seconds(), 10);
}

TEST(Stopwatch, DefaultsToTheSteadyClock) {
  using Clock = std::chrono::steady_clock;
  Stopwatch watch;
  const auto before = Clock::now();
  watch.resume();
  const auto inner = Clock::now();
  while (Clock::now() - inner < std::chrono::milliseconds(1)) {
  }
  const auto inner_end = Clock::now();
  watch.pause();
  const std::chrono::duration<double> least = inner_end - inner, most = Clock::now() - before;
  EXPECT_GE(watch.seconds(), least.count());
  EXPECT_LE(watch.seconds(), most.count());
}

// An evaluation that takes hours costs no training time.
TEST(Train, TimeExcludesEvaluation) {
  struct Slow final : TrainObserver {
    FakeClock* clock = nullptr;
    std::vector<double> seconds;
    void evaluating(std::size_t /*rows*/, std::size_t /*of*/) override { clock->add(10000); }
    void evaluated(const EvaluationRecord& record) override { seconds.push_back(record.train_seconds); }
  };
  const Dataset data = random_data({});
  Recipe options = options_of("implicit", 1);
  options.epochs = 4, options.eval_every = 1;
  FakeClock clock(0.001);
  Slow seen;
  seen.clock = &clock;
  RunState state = make_state(data, options);
  Stopwatch watch(clock.source());
  watch.resume();
  const std::atomic<bool> stop{false};
  TrainObserver* observers[] = {&seen};
  const TrainOutcome outcome = train({data}, planned(data, options), state, watch, observers, stop);
  EXPECT_GE(clock.seconds(), 40000);
  EXPECT_LT(outcome.train_seconds, 1);
  ASSERT_EQ(seen.seconds.size(), 4U);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_GT(seen.seconds[i], seen.seconds[i - 1]);
}

TEST(Recipe, RefuseUnknownMethodsAndTooManyRows) {
  const auto message = [](const Recipe& options) {
    try {
      require_possible(options);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(options_of("implicit", 1)), "");
  EXPECT_EQ(message(options_of("umax", 1000)), "");
  Recipe rows = options_of("implicit", 1);
  rows.rows_per_step = 1024;
  EXPECT_EQ(message(rows), "");
  rows.rows_per_step = 1025;
  EXPECT_NE(message(rows).find("--rows-per-step 1025: the method implicit takes from 1 to 1024 rows"),
            std::string::npos);
  EXPECT_NE(message(options_of("nonsense", 1)).find("--method nonsense"), std::string::npos);
}

}  // namespace
}  // namespace truemax
