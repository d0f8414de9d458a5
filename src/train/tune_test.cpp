#include "train/tune.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.hpp"
#include "data/hold_out.hpp"
#include "data/test_support.hpp"
#include "evaluate/evaluate.hpp"
#include "train/draft.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

const std::atomic<bool> kNeverStop{false};

struct Parts {
  DataView train, valid;
};

Parts parts() {
  const RowSplit split = set_aside(DataView(random_data({.rows = 400})), 0.2, 1);
  return {split.rest, split.valid};
}

Asked implicit_options() {
  Asked asked;
  asked.method = "implicit";
  return asked;
}

TuneOptions options_of_tries(const std::vector<std::string>& tries, std::uint64_t epochs) {
  TuneOptions options;
  options.trials = make_trials(implicit_options(), parse_tries(tries), 0);
  for (Trial& trial : options.trials) trial.recipe = over_defaults(trial.asked);
  options.epochs = epochs;
  return options;
}

// Everything but the clock.
std::string without_clock(const TuneResult& result) {
  nlohmann::ordered_json json = tune_json(result);
  for (auto& trial : json["trials"]) trial.erase("seconds");
  return json.dump();
}

TEST(Tries, ParseOptionsWithValues) {
  const auto lists = parse_tries({"step=0.1,1,1e1", "method=implicit,umax"});
  ASSERT_EQ(lists.size(), 2U);
  EXPECT_EQ(lists[0].option, "step");
  EXPECT_EQ(lists[0].values, (std::vector<std::string>{"0.1", "1", "1e1"}));
  const auto refused = [](const std::vector<std::string>& texts) {
    return error_of([&] { parse_tries(texts); });
  };
  EXPECT_NE(refused({}).find("nothing to try"), std::string::npos);
  EXPECT_NE(refused({"step"}).find("no '='"), std::string::npos);
  EXPECT_NE(refused({"stepp=1"}).find("'stepp' is not an option"), std::string::npos);
  EXPECT_NE(refused({"epochs=1,2"}).find("'epochs' is the same for all"), std::string::npos);
  EXPECT_NE(refused({"step=1,-1"}).find("--step '-1'"), std::string::npos);
  EXPECT_NE(refused({"step=1,,2"}).find("--step ''"), std::string::npos);
  EXPECT_NE(refused({"step=1,1"}).find("twice"), std::string::npos);
  EXPECT_NE(refused({"step=1", "step=2"}).find("twice"), std::string::npos);
}

TEST(Trials, AreAllCombinationsOrASample) {
  const auto lists = parse_tries({"step=1,2", "ridge=0,1,2"});
  const auto all = make_trials(implicit_options(), lists, 0);
  ASSERT_EQ(all.size(), 6U);
  EXPECT_EQ(all[1].asked.step, 1);
  EXPECT_EQ(all[1].asked.ridge, 1);
  EXPECT_EQ(all[5].asked.step, 2);
  EXPECT_EQ(all[5].asked.ridge, 2);
  std::set<std::pair<double, double>> seen;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Asked base = implicit_options();
    base.seed = seed;
    const auto some = make_trials(base, lists, 2);
    ASSERT_EQ(some.size(), 2U);
    EXPECT_NE(some[0].settings, some[1].settings);
    for (const Trial& trial : some) seen.insert({*trial.asked.step, *trial.asked.ridge});
  }
  EXPECT_EQ(seen.size(), 6U);
  EXPECT_EQ(make_trials(implicit_options(), lists, 100).size(), 6U);
}

TEST(Trials, TooManyOrImpossibleAreRefused) {
  std::string many = "step=1";
  for (int i = 2; i <= 200; ++i) many += "," + std::to_string(i);
  std::string ridge = many;
  ridge.replace(0, 4, "ridge");
  const auto lists = parse_tries({many, ridge});
  EXPECT_NE(error_of([&] { make_trials(implicit_options(), lists, 0); }).find("--random"), std::string::npos);
  EXPECT_EQ(make_trials(implicit_options(), lists, 7).size(), 7U);
  const auto impossible = parse_tries({"step=1", "method=umax,implicit", "rows-per-step=2000"});
  const std::string error = error_of([&] { make_trials(implicit_options(), impossible, 0); });
  EXPECT_NE(error.find("with step=1 method=implicit rows-per-step=2000"), std::string::npos) << error;
}

TEST(Tune, TrialsShareTheThreads) {
  EXPECT_EQ(threads_of_trial(8, 1), 8U);
  EXPECT_EQ(threads_of_trial(8, 3), 2U);
  EXPECT_EQ(threads_of_trial(8, 8), 1U);
  EXPECT_EQ(threads_of_trial(2, 5), 1U);
  EXPECT_EQ(threads_of_trial(1, 0), 1U);
}

TEST(Tune, RoundsAreEighthQuarterHalfAndAll) {
  EXPECT_EQ(tune_rounds(50), (std::vector<std::uint64_t>{6, 12, 25, 50}));
  EXPECT_EQ(tune_rounds(3), (std::vector<std::uint64_t>{1, 3}));
  EXPECT_EQ(tune_rounds(1), std::vector<std::uint64_t>{1});
}

