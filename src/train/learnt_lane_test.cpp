// Learnt features against the formulas in double, on extreme input, and in whole runs.
#include "train/learnt_lane.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"
#include "train/evaluate_state.hpp"
#include "train/learnt_test_support.hpp"
#include "train/require.hpp"
#include "train/trainer.hpp"

namespace truemax {
namespace {

TEST(LearntOracle, GradientAgreesWithDifferences) {
  const Dataset made = random_data({.rows = 30, .classes = 6, .features = 8, .weights = true});
  const DataView data(made);
  const Recipe options = learnt_options(5, 4, 3);
  RunState state = make_state(data, options);
  move_classes(state);
  SlowLearnt slow(data, options, state);
  const std::vector<ExampleId> rows{ExampleId{0}, ExampleId{3}, ExampleId{4}, ExampleId{11}, ExampleId{20}};
  const std::vector<ClassId> drawn{0, 2, 3, 5};
  const std::vector<double> weight{1, 1.5, 2, 3};
  std::vector<double> u;
  const SlowLearnt::Gradient g = slow.gradient(rows, drawn, weight, 0.3, u);
  const auto difference = [&](double& at) {
    constexpr double kMove = 1e-5;
    const double before = at;
    at = before + kMove;
    const double up = slow.loss(rows, drawn, weight, u);
    at = before - kMove;
    const double down = slow.loss(rows, drawn, weight, u);
    at = before;
    return (up - down) / (2 * kMove);
  };
  for (std::size_t c = 0; c < options.hidden; ++c) {
    for (std::size_t f = 0; f < slow.e.size(); ++f) EXPECT_NEAR(difference(slow.e[f][c]), g.e[f][c], 1e-8);
    for (std::size_t k = 0; k < slow.w.size(); ++k) EXPECT_NEAR(difference(slow.w[k][c]), g.w[k][c], 1e-8);
  }
  for (std::size_t k = 0; k < slow.b.size(); ++k) EXPECT_NEAR(difference(slow.b[k]), g.b[k], 1e-8);
}

TEST(LearntLane, TakesTheStepsOfTheFormulas) {
  struct Case {
    std::uint64_t rows, classes, hidden;
    const char* draw;
    double ridge;
    bool weights, intercept, ridge_intercept;
  };
  for (const Case& c :
       {Case{1, 3, 5, "frequency", 0, false, true, false}, Case{7, 4, 33, "frequency", 3, true, true, true},
        Case{64, 20, 16, "uniform", 0.5, true, false, false}, Case{20, 12, 8, "all", 0, false, true, false},
        Case{9, 4, 4, "blocks", 1, true, true, false}}) {
    SCOPED_TRACE(std::string(c.draw) + " rows " + std::to_string(c.rows));
    const Dataset made = random_data({.rows = 100, .classes = 40, .features = 12, .weights = c.weights});
    Recipe options = learnt_options(c.rows, c.classes, c.hidden);
    options.draw = c.draw, options.ridge = c.ridge, options.epochs = 1;
    options.intercept = options.start_at_frequencies = c.intercept;
    options.ridge_intercept = c.ridge_intercept;
    expect_the_steps_of_the_formulas(DataView(made), options);
  }
}

TEST(LearntLane, HasTheSameBitsForAnyNumberOfThreads) {
  const Dataset made = random_data({.rows = 300, .classes = 50, .features = 40, .weights = true});
  const DataView data(made);
  Recipe options = learnt_options(64, 20, 33);
  options.ridge = 0.5;
  const RunState one = run_epochs(data, options);
  for (const std::uint64_t threads : {2U, 5U}) {
    options.threads = threads;
    EXPECT_EQ(bits_of(run_epochs(data, options)), bits_of(one)) << threads << " threads";
  }
}

TEST(LearntLane, PublishesTheWeightsItKeeps) {
  const Dataset made = random_data({.rows = 100, .classes = 21});
  const DataView data(made);
  const Recipe options = learnt_options(10, 5);
  const RunState state = run_epochs(data, options);
  std::vector<float> of_class(options.hidden);
  for (ClassId k = 0; k < 21; ++k) {
    state.weights.copy_class(k, of_class);
    for (std::size_t c = 0; c < options.hidden; ++c) EXPECT_EQ(of_class[c], state.learnt.classes.row(k)[c]);
    EXPECT_EQ(state.weights.intercept()[k], state.learnt.intercept[k]);
  }
}

TEST(LearntLane, FallsFarBelowTheClassFrequencies) {
  const Dataset made = random_data({.rows = 600, .classes = 30, .features = 60});
  const DataView data(made);
  Recipe options = learnt_options(32, 30, 16);
  options.draw = "all", options.epochs = 60, options.schedule = Schedule::linear;
  const RunState state = run_epochs(data, options);
  const std::atomic<bool> stop{false};
  const auto learnt = evaluate({}, 1, state, data, 1, &stop);
  EXPECT_LT(learnt->log_loss, 0.5 * evaluate_class_frequencies(data).log_loss);
}

TEST(LearntLane, StaysFiniteOrStopsAtAnyStepAndScale) {
  for (const double scale : {1e-30, 1e-3, 1.0, 1e7, 1e30})
    for (const double step : {1e-12, 0.01, 1.0, 1e3, 1e15})
      for (const double ridge : {0.0, 1e15})
        for (const double rho : {1e-12, 1.0}) {
          SCOPED_TRACE(testing::Message() << "scale " << scale << " step " << step << " ridge " << ridge);
          const Dataset made = random_data({.rows = 60, .classes = 20, .scale = scale});
          const DataView data(made);
          Recipe options = learnt_options(8, 5);
          options.step = step, options.ridge = ridge, options.rule.rho = rho, options.epochs = 3;
          Fit fit(data, planned(data, options), make_state(data, options));
          const std::atomic<bool> stop{false};
          const Fit::End end = fit.run({}, stop);
          EXPECT_TRUE(end == Fit::End::used_up || end == Fit::End::diverged);
          const RunState& state = fit.state();
          for (const Embedding* table : {&state.learnt.tables.features, &state.learnt.classes})
            for (const float v : table->numbers) ASSERT_TRUE(std::isfinite(v));
          for (const RowState& row : state.rows) ASSERT_TRUE(std::isfinite(row.u) && row.u >= 0);
          const auto metrics = evaluate({}, 1, state, data, 1, &stop);
          ASSERT_TRUE(metrics && std::isfinite(metrics->log_loss));
        }
}

#if !defined(__SANITIZE_THREAD__)  // lock-free steps race by nature
// Averaged over seeds, the log-loss is that of ordered runs within their spread; and they end as ordered runs
// do.
TEST(LearntLane, LockFreeReachesTheLossOfOrderedRuns) {
  const Dataset data = random_data({.rows = 3000, .classes = 60, .features = 80});
  double ordered = 0, free = 0, least = 1e300, most = 0;
  constexpr int kSeeds = 4;
  const std::atomic<bool> stop{false};
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Recipe options = learnt_options(32, 20, 12);
    options.epochs = 6, options.schedule = Schedule::linear, options.threads = 3;
    options.seed = static_cast<std::uint64_t>(seed);
    const double in_order = evaluate({}, 1, run_epochs(data, options), data, 1, &stop)->log_loss;
    least = std::min(least, in_order), most = std::max(most, in_order);
    ordered += in_order / kSeeds;
    options.lock_free = true;
    const RunState state = run_epochs(data, options);
    EXPECT_EQ(state.learnt.updates, 6U * 94U);
    free += evaluate({}, 1, state, data, 1, &stop)->log_loss / kSeeds;
  }
  EXPECT_LT(std::abs(free - ordered), std::max(0.02 * ordered, 3 * (most - least)));
}

TEST(LearntLane, LockFreeStaysFiniteOrStopsAtAnyStep) {
  const Dataset data = random_data({.rows = 300, .classes = 30, .features = 40});
  for (const double step : {1e-12, 1.0, 1e3, 1e15}) {
    SCOPED_TRACE(step);
    Recipe options = learnt_options(16, 10);
    options.step = step, options.epochs = 40, options.threads = 3, options.lock_free = true;  // in two teams
    Fit fit(data, planned(data, options), make_state(data, options));
    const std::atomic<bool> stop{false};
    const Fit::End end = fit.run({}, stop);
    EXPECT_TRUE(end == Fit::End::used_up || end == Fit::End::diverged);
    for (const Embedding* table : {&fit.state().learnt.tables.features, &fit.state().learnt.classes})
      for (const float v : table->numbers) ASSERT_TRUE(std::isfinite(v));
  }
}
#endif

TEST(LearntLane, KeepsTheBestModelWithPatience) {
  const Dataset made = random_data({.rows = 200, .classes = 10}),
                other = random_data({.rows = 100, .classes = 10, .seed = 7});
  TrainSets sets{DataView(made)};
  sets.valid = DataView(other);
  Recipe options = learnt_options(16, 10, 16);
  options.step = 0.1, options.epochs = 50, options.patience = 2, options.eval_every = 1;
  RunState state = make_state(sets.data, options);
  Stopwatch watch;
  watch.resume();
  const std::atomic<bool> stop{false};
  const TrainOutcome outcome = train(sets, planned(sets, options), state, watch, {}, stop);
  ASSERT_TRUE(outcome.kept_best);
  ASSERT_LT(outcome.epochs, 50U);
  const auto again = evaluate({}, 1, state, *sets.valid, 1, &stop);
  EXPECT_EQ(again->log_loss, outcome.last->valid->log_loss);
}

TEST(LearntOptions, AreRefusedForOtherMethods) {
  Recipe options = learnt_options(8, 5);
  options.method = "prox";
  EXPECT_THROW(require_possible(options), UserError);
  options.method = "scent";
  EXPECT_NO_THROW(require_possible(options));
}

}  // namespace
}  // namespace truemax
