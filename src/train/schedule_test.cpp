// Step sizes and budgets of a plan, and that a run can be repeated without its clock.
#include "train/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "train/resolve.hpp"
#include "train/slow_trainer.hpp"
#include "train/test_support.hpp"
#include "train/trainer.hpp"

namespace truemax {
namespace {

// The step size of every step of a run, asked as the step loop does: in batches of at most `batch` steps
// within an epoch.
std::vector<double> step_sizes(StepSchedule plan, std::uint64_t epochs, std::uint64_t epoch_steps,
                               std::uint64_t batch) {
  std::vector<double> sizes;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch)
    for (std::uint64_t step = 0; step < epoch_steps;) {
      const StepSchedule::Leg leg = plan.next(epoch, step);
      if (leg.steps == 0) return sizes;
      const std::uint64_t count = std::min({leg.steps, batch, epoch_steps - step});
      sizes.insert(sizes.end(), count, leg.step);
      step += count;
    }
  return sizes;
}

TEST(StepSchedule, DecaysByAFactorPerEpoch) {
  Recipe options;
  options.step = 3, options.decay = 0.5, options.epochs = 4;
  const auto sizes = step_sizes(StepSchedule(options, 10), 4, 10, 7);
  ASSERT_EQ(sizes.size(), 40U);
  for (std::size_t t = 0; t < 40; ++t)
    EXPECT_EQ(sizes[t], 3 * std::pow(0.5, std::floor(static_cast<double>(t) / 10)));
}

TEST(StepSchedule, LinearDecayIsIndependentOfBatches) {
  Recipe options;
  options.schedule = Schedule::linear, options.step = 2;
  for (const std::uint64_t epochs : {1U, 3U, 50U})
    for (const std::uint64_t epoch_steps : {1U, 7U, 100U, 399U}) {
      options.epochs = epochs;
      const auto one = step_sizes(StepSchedule(options, epoch_steps), epochs, epoch_steps, 1);
      EXPECT_EQ(step_sizes(StepSchedule(options, epoch_steps), epochs, epoch_steps, 128), one);
      const auto total = static_cast<double>(epochs * epoch_steps);
      ASSERT_EQ(one.size(), epochs * epoch_steps);
      for (std::size_t t = 0; t < one.size(); ++t) {
        const double even = 2 * (1 - static_cast<double>(t) / total);
        EXPECT_GE(one[t], std::max(even, 0.02) - 1e-12) << t;
        EXPECT_LE(one[t], std::max(even + 2.0 / 200, 0.02) + 1e-12) << t;  // it is updated 200 times
      }
    }
}

TEST(StepSchedule, DecaysLinearlyOverItsSteps) {
  Recipe options;
  options.schedule = Schedule::linear, options.epochs = kUnlimitedEpochs, options.steps = 25;
  StepSchedule plan(options, 10);
  EXPECT_FALSE(plan.used_up(2, 4));
  EXPECT_TRUE(plan.used_up(2, 5));
  EXPECT_EQ(plan.next(2, 5).steps, 0U);
  const auto sizes = step_sizes(plan, 100, 10, 128);
  ASSERT_EQ(sizes.size(), 25U);
  EXPECT_EQ(sizes.front(), options.step);
  EXPECT_NEAR(sizes.back(), options.step / 25, 1e-12);
}

// A search before the fit takes some of the seconds, but none of the step.
TEST(StepSchedule, DecaysLinearlyOverTheSecondsThatTheSearchLeaves) {
  Recipe options;
  options.schedule = Schedule::linear, options.epochs = kUnlimitedEpochs, options.step = 2;
  options.seconds = 10;
  FakeClock clock;
  Stopwatch watch(clock.source());
  watch.resume();
  clock.add(6);
  StepSchedule plan(options, 1000, &watch, nullptr, 6);
  EXPECT_EQ(plan.next(0, 0).step, 2);
  clock.add(2);
  EXPECT_NEAR(plan.next(0, 500).step, 1, 1e-12);
  clock.add(1);
  EXPECT_NEAR(plan.next(0, 600).step, 0.5, 1e-12);
  clock.add(1);
  EXPECT_EQ(plan.next(0, 700).steps, 0U);
}

TEST(StepSchedule, ReplaysARecordingWithoutAClock) {
  Recipe options;
  options.schedule = Schedule::linear, options.epochs = kUnlimitedEpochs, options.seconds = 1e-9;
  const Recording recording{.steps = 8, .segments = {{0, 0.5}, {3, 0.25}, {7, 0.125}}};
  const Stopwatch watch;  // would be over if it were read
  const StepSchedule plan(options, 5, &watch, &recording);
  EXPECT_FALSE(plan.has_clock());
  EXPECT_EQ(step_sizes(plan, 9, 5, 128), (std::vector{0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125}));
  EXPECT_EQ(plan.segments(), recording.segments);
}

// Without u: if time runs out while a method recomputes it, some rows have the new one, which no step used.
std::vector<std::uint64_t> weight_bits(RunState state) {
  state.rows.clear();
  return bits_of(state);
}

// Steps of a batch are solved together, so a replay must have the same batches.
TEST(Seconds, WithEpochsBatchesEndAsInTheReplay) {
  Recipe options;
  options.schedule = Schedule::linear, options.epochs = 8, options.seconds = 1e6;
  const auto batches = [](StepSchedule& plan, FakeClock* clock) {
    std::vector<std::uint64_t> lengths;
    for (std::uint64_t done = 0; done < 8 * 777;) {
      const StepSchedule::Leg leg = plan.next(done / 777, done % 777);
      if (leg.steps == 0) break;
      lengths.push_back(std::min({leg.steps, std::uint64_t{16}, 777 - done % 777}));
      done += lengths.back();
      if (clock != nullptr) clock->add(1700);  // at first further along than the steps
    }
    return lengths;
  };
  FakeClock clock;
  Stopwatch watch(clock.source());
  watch.resume();
  StepSchedule timed(options, 777, &watch);
  const auto lengths = batches(timed, &clock);
  ASSERT_GT(lengths.size(), 100U);
  const Recording recording{std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0}),
                            timed.segments()};
  StepSchedule repeated(options, 777, nullptr, &recording);
  EXPECT_EQ(batches(repeated, nullptr), lengths);
}

