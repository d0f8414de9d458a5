#include "train/compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "data/test_support.hpp"
#include "evaluate/evaluate.hpp"
#include "train/draft.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

const std::atomic<bool> kGoOn{false};

// run_for() on this machine.
BudgetedRun run_within(const Recipe& recipe, const TrainSets& sets, const Budget& budget,
                       const std::atomic<bool>& stop) {
  const Plan plan = planned(sets, recipe);
  return run_for(recipe, {sets, plan.problem, plan.machine, stop}, budget);
}

CompareOptions options_of_list(const std::string& list, std::vector<double> steps) {
  CompareOptions options;
  Asked base;
  base.threads = 1;
  options.contenders = parse_contenders(list, base);
  options.steps = std::move(steps);
  return options;
}

TEST(Contenders, ParseMethodsWithOptions) {
  Asked base;
  base.ridge = 0.25;
  const auto all = parse_contenders("implicit,umax:classes-per-step=5:delta=2,vanilla:step=0.5", base);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].asked.method, "implicit");
  EXPECT_EQ(over_defaults(all[0].asked).classes_per_step, 1U);
  EXPECT_TRUE(all[0].grid);
  EXPECT_EQ(all[1].entry, "umax:classes-per-step=5:delta=2");
  EXPECT_EQ(all[1].asked.classes_per_step, 5U);
  EXPECT_EQ(all[1].asked.rule.delta, 2);
  EXPECT_EQ(all[1].asked.ridge, 0.25);
  EXPECT_FALSE(all[2].grid);
  EXPECT_EQ(all[2].asked.step, 0.5);
}

TEST(Contenders, ErrorNamesTheBadEntry) {
  const auto refused = [](const std::string& list) {
    return error_of([&] { parse_contenders(list, Asked()); });
  };
  EXPECT_NE(refused("implicit,softmaxx").find("'softmaxx' is not a method"), std::string::npos)
      << refused("implicit,softmaxx");
  EXPECT_NE(refused("umax:clases=5").find("'clases' is not an option"), std::string::npos);
  EXPECT_NE(refused("umax:classes-per-step").find("is not option=value"), std::string::npos);
  EXPECT_NE(refused("umax:classes-per-step=-1").find("--classes-per-step"), std::string::npos);
  EXPECT_NE(refused("umax:epochs=3").find("'epochs' is not for --methods"), std::string::npos);
  EXPECT_NE(refused("implicit,,umax").find("an entry is empty"), std::string::npos);
  EXPECT_NE(refused("umax,umax").find("twice"), std::string::npos);
  EXPECT_NE(refused("").find("an entry is empty"), std::string::npos);
}

TEST(Contenders, DefaultListIsValid) {
  const auto all = parse_contenders(default_contenders(), Asked());
  EXPECT_GE(all.size(), 7U);
  EXPECT_NE(default_contenders().find("implicit,umax:classes-per-step=5,vanilla:classes-per-step=5,ove"),
            std::string::npos);
}

TEST(Grid, IsPowersOfTen) {
  EXPECT_EQ(parse_grid("-3:3"), (std::vector<double>{0.001, 0.01, 0.1, 1, 10, 100, 1000}));
  EXPECT_EQ(parse_grid("2:2"), std::vector<double>{100});
  for (const char* bad : {"", "1", "3:1", "1:2:3", "a:b", "0:99", "1:", "0.5:1"})
    EXPECT_NE(error_of([&] { parse_grid(bad); }).find("--grid"), std::string::npos) << bad;
}

TEST(RunFor, EpochsMatchesTheTrainer) {
  const Dataset data = random_data({});
  for (const char* method : {"implicit", "umax", "exact"}) {
    Recipe options = truemax::options_of(method, 1);
    options.epochs = 6, options.eval_every = 0, options.step = 1;
    const double loss = evaluate(run_epochs(data, options).weights, data, 1)->log_loss;
    Budget budget;
    budget.epochs = 6;
    const BudgetedRun run = run_within(options, {data, DataView(data)}, budget, kGoOn);
    ASSERT_TRUE(run.finished());
    EXPECT_EQ(run.curve.back().train_loss, loss);
    EXPECT_EQ(run.curve.back().test_loss, loss);
    EXPECT_EQ(run.steps, 6 * data.size());
    ASSERT_EQ(run.curve.size(), 3U);  // 1, 3 and 6 epochs
    EXPECT_EQ(run.curve[0].epochs, 1);
    EXPECT_EQ(run.curve[1].epochs, 3);
  }
}

