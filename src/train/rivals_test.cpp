// Rows that remember the blocks of their best classes.
#include "train/rivals.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/error.hpp"
#include "evaluate/evaluate.hpp"
#include "train/step_inputs.hpp"
#include "train/test_support.hpp"
#include "weights/pass.hpp"

namespace truemax {
namespace {

Recipe with_rivals(std::uint64_t rivals, std::uint64_t epochs) {
  Recipe options = options_of("prox", 16, Visit::shuffle);
  options.draw = "blocks", options.draws.rivals = rivals;
  options.schedule = Schedule::linear;
  options.step = 5, options.epochs = epochs;
  return options;
}

TEST(RivalPlan, EveryRowLearnsOnceInACycle) {
  for (const std::size_t rows : {1U, 10U, 97U, 100U})
    for (const std::size_t slice : {1U, 7U, 50U, 100U})
      for (const std::uint64_t every : {1U, 3U}) {
        if (slice > rows) continue;
        const RivalPlan plan(rows, slice, every);
        std::vector<int> times(rows, 0);
        EXPECT_TRUE(plan.before(0).empty());  // W is zero, or not ours yet
        for (std::uint64_t epoch = 1; epoch <= every * plan.slices(); ++epoch) {
          const RivalSlice now = plan.before(epoch);
          EXPECT_EQ(now.empty(), epoch % every != 0);
          for (std::size_t r = now.first; r < now.end; ++r) ++times[r];
        }
        EXPECT_EQ(times, std::vector<int>(rows, 1));
      }
}

TEST(Rivals, AreTheBlocksOfTheBestClasses) {
  const Dataset data = random_data({.rows = 200, .classes = 320, .features = 40, .weights = true});
  const Recipe options = with_rivals(3, 1);
  const RivalPlan plan = rival_plan(Told(data, options).facts());
  RunState state = make_state(data, options);
  StepLoop loop(data, planned(data, options));
  const std::atomic<bool> stop{false};
  loop.run(state, stop, {});
  Csr scratch;
  const PassResult best =
      softmax_pass(state.weights, DataView(data).slice(0, 200, scratch).x(), {.top = 7, .tie_rank = {}});
  // One step of the next epoch, which starts with a pass.
  Recipe longer = options;
  longer.epochs = 2, longer.steps = loop.steps_per_epoch() + 1;
  StepSchedule one_more(longer, loop.steps_per_epoch());
  StepLoop(data, planned(data, longer)).run(state, stop, {}, &one_more);
  const RivalSlice slice = plan.before(1);
  ASSERT_FALSE(slice.empty());
  std::size_t checked = 0;
  for (std::size_t i = 0; i < data.label.size(); ++i) {
    const std::size_t row = number_of(data.example_row[i]);
    const auto found = std::span(state.draw_memory).subspan(i * 3, 3);
    if (row < slice.first || row >= slice.end) {
      EXPECT_EQ(found[0], kUnseenClass);
      continue;
    }
    std::vector<ClassId> wanted;
    for (std::size_t t = 0; t < 7 && wanted.size() < 3; ++t) {
      const ClassId b = best.best[row * 7 + t] / 16;
      if (b != data.label[i] / 16 && std::find(wanted.begin(), wanted.end(), b) == wanted.end())
        wanted.push_back(b);
    }
    wanted.resize(3, kUnseenClass);
    EXPECT_EQ(std::vector<ClassId>(found.begin(), found.end()), wanted) << i;
    ++checked;
  }
  EXPECT_GT(checked, 0U);
}

TEST(Rivals, ThreadsDoNotChangeTheResult) {
  const Dataset data = random_data({.rows = 300, .classes = 320, .features = 40, .weights = true});
  Recipe options = with_rivals(4, 6);
  options.ridge = 0.5, options.intercept = true;
  const auto alone = bits_of(run_epochs(data, options));
  for (const std::uint64_t threads : {2U, 3U}) {
    options.threads = threads;
    EXPECT_EQ(bits_of(run_epochs(data, options)), alone) << threads;
  }
}

TEST(Rivals, LowerTheLossOfTheSameEpochs) {
  const Dataset data = random_data({.rows = 400, .classes = 640, .features = 60});
  const auto loss = [&](std::uint64_t rivals) {
    return evaluate(run_epochs(data, with_rivals(rivals, 20)).weights, data, 1)->log_loss;
  };
  EXPECT_LT(loss(4), 0.9 * loss(0));
}

// The ridge of a class is divided among the steps that bring it, which are more with rivals.
TEST(Rivals, LeaveTheOptimumOfTheRidgeWhereItIs) {
  const Dataset data = random_data({.rows = 200, .classes = 96, .features = 12});
  const auto objective = [&](std::uint64_t rivals) {
    Recipe options = with_rivals(rivals, 400);
    options.ridge = 1;
    const RunState state = run_epochs(data, options);
    double square = 0;
    for (ClassId k = 0; k < 96; ++k) square += state.weights.squared_norm(k);
    return evaluate(state.weights, data, 1)->log_loss + square / 2 / 200;
  };
  const double with = objective(3), without = objective(0);
  EXPECT_NEAR(with, without, 0.002 * without);
}

TEST(Rivals, AreForStepsOfOneRow) {
  const Dataset data = random_data({.rows = 50, .classes = 64});
  Recipe options = with_rivals(2, 1);
  options.rows_per_step = 4;
  EXPECT_THROW(draw_for(options, facts_of(data)), UserError);
}

}  // namespace
}  // namespace truemax