struct Timed {
  RunState state;
  TrainOutcome outcome;
};

// A millisecond passes each time the clock is read, once per batch.
Timed train_timed(const Dataset& data, const Recipe& options, const Recording* recording = nullptr) {
  Timed r;
  FakeClock clock(0.001);
  Stopwatch watch(clock.source());
  watch.resume();
  r.state = make_state(data, options);
  const std::atomic<bool> stop{false};
  r.outcome = train({data}, planned(data, options), r.state, watch, {}, stop, {recording, ""});
  return r;
}

TEST(Seconds, AreKeptByEveryMethodAndReplayExactly) {
  const Dataset data = random_data({.rows = 3000, .classes = 40, .features = 60});
  for (const MethodInfo* info : methods())
    for (const Schedule schedule : {Schedule::decay, Schedule::linear}) {
      Recipe options = options_of(std::string(info->name), 1);
      options.epochs = kUnlimitedEpochs, options.eval_every = 0, options.seconds = 0.05;
      options.step = 1e-4, options.schedule = schedule;
      Timed first = train_timed(data, options);
      ASSERT_EQ(first.outcome.divergence, "") << info->name;
      EXPECT_FALSE(first.outcome.interrupted);
      if (!info->all_rows) {  // which ends where no step is left to take
        EXPECT_GE(first.outcome.train_seconds, 0.05) << info->name;
      }
      EXPECT_LT(first.outcome.train_seconds, 0.055) << info->name;
      ASSERT_GT(first.outcome.steps, 0U) << info->name;
      ASSERT_TRUE(first.outcome.last);
      EXPECT_EQ(first.outcome.last->steps, first.outcome.steps);
      EXPECT_EQ(first.outcome.segments.empty(), schedule == Schedule::decay);
      const Recording recording{first.outcome.steps, first.outcome.segments};
      const auto bits = weight_bits(std::move(first.state));
      EXPECT_EQ(weight_bits(train_timed(data, options, &recording).state), bits) << info->name;
      if (schedule == Schedule::linear) continue;
      options.seconds = 0, options.steps = first.outcome.steps;
      EXPECT_EQ(weight_bits(train_timed(data, options).state), bits) << info->name;
    }
}