TEST(RunFor, SecondsAreKept) {
  constexpr double kTick = 1e-4;
  const Dataset data = random_data({.rows = 200});
  Recipe options = truemax::options_of("implicit", 1);
  options.step = 1;
  const auto run_once = [&](double seconds) {
    FakeClock clock(kTick);
    Budget budget;
    budget.seconds = seconds, budget.time = clock.source();
    return run_within(options, {data}, budget, kGoOn);
  };
  const BudgetedRun run = run_once(0.1);
  ASSERT_TRUE(run.finished());
  EXPECT_GE(run.seconds, 0.1);
  EXPECT_LT(run.seconds, 0.1 + 3 * kTick);  // one read ends the run, one stops the watch
  ASSERT_EQ(run.curve.size(), 8U);
  for (std::size_t i = 0; i < run.curve.size(); ++i) {
    EXPECT_TRUE(std::isfinite(run.curve[i].train_loss));
    // An epoch reads the clock for two batches and the limit, so an earlier evaluation may be this late.
    const double wanted = 0.1 / static_cast<double>(1U << (7 - i));
    EXPECT_GE(run.curve[i].seconds, wanted);
    EXPECT_LT(run.curve[i].seconds, wanted + 6 * kTick) << i;
    if (i > 0) {
      EXPECT_GT(run.curve[i].epochs, run.curve[i - 1].epochs);
    }
  }
  EXPECT_LT(run.curve.back().train_loss, run.curve.front().train_loss);
  EXPECT_EQ(run.curve.back().seconds, run.seconds);
  const BudgetedRun again = run_once(0.1), longer = run_once(0.2);
  EXPECT_EQ(again.steps, run.steps);
  EXPECT_EQ(again.curve.back().train_loss, run.curve.back().train_loss);
  EXPECT_NEAR(static_cast<double>(longer.steps), 2 * static_cast<double>(run.steps),
              0.05 * static_cast<double>(run.steps));
}

TEST(RunFor, TakesEverySchedule) {
  const Dataset data = random_data({.rows = 2000});
  Recipe options = truemax::options_of("implicit", 1);
  options.step = 1, options.schedule = Schedule::linear, options.epochs = 4;
  Budget budget;
  budget.epochs = 4;
  const double loss = evaluate(run_epochs(data, options).weights, data, 1)->log_loss;
  EXPECT_EQ(run_within(options, {data}, budget, kGoOn).curve.back().train_loss, loss);
  FakeClock clock(1e-3);
  budget.epochs = 0, budget.seconds = 0.05, budget.time = clock.source();
  const BudgetedRun timed = run_within(options, {data}, budget, kGoOn);
  EXPECT_TRUE(timed.finished());
  EXPECT_GT(timed.steps, 0U);
}

TEST(RunFor, ReportsDivergence) {
  const Dataset data = random_data({});
  Recipe options = truemax::options_of("vanilla", 5);
  options.step = 1e10;
  for (const double seconds : {0.0, 0.05}) {
    FakeClock clock(1e-4);
    Budget budget;
    budget.seconds = seconds, budget.epochs = seconds > 0 ? 0 : 5, budget.time = clock.source();
    const BudgetedRun run = run_within(options, {data}, budget, kGoOn);
    EXPECT_NE(run.divergence.find("diverged"), std::string::npos);
    EXPECT_FALSE(run.finished());
  }
}

// Training calls tick every 8,192 steps; a stop raised there ends the run, with either clock.
TEST(RunFor, StopsWhenAsked) {
  const Dataset data = random_data({.rows = 50000});
  Recipe options = truemax::options_of("implicit", 1);
  options.decay = 1;  // or a trial before the run would be stopped instead
  for (const bool fake : {true, false}) {
    FakeClock clock(1e-4);
    std::atomic<bool> stop{false};
    Budget budget;
    budget.seconds = fake ? 2 : 1e6, budget.tick = [&] { stop.store(true); };
    if (fake) budget.time = clock.source();  // 20,000 batches if not stopped
    const BudgetedRun run = run_within(options, {data}, budget, stop);
    EXPECT_TRUE(run.interrupted);
    EXPECT_GE(run.steps, 8192U);
    EXPECT_LT(run.steps, 9000U);
  }
}

