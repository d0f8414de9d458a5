// Validation and patience: when a run ends, and that it keeps the best model bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "core/error.hpp"
#include "data/test_support.hpp"
#include "train/test_support.hpp"
#include "train/trainer.hpp"

namespace truemax {
namespace {

struct Keeper final : TrainObserver {
  std::vector<EvaluationRecord> records;
  std::atomic<bool>* stop = nullptr;
  std::uint64_t stop_at_epoch = ~0ULL;
  void evaluated(const EvaluationRecord& record) override {
    records.push_back(record);
    if (stop != nullptr && record.epoch == stop_at_epoch) *stop = true;
  }
};

struct Watched {
  RunState state;
  TrainOutcome outcome;
  Keeper seen;
};

Watched train_watched(const TrainSets& sets, const Recipe& options, const TrainExtras& extras = {},
                      std::uint64_t stop_at_epoch = ~0ULL) {
  Watched r;
  r.state = make_state(sets.data, options);
  FakeClock clock(0.01);
  Stopwatch watch(clock.source());
  watch.resume();
  std::atomic<bool> stop{false};
  r.seen.stop = &stop, r.seen.stop_at_epoch = stop_at_epoch;
  TrainObserver* observers[] = {&r.seen};
  r.outcome = train(sets, planned(sets, options), r.state, watch, observers, stop, extras);
  return r;
}

// Few rows and large steps overfit quickly.
struct Overfit : testing::Test {
  Dataset data = random_data({.rows = 150, .features = 40});
  Dataset valid = random_data({.rows = 100, .features = 40, .seed = 2});
  Dataset test = random_data({.rows = 50, .features = 40, .seed = 3});
  TrainSets sets{data, DataView(test), DataView(valid)};

  static Recipe options(double ridge = 0, bool intercept = false) {
    Recipe o = options_of("implicit", 3);
    o.step = 0.3, o.decay = 1, o.epochs = 60, o.eval_every = 1, o.ridge = ridge, o.intercept = intercept;
    return o;
  }
  static std::vector<std::uint64_t> weight_bits(RunState& state) {
    state.rows.clear();
    state.epoch = state.step = 0;
    return bits_of(state);
  }
};

TEST_F(Overfit, StopsAfterPatienceAndKeepsTheBestModel) {
  for (const double ridge : {0.0, 0.01}) {
    Recipe o = options(ridge, ridge > 0);
    const Watched whole = train_watched(sets, o);
    std::vector<double> loss;
    for (const auto& r : whole.seen.records) loss.push_back(r.valid->log_loss);
    ASSERT_EQ(loss.size(), 60U);
    for (const std::uint64_t patience : {1U, 4U, 1000U}) {
      // The expected end: the first epoch that is `patience` epochs after the lowest so far.
      std::size_t best = 0, end = 0;
      for (; end < loss.size(); ++end) {
        if (loss[end] < loss[best]) best = end;
        if (end - best >= patience) break;
      }
      end = std::min<std::size_t>(end, loss.size() - 1);
      ASSERT_LT(best + 1, loss.size()) << "the data must overfit, or nothing is tested";
      o.patience = patience;
      Watched r = train_watched(sets, o);
      EXPECT_EQ(r.outcome.epochs, end + 1) << patience;
      ASSERT_TRUE(r.outcome.kept_best);
      EXPECT_EQ(r.outcome.last->epoch, best + 1) << patience;
      EXPECT_EQ(r.outcome.last->valid->log_loss, loss[best]);
      Recipe until_best = options(ridge, ridge > 0);
      until_best.epochs = best + 1;
      Watched shorter = train_watched(sets, until_best);
      EXPECT_EQ(r.outcome.last->train->log_loss, shorter.outcome.last->train->log_loss);
      EXPECT_EQ(r.outcome.last->test->log_loss, shorter.outcome.last->test->log_loss);
      EXPECT_EQ(weight_bits(r.state), weight_bits(shorter.state)) << patience;
    }
  }
}

TEST_F(Overfit, EvaluatesOnlyValidationRowsUntilTheEnd) {
  Recipe o = options();
  o.patience = 3;
  const Watched r = train_watched(sets, o);
  ASSERT_GT(r.seen.records.size(), 4U);
  for (std::size_t i = 0; i + 1 < r.seen.records.size(); ++i) {
    EXPECT_FALSE(r.seen.records[i].train || r.seen.records[i].test || r.seen.records[i].best);
    EXPECT_TRUE(r.seen.records[i].valid);
  }
  const EvaluationRecord& last = r.seen.records.back();
  EXPECT_TRUE(last.best && last.train && last.test && last.valid);
  EXPECT_EQ(last.epoch, r.outcome.last->epoch);
}

TEST_F(Overfit, KeepingOnDiskGivesTheSameModel) {
  Recipe o = options(0.01, true);
  o.patience = 3;
  Watched in_memory = train_watched(sets, o);
  const TempFolder folder;
  Watched on_disk = train_watched(sets, o, {nullptr, folder.path("")});
  EXPECT_EQ(weight_bits(on_disk.state), weight_bits(in_memory.state));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("")));
}

TEST_F(Overfit, StoppedRunKeepsTheBestModelSoFar) {
  Recipe o = options();
  o.patience = 1000;
  const Watched whole = train_watched(sets, o);
  const std::uint64_t best = whole.outcome.last->epoch;
  Watched r = train_watched(sets, o, {}, best + 2);
  EXPECT_TRUE(r.outcome.interrupted);
  EXPECT_EQ(r.outcome.epochs, best + 2);
  ASSERT_TRUE(r.outcome.kept_best);
  EXPECT_EQ(r.outcome.last->epoch, best);
  EXPECT_EQ(evaluate(r.state.weights, valid, 1)->log_loss, whole.outcome.last->valid->log_loss);
}

TEST_F(Overfit, TimedRunWithPatienceReplays) {
  Recipe o = options();
  o.patience = 2, o.epochs = kUnlimitedEpochs, o.seconds = 20, o.schedule = Schedule::linear;
  Watched first = train_watched(sets, o);
  const Recording recording{first.outcome.steps, first.outcome.segments};
  Watched again = train_watched(sets, o, {&recording, ""});
  EXPECT_EQ(again.outcome.steps, first.outcome.steps);
  EXPECT_EQ(again.outcome.last->steps, first.outcome.last->steps);
  EXPECT_EQ(weight_bits(again.state), weight_bits(first.state));
}

TEST(Train, EvaluatesValidationRowsAtEveryEvaluation) {
  const Dataset data = random_data({}), valid = random_data({.rows = 40, .seed = 5});
  Recipe o = options_of("implicit", 1);
  o.eval_every = 1;
  const Watched r = train_watched({data, {}, DataView(valid)}, o);
  ASSERT_EQ(r.seen.records.size(), 2U);
  EXPECT_FALSE(r.outcome.kept_best);
  for (const auto& record : r.seen.records) EXPECT_TRUE(record.train && record.valid && !record.test);
  EXPECT_EQ(r.seen.records[1].valid->log_loss, evaluate(r.state.weights, valid, 1)->log_loss);
}

}  // namespace
}  // namespace truemax