TEST(Seconds, RecordEveryUpdateOfTheLinearStep) {
  Recipe options;
  options.schedule = Schedule::linear, options.step = 2, options.epochs = kUnlimitedEpochs;
  options.seconds = 1e6;
  FakeClock clock;
  Stopwatch watch(clock.source());
  watch.resume();
  StepSchedule plan(options, 70, &watch);
  std::vector<double> sizes;
  double seconds = 0;
  for (std::uint64_t done = 0;; ++done, seconds += 999, clock.add(999)) {
    const StepSchedule::Leg leg = plan.next(done / 70, done % 70);
    ASSERT_EQ(plan.used_up(done / 70, done % 70), leg.steps == 0);
    if (leg.steps == 0) break;
    const double even = 2 * (1 - seconds / 1e6);
    EXPECT_GE(leg.step, std::max(even, 0.02) - 1e-4);
    EXPECT_LE(leg.step, std::max(even + 2.0 / 200, 0.02) + 1e-4);
    sizes.push_back(leg.step);
  }
  EXPECT_GE(seconds, 1e6);
  EXPECT_GE(plan.segments().size(), 199U);
  EXPECT_LE(plan.segments().size(), 200U);
  const Recording recording{sizes.size(), plan.segments()};
  EXPECT_EQ(step_sizes(StepSchedule(options, 70, nullptr, &recording), 100, 70, 128), sizes);
}

// If steps run out before the time, the step falls with them.
TEST(Seconds, WithEpochsTheFurtherOneSetsTheStep) {
  Recipe options;
  options.schedule = Schedule::linear, options.epochs = 4, options.seconds = 1e6;
  FakeClock clock;
  Stopwatch watch(clock.source());
  watch.resume();
  const auto sizes = step_sizes(StepSchedule(options, 100, &watch), 4, 100, 128);
  options.seconds = 0;
  EXPECT_EQ(sizes, step_sizes(StepSchedule(options, 100), 4, 100, 128));
  options.seconds = 1e6;
  clock.add(5e5);
  EXPECT_EQ(StepSchedule(options, 100, &watch).next(0, 0).step, options.step / 2);
}

TEST(Seconds, RunAlsoEndsByEpochsOrSteps) {
  const Dataset data = random_data({});
  Recipe options = options_of("implicit", 1);
  options.epochs = 3, options.seconds = 1000, options.eval_every = 1;
  EXPECT_EQ(train_timed(data, options).outcome.steps, 3 * data.size());
  options.steps = data.size() + 7;
  const Timed r = train_timed(data, options);
  EXPECT_EQ(r.outcome.steps, data.size() + 7);
  EXPECT_EQ(r.outcome.epochs, 1U);
  EXPECT_EQ(r.state.step, 7U);
  EXPECT_EQ(r.outcome.last->steps, data.size() + 7);
}

TEST(Seconds, SpentBeforeTheFirstStepLeaveTheStart) {
  const Dataset data = random_data({});
  Recipe options = options_of("raman", 1);
  options.seconds = 1e-9;
  const Timed r = train_timed(data, options);
  EXPECT_EQ(r.outcome.steps, 0U);
  EXPECT_FALSE(r.outcome.interrupted);
  EXPECT_NEAR(r.outcome.last->train->log_loss, std::log(12.0), 1e-9);
}

TEST(Steps, OfManyRowsMatchTheSlowTrainer) {
  const Dataset data = random_data({.rows = 64});
  for (const std::uint64_t rows : {1U, 5U}) {
    Recipe options = options_of("implicit", 2);
    options.rows_per_step = rows, options.epochs = 3, options.schedule = Schedule::linear;
    options.steps = 31;
    const RunState fast = train_timed(data, options).state;
    const SlowState slow = slow_epochs(data, options);
    std::vector<float> of_class(fast.weights.features());
    for (ClassId k = 0; k < fast.weights.classes(); ++k) {
      fast.weights.copy_class(k, of_class);
      for (std::size_t f = 0; f < of_class.size(); ++f)
        EXPECT_NEAR(static_cast<double>(of_class[f]), slow.w[k][f], 1e-5);
    }
  }
}

TEST(Recipe, BudgetLiftsTheDefaultEpochLimit) {
  const auto completed = [](Asked asked, bool given) {
    asked.method = "implicit";
    if (given) asked.epochs = 50, asked.eval_every = 10;
    return resolve_reading(asked, {}, {}).draft;
  };
  Asked seconds, steps;
  seconds.seconds = 1, steps.steps = 1;
  EXPECT_EQ(completed({}, false).epochs, 50U);
  EXPECT_EQ(completed({}, false).eval_every, 10U);
  EXPECT_EQ(completed(seconds, false).epochs, kUnlimitedEpochs);
  EXPECT_EQ(completed(steps, false).epochs, kUnlimitedEpochs);
  EXPECT_EQ(completed(seconds, true).epochs, 50U);
  EXPECT_EQ(completed(steps, true).epochs, 50U);
  EXPECT_EQ(completed(seconds, false).eval_every, 0U);
  EXPECT_EQ(completed(seconds, true).eval_every, 10U);
}

}  // namespace
}  // namespace truemax