TEST(Compare, RunsEveryMethodAtEveryStepAndFindsTheBest) {
  const Dataset data = random_data({}), other = random_data({.rows = 100, .seed = 2});
  CompareOptions options =
      options_of_list("implicit,vanilla:classes-per-step=5,exact:step=3", {0.01, 1, 1e9});
  options.epochs = 4;
  const std::vector<CompareData> sets{{"a", data, {}}, {"b", other, DataView(data)}};
  std::vector<std::string> order;
  const CompareResult result = compare(sets, options, kGoOn, [&](const CompareProgress& now) {
    if (order.size() == now.done) order.push_back(now.contender->entry);
    EXPECT_EQ(now.of, 14U);
  });
  ASSERT_EQ(result.runs.size(), 14U);
  EXPECT_EQ(order[0], "implicit");  // they take turns
  EXPECT_EQ(order[1], "vanilla:classes-per-step=5");
  EXPECT_EQ(order[2], "exact:step=3");
  EXPECT_EQ(order[3], "implicit");
  for (std::size_t d = 0; d < 2; ++d)
    for (std::size_t c = 0; c < 3; ++c) {
      const CompareRun* best = result.best(d, c, CompareBy::train);
      ASSERT_NE(best, nullptr);
      for (const CompareRun& run : result.runs) {
        if (run.data != d || run.contender != c) continue;
        const std::optional<double> figure = run.figure(CompareBy::train);
        EXPECT_EQ(figure.has_value(), !(c == 1 && run.step >= 1));
        EXPECT_LE(*best->figure(CompareBy::train), figure.value_or(1e300));
      }
    }
  EXPECT_EQ(result.best(0, 2, CompareBy::train)->step, 3);
  EXPECT_EQ(result.best(0, 0, CompareBy::test), nullptr);  // no test data there
  EXPECT_NE(result.best(1, 0, CompareBy::test), nullptr);

  const nlohmann::json json = nlohmann::json::parse(compare_json(sets, options, result).dump());
  EXPECT_EQ(json["runs"].size(), 14U);
  EXPECT_EQ(json["data"][1]["name"], "b");
  EXPECT_EQ(json["methods"][1]["options"]["classes-per-step"], 5);
  std::size_t best = 0, diverged = 0;
  for (const auto& run : json["runs"]) {
    best += run["best"].get<bool>() ? 1 : 0;
    diverged += run.contains("diverged") ? 1 : 0;
  }
  EXPECT_EQ(best, 6U);
  EXPECT_EQ(diverged, 4U);
}

TEST(Compare, RepeatsExactlyAtEqualEpochs) {
  const Dataset data = random_data({});
  CompareOptions options = options_of_list("implicit,umax:classes-per-step=5,ove", {0.1, 1});
  options.epochs = 3;
  const auto losses = [&] {
    std::vector<double> all;
    for (const CompareRun& run : compare({{"a", data, {}}}, options, kGoOn).runs)
      for (const CurvePoint& p : run.result.curve) all.push_back(p.train_loss);
    return all;
  };
  EXPECT_EQ(losses(), losses());
}

// A run by epochs reads the clock only when its watch starts and stops: twice, for its memory and its steps.
TEST(Compare, DefaultTimeIsThatOfImplicit) {
  const Dataset data = random_data({.rows = 50});
  for (const double tick : {0.001, 0.2}) {
    FakeClock clock(tick);
    CompareOptions options = options_of_list("ove", {0.1, 1});
    options.points = 1, options.time = clock.source();
    const CompareResult result = compare({{"a", data, {}}}, options, kGoOn);
    EXPECT_NEAR(result.budgets[0].seconds, std::max(0.15, 2 * tick), 1e-9);
    EXPECT_TRUE(result.budget_step[0] == 0.1 || result.budget_step[0] == 1);
    ASSERT_EQ(result.runs.size(), 2U);
    EXPECT_GE(result.runs[0].result.seconds, result.budgets[0].seconds);
  }
}

TEST(Compare, RunsAutoOnceAndShowsItsStep) {
  const Dataset data = random_data({.rows = 300});
  CompareOptions options = options_of_list("auto,prox", {0.1, 1});
  options.epochs = 2;
  const CompareResult result = compare({{"a", data, {}}}, options, kGoOn);
  ASSERT_EQ(result.runs.size(), 3U);
  EXPECT_EQ(result.runs[0].contender, 0U);
  EXPECT_TRUE(result.runs[0].figure(CompareBy::train).has_value());
  EXPECT_NE(result.runs[0].step, Recipe().step);
}

TEST(Compare, KeepsFinishedRunsWhenStopped) {
  const Dataset data = random_data({});
  CompareOptions options = options_of_list("implicit,umax,ove", {0.1, 1});
  options.epochs = 2;
  std::atomic<bool> stop{false};
  const CompareResult result = compare({{"a", data, {}}, {"b", data, {}}}, options, stop,
                                       [&](const CompareProgress& now) { stop.store(now.done == 4); });
  EXPECT_TRUE(result.interrupted);
  ASSERT_EQ(result.runs.size(), 5U);
  EXPECT_FALSE(result.runs.back().done);
  EXPECT_NE(result.best(0, 0, CompareBy::train), nullptr);
  EXPECT_EQ(result.best(1, 0, CompareBy::train), nullptr);
  EXPECT_EQ(result.budgets.size(), 2U);
  EXPECT_NO_THROW(compare_json({{"a", data, {}}, {"b", data, {}}}, options, result));
}

TEST(Compare, RefusesAnImpossibleStep) {
  const Dataset data = random_data({});
  const CompareOptions options = options_of_list("umax:classes-per-step=100000", {1});
  EXPECT_NE(error_of([&] {
              compare({{"a", data, {}}}, options, kGoOn);
            }).find("--classes-per-step"),
            std::string::npos);
}

}  // namespace
}  // namespace truemax
