// Learnt features on several ranks: the run of one rank, except for the order of sums.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "core/error.hpp"
#include "ranks/thread_ranks.hpp"
#include "train/learnt_test_support.hpp"
#include "train/trainer.hpp"

namespace truemax {
namespace {

struct RankedCase {
  const char* name;
  DataView data;
  TrainOptions options;
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

RunState one_epoch(const DataView& data, const TrainOptions& options) {
  RunState state = make_state(data, options);
  move_own_classes(state);
  StepLoop loop(data, options);
  const std::atomic<bool> stop{false};
  EXPECT_TRUE(loop.run(state, stop, {}));
  loop.publish(state);
  return state;
}

Metrics metrics_after_an_epoch(const DataView& data, const TrainOptions& options) {
  const std::atomic<bool> stop{false};
  return evaluate({}, 1, one_epoch(data, options), data, 1, &stop).value();
}

TEST(LearntRanks, HaveTheLossOfOneRankAfterAnEpoch) {
  for (const RankedCase& c : ranked_cases()) {
    const Metrics alone = metrics_after_an_epoch(c.data, c.options);
    for (const bool shard : {false, true})
      for (std::size_t size = 1; size <= 4; ++size) {
        TrainOptions options = c.options;
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
    TrainOptions options = c.options;
    options.shard_embedding = true;
    run_thread_ranks(1, [&](Ranks&) { EXPECT_EQ(bits_of(one_epoch(c.data, options)), ordinary) << c.name; });
  }
}

}  // namespace
}  // namespace truemax
