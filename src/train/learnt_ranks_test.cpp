// Learnt features on several ranks: the run of one rank, except for the order of sums.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "core/error.hpp"
#include "ranks/thread_ranks.hpp"
#include "train/evaluate_state.hpp"
#include "train/learnt_test_support.hpp"
#include "train/memory_plan.hpp"
#include "train/require.hpp"
#include "train/search.hpp"
#include "train/trainer.hpp"

namespace truemax {
namespace {

struct RankedCase {
  const char* name;
  DataView data;
  Recipe options;
};

RankedCase text_case(const char* name, EncoderKind encoder, std::uint64_t layers, bool tied, double dropout) {
  RankedCase c{name, random_text({.words = 900, .kinds = 70, .encoder = encoder}),
               learnt_options(32, 20, 12)};
  c.options.layers = layers, c.options.tied = tied, c.options.dropout = dropout, c.options.epochs = 1;
  c.options.ridge = 0.5;
  return c;
}

// Every encoder, with ridge or N3, row weights, dropout and draws of all kinds.
std::vector<RankedCase> ranked_cases() {
  std::vector<RankedCase> cases;
  for (const char* draw : {"frequency", "uniform", "all", "head-blocks"}) {
    RankedCase c{"bag", random_data({.rows = 500, .classes = 75, .features = 90, .weights = true}),
                 learnt_options(32, 20, 12)};
    c.options.draw = draw, c.options.ridge = 0.5, c.options.epochs = 1;
    cases.push_back(c);
  }
  cases[0].options.dropout = 0.2, cases[0].options.ridge_intercept = true;
  cases[1].options.intercept = cases[1].options.start_at_frequencies = false;
  cases[2].options.row_state = true;
  cases.push_back(text_case("context", EncoderKind::context, 0, false, 0));
  cases.push_back(text_case("context tied", EncoderKind::context, 0, true, 0));
  cases.push_back(text_case("layer", EncoderKind::context, 1, false, 0.2));
  cases.push_back(text_case("layer tied", EncoderKind::context, 1, true, 0.2));
  cases.push_back(text_case("cbow", EncoderKind::cbow, 0, false, 0.2));
  cases.push_back(text_case("cbow tied", EncoderKind::cbow, 0, true, 0));
  cases.push_back(text_case("skipgram", EncoderKind::skipgram, 0, false, 0));
  cases.push_back(text_case("skipgram tied", EncoderKind::skipgram, 0, true, 0));
  cases.push_back({"triples", some_triples(600, 60, 3, true), complex_options(32, 20, 12)});
  cases.back().options.dropout = 0.1;
  cases.push_back({"triples, all classes", some_triples(600, 60), complex_options(32, 60, 12)});
  cases.back().options.draw = "all";
  return cases;
}

// W is 0 at the start, where the features have no gradient: all ranks set the same other numbers.
void move_own_classes(RunState& state) {
  if (!state.learnt.tied()) fill_normal(state.learnt.classes, 0.5, 9, 0, 1, state.weights.share());
}

RunState one_epoch(const DataView& data, const Recipe& options) {
  RunState state = make_state(data, options);
  move_own_classes(state);
  StepLoop loop(data, planned(data, options));
  const std::atomic<bool> stop{false};
  EXPECT_TRUE(loop.run(state, stop, {}));
  loop.publish(state);
  return state;
}

Metrics metrics_after_an_epoch(const DataView& data, const Recipe& options) {
  const std::atomic<bool> stop{false};
  return evaluate({}, 1, one_epoch(data, options), data, 1, &stop).value();
}

TEST(LearntRanks, HaveTheLossOfOneRankAfterAnEpoch) {
  for (const RankedCase& c : ranked_cases()) {
    const Metrics alone = metrics_after_an_epoch(c.data, c.options);
    for (const bool shard : {false, true})
      for (std::size_t size = 1; size <= 4; ++size) {
        Recipe options = c.options;
        options.shard_embedding = shard;
        std::vector<Metrics> of_rank(size);
        run_thread_ranks(
            size, [&](Ranks& ranks) { of_rank[ranks.rank()] = metrics_after_an_epoch(c.data, options); });
        for (const Metrics& m : of_rank) {
          EXPECT_NEAR(m.log_loss, alone.log_loss, 1e-6 * alone.log_loss)
              << c.name << ' ' << c.options.draw << ", " << size << " ranks, shard " << shard;
          EXPECT_EQ(m.log_loss, of_rank[0].log_loss);
        }
      }
  }
}

TEST(LearntRanks, OneRankHasTheBitsOfTheOrdinaryLane) {
  for (const RankedCase& c : ranked_cases()) {
    const auto ordinary = bits_of(one_epoch(c.data, c.options));
    Recipe options = c.options;
    options.shard_embedding = true;
    run_thread_ranks(1, [&](Ranks&) { EXPECT_EQ(bits_of(one_epoch(c.data, options)), ordinary) << c.name; });
  }
}

// Sums of dx have the same bits on all ranks, so all move E alike.
TEST(LearntRanks, KeepReplicatedVectorsEqual) {
  for (const RankedCase& c : ranked_cases()) {
    std::vector<LearntState> of_rank(3);
    run_thread_ranks(3, [&](Ranks& ranks) { of_rank[ranks.rank()] = one_epoch(c.data, c.options).learnt; });
    if (of_rank[0].tied()) continue;
    for (const LearntState& learnt : of_rank) {
      EXPECT_EQ(learnt.tables.share, nullptr);
      EXPECT_EQ(learnt.tables.features.numbers, of_rank[0].tables.features.numbers) << c.name;
      EXPECT_EQ(learnt.features_square, of_rank[0].features_square) << c.name;
      EXPECT_EQ(learnt.tables.mixing.numbers, of_rank[0].tables.mixing.numbers) << c.name;
    }
  }
}

// The vectors of words are sent to all ranks as they are; only x that is a sum over ranks is rounded
// otherwise.
TEST(LearntRanks, SharedVectorsHaveTheBitsOfReplicatedOnes) {
  std::size_t compared = 0;
  for (const RankedCase& c : ranked_cases()) {
    if (!mixes_places(c.data.space->encoder) || c.options.tied) continue;
    run_thread_ranks(3, [&](Ranks& ranks) {
      Recipe options = c.options;
      const LearntState whole = one_epoch(c.data, options).learnt;
      options.shard_embedding = true;
      const LearntState part = one_epoch(c.data, options).learnt;
      ASSERT_NE(part.tables.share, nullptr);
      for (ClassId v = 0; v < part.tables.features.rows; ++v)
        for (std::size_t d = 0; d < options.hidden; ++d)
          ASSERT_EQ(part.tables.features.row(v)[d],
                    whole.tables.features.row(part.tables.share->global_class(v))[d])
              << c.name;
      EXPECT_EQ(part.classes.numbers, whole.classes.numbers);
      if (ranks.first()) ++compared;
    });
  }
  EXPECT_EQ(compared, 3U);
}

TEST(LearntRanks, ShareTheVectorsOut) {
  for (const RankedCase& c : ranked_cases()) {
    Recipe options = c.options;
    options.shard_embedding = true;
    std::atomic<std::size_t> vectors{0}, classes{0};
    run_thread_ranks(4, [&](Ranks&) {
      const LearntState learnt = make_state(c.data, options).learnt;
      vectors += learnt.tables.features.rows;
      classes += learnt.classes.rows;
      const std::size_t most = BlockShare::most_classes(c.data.space->features, 4);
      EXPECT_LE(learnt.tables.features.rows, most) << c.name;
      EXPECT_EQ(learnt.features_square.size(),
                learnt.tables.features.rows * (options.row_state ? 1 : options.hidden));
    });
    EXPECT_EQ(vectors, c.data.space->features) << c.name;
    EXPECT_EQ(classes, make_state(c.data, options).learnt.classes.rows) << c.name;
  }
}

// Fewer classes and features than blocks for all ranks.
TEST(LearntRanks, MayHaveNothingOfTheirOwn) {
  std::vector<RankedCase> cases;
  cases.push_back({"bag", random_data({.rows = 100, .classes = 9, .features = 7}), learnt_options(8, 5)});
  cases.push_back({"triples", some_triples(60, 9, 2), complex_options(8, 5, 6)});
  cases.push_back({"context", random_text({.words = 90, .kinds = 9}), learnt_options(8, 5)});
  for (RankedCase& c : cases) {
    c.options.epochs = 1, c.options.shard_embedding = true;
    const Metrics alone = metrics_after_an_epoch(c.data, c.options);
    run_thread_ranks(4, [&](Ranks&) {
      const Metrics m = metrics_after_an_epoch(c.data, c.options);
      EXPECT_NEAR(m.log_loss, alone.log_loss, 1e-6 * alone.log_loss) << c.name;
      EXPECT_EQ(m.error, alone.error) << c.name;
    });
  }
}

TEST(LearntRanks, StayFiniteOrStopTogetherAtAnyStepAndScale) {
  for (const double scale : {1e-30, 1.0, 1e7, 1e30})
    for (const double step : {1e-12, 1.0, 1e3, 1e15})
      for (const bool triples : {false, true}) {
        if (triples && scale != 1) continue;
        SCOPED_TRACE(testing::Message() << "scale " << scale << " step " << step << " triples " << triples);
        const DataView data = triples ? some_triples(60, 40)
                                      : DataView(random_data({.rows = 60, .classes = 40, .scale = scale}));
        Recipe options = triples ? complex_options(8, 5, 6) : learnt_options(8, 5);
        options.step = step, options.epochs = 3, options.rule.rho = 1e-12;
        options.shard_embedding = true;
        std::mutex mutex;
        std::vector<Fit::End> ends;
        run_thread_ranks(3, [&](Ranks&) {
          Fit fit(data, planned(data, options), make_state(data, options));
          const std::atomic<bool> stop{false};
          const Fit::End end = fit.run({}, stop);
          for (const Embedding* table : {&fit.state().learnt.tables.features, &fit.state().learnt.classes})
            for (const float v : table->numbers) EXPECT_TRUE(std::isfinite(v));
          for (const RowState& row : fit.state().rows) EXPECT_TRUE(std::isfinite(row.u));
          const auto metrics = evaluate({}, 1, fit.state(), data, 1, &stop);
          EXPECT_TRUE(metrics && std::isfinite(metrics->log_loss));
          const std::lock_guard lock(mutex);
          ends.push_back(end);
        });
        for (const Fit::End end : ends) {
          EXPECT_TRUE(end == Fit::End::used_up || end == Fit::End::diverged);
          EXPECT_EQ(end, ends[0]);
        }
      }
}

TEST(LearntRanks, HaveTheSameBitsForAnyNumberOfThreads) {
  for (const RankedCase& c : ranked_cases()) {
    std::vector<std::vector<std::uint64_t>> of_rank(2);
    run_thread_ranks(2, [&](Ranks& r) { of_rank[r.rank()] = bits_of(one_epoch(c.data, c.options)); });
    Recipe options = c.options;
    options.threads = 3;
    run_thread_ranks(
        2, [&](Ranks& r) { EXPECT_EQ(bits_of(one_epoch(c.data, options)), of_rank[r.rank()]) << c.name; });
  }
}

TEST(LearntRanks, RankTriplesAsOneDoes) {
  const DataView made = some_triples(400, 60, 3);
  RankingBuilder builder(made.classes, *made.space, std::make_shared<MemoryBudget>());
  builder.add_test(raw_triples(50, 60, 3, false, 5));
  DataView data = made;
  data.ranking = builder.finish();
  const Recipe options = complex_options(32, 20, 12);
  const Metrics alone = metrics_after_an_epoch(data, options);
  ASSERT_TRUE(alone.ranking.has_value());
  run_thread_ranks(3, [&](Ranks&) {
    const Metrics m = metrics_after_an_epoch(data, options);
    ASSERT_TRUE(m.ranking.has_value());
    EXPECT_NEAR(m.ranking->mrr, alone.ranking->mrr, 1e-3);
    EXPECT_EQ(m.ranking->queries, alone.ranking->queries);
  });
}

TEST(LearntRanks, KeepTheBestModelWithPatience) {
  const Dataset made = random_data({.rows = 200, .classes = 40}),
                other = random_data({.rows = 100, .classes = 40, .seed = 7});
  Recipe options = learnt_options(16, 10, 16);
  options.step = 0.1, options.epochs = 50, options.patience = 2, options.eval_every = 1;
  options.shard_embedding = true;
  run_thread_ranks(3, [&](Ranks&) {
    TrainSets sets{DataView(made)};
    sets.valid = DataView(other);
    RunState state = make_state(sets.data, options);
    Stopwatch watch;
    watch.resume();
    const std::atomic<bool> stop{false};
    const TrainOutcome outcome = train(sets, planned(sets, options), state, watch, {}, stop);
    ASSERT_TRUE(outcome.kept_best);
    EXPECT_LT(outcome.epochs, 50U);
    EXPECT_EQ(evaluate({}, 1, state, *sets.valid, 1, &stop)->log_loss, outcome.last->valid->log_loss);
  });
}

TEST(LearntRanks, ChooseAlikeByTrials) {
  const Dataset made = random_data({.rows = 600, .classes = 40, .features = 60});
  for (const bool open_encoder : {false, true}) {
    const auto choose = [&] {
      const TrainSets sets{DataView(made)};
      Asked asked;
      asked.threads = 1, asked.device = device::kCpu, asked.schedule = Schedule::linear;  // not by Newton
      if (!open_encoder) asked.hidden = 8;
      const Decided decided(asked, sets, std::uint64_t{1} << 30);
      EXPECT_EQ(decided.reading.is_open("encoder"), open_encoder);
      EXPECT_EQ(decided.recipe.newton, 0U);
      const std::atomic<bool> stop{false};
      Stopwatch watch;
      watch.resume();
      const auto [recipe, result] =
          search(decided.recipe, {sets, decided.problem, decided.machine, watch, {}, stop});
      return std::tuple(result.trials, recipe.step, recipe.ridge, recipe.epochs, recipe.hidden,
                        result.log_loss);
    };
    const auto alone = choose();
    std::vector<decltype(choose())> of_rank(3);
    run_thread_ranks(3, [&](Ranks& ranks) { of_rank[ranks.rank()] = choose(); });
    for (const auto& chosen : of_rank) EXPECT_EQ(chosen, of_rank[0]);
    EXPECT_GT(std::get<0>(of_rank[0]), 3U);
    EXPECT_NEAR(std::get<5>(of_rank[0]), std::get<5>(alone), 0.01 * std::get<5>(alone));
  }
}

TEST(LearntRanks, NeedTheirShareOfTheMemory) {
  const Dataset made = random_data({.rows = 50, .classes = 6400, .features = 6400});
  const TrainSets sets{DataView(made)};
  for (const bool shard : {false, true}) {
    Recipe options = learnt_options(8, 16, 32);
    options.shard_embedding = shard;
    const MemoryPlan alone = plan_memory(Told(sets, options, std::uint64_t{1} << 30).facts());
    run_thread_ranks(4, [&](Ranks&) {
      const MemoryPlan plan = plan_memory(Told(sets, options, std::uint64_t{1} << 30).facts());
      const RunState state = make_state(sets.data, options);
      const LearntState& learnt = state.learnt;
      const std::uint64_t there =
          state.weights.bytes() +
          sizeof(float) * (learnt.tables.features.numbers.size() + learnt.features_square.size() +
                           learnt.classes.numbers.size() + learnt.classes_square.size());
      EXPECT_EQ(plan.weights, there);
      EXPECT_LT(plan.weights, shard ? alone.weights / 3 : alone.weights * 2 / 3);
    });
  }
}

TEST(LearntRanks, TakeNoLockFreeSteps) {
  Recipe options = learnt_options(8, 5);
  options.lock_free = true;
  EXPECT_NO_THROW(require_possible(options, {.in_groups = ranks().in_groups()}));
  run_thread_ranks(2, [&](Ranks& ranks) {
    EXPECT_THROW(require_possible(options, {.in_groups = ranks.in_groups()}), UserError);
  });
}

TEST(LearntRanks, ShardOnlyLearntVectors) {
  const Dataset made = random_data({.rows = 50});
  const DataView data(made);
  Recipe options = options_of("prox", 1);
  EXPECT_NO_THROW(require_shape(options, facts_of(data)));
  options.shard_embedding = true;
  EXPECT_THROW(require_shape(options, facts_of(data)), UserError);
  EXPECT_NO_THROW(require_shape(learnt_options(8, 5), facts_of(data)));
}

}  // namespace
}  // namespace truemax