// Against a slow version: each trial of each round trained from scratch.
TEST(Tune, IsSuccessiveHalving) {
  const Parts data = parts();
  TuneOptions options = options_of_tries({"step=0.001,0.01,0.1,1,10,100", "ridge=0,1"}, 16);
  options.ridge_share = 0.5;
  std::vector<std::size_t> alive(options.trials.size());
  for (std::size_t i = 0; i < alive.size(); ++i) alive[i] = i;
  std::vector<std::vector<double>> expected(alive.size());
  for (const std::uint64_t epochs : {2, 4, 8, 16}) {
    std::vector<std::pair<double, std::size_t>> order;
    for (const std::size_t t : alive) {
      Recipe train = options.trials[t].recipe;
      train.epochs = epochs, train.ridge *= 0.5;
      const double loss = evaluate(run_epochs(data.train, train).weights, data.valid, 1)->log_loss;
      expected[t].push_back(loss);
      order.emplace_back(loss, t);
    }
    std::sort(order.begin(), order.end());
    alive.clear();
    for (std::size_t i = 0; i < (order.size() + 1) / 2; ++i) alive.push_back(order[i].second);
  }
  const std::vector<Trial> asked = options.trials;
  const TuneResult result = tune(data.train, data.valid, options, kNeverStop);
  ASSERT_EQ(result.trials.size(), 12U);
  std::size_t kept = 0, stopped = 0;
  for (const Trial& trial : result.trials) {
    const auto at = std::find_if(asked.begin(), asked.end(),
                                 [&](const Trial& other) { return other.settings == trial.settings; });
    const std::vector<double>& marks = expected[static_cast<std::size_t>(at - asked.begin())];
    ASSERT_EQ(trial.marks.size(), marks.size());
    for (std::size_t i = 0; i < marks.size(); ++i) EXPECT_EQ(trial.marks[i].valid_loss, marks[i]);
    kept += trial.state == Trial::State::kept ? 1 : 0;
    stopped += trial.state == Trial::State::stopped ? 1 : 0;
  }
  EXPECT_EQ(kept, 2U);  // 12, 6, 3, 2
  EXPECT_EQ(stopped, 10U);
  ASSERT_NE(result.best(), nullptr);
  EXPECT_EQ(result.best()->epochs(), 16U);
  for (std::size_t i = 1; i < result.trials.size(); ++i)
    EXPECT_GE(result.trials[i - 1].epochs(), result.trials[i].epochs());
}

TEST(Tune, SameResultForAnyThreadsAndMemory) {
  const Parts data = parts();
  const TuneOptions options =
      options_of_tries({"method=implicit,umax,vanilla", "step=0.1,1,1e10", "classes-per-step=1,5"}, 8);
  const TuneResult one = tune(data.train, data.valid, options, kNeverStop);
  EXPECT_FALSE(one.started_again);
  for (const std::size_t threads : {2, 5}) {
    TuneOptions more = options;
    more.threads = threads;
    EXPECT_EQ(without_clock(tune(data.train, data.valid, more, kNeverStop)), without_clock(one));
  }
  TuneOptions little = options;
  little.threads = 3;
  for (const Trial& trial : options.trials)  // enough for any one of them
    little.memory_limit =
        std::max(little.memory_limit, planned({data.train, {}, data.valid}, trial.recipe).memory.total());
  const TuneResult again = tune(data.train, data.valid, little, kNeverStop);
  EXPECT_TRUE(again.started_again);
  EXPECT_EQ(without_clock(again), without_clock(one));
}

TEST(Tune, DivergedTrialsComeLast) {
  const Parts data = parts();
  const TuneResult result =
      tune(data.train, data.valid, options_of_tries({"method=vanilla", "step=0.001,1e9,1e10,1e12"}, 4),
           kNeverStop);
  ASSERT_NE(result.best(), nullptr);
  EXPECT_EQ(result.best()->recipe.step, 0.001);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(result.trials[i].state, Trial::State::diverged);
    EXPECT_NE(result.trials[i].divergence, "");
  }
  const TuneResult none =
      tune(data.train, data.valid, options_of_tries({"method=vanilla", "step=1e10,1e12"}, 4), kNeverStop);
  EXPECT_EQ(none.best(), nullptr);
}

TEST(Tune, SingleTrialRunsToTheEnd) {
  const Parts data = parts();
  const TuneResult result = tune(data.train, data.valid, options_of_tries({"step=1"}, 8), kNeverStop);
  ASSERT_NE(result.best(), nullptr);
  EXPECT_EQ(result.best()->marks.size(), 1U);
  EXPECT_EQ(result.best()->epochs(), 8U);
}

TEST(Tune, KeepsFinishedTrialsWhenStopped) {
  const Parts data = parts();
  std::atomic<bool> stop{false};
  const TuneResult result = tune(data.train, data.valid, options_of_tries({"step=0.1,1,10,100"}, 8), stop,
                                 [&](double done, double of) {
                                   EXPECT_EQ(of, 4 + 2 + 2 + 4);
                                   if (done == 5) stop.store(true);
                                 });
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.best(), nullptr);
  EXPECT_EQ(result.trials.size(), 4U);
  EXPECT_NO_THROW(tune_json(result));
}

}  // namespace
}  // namespace truemax
