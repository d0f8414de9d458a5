// Checkpoints of several ranks: the file does not depend on their number, nor on how they share out vectors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "data/test_support.hpp"
#include "ranks/thread_ranks.hpp"
#include "train/checkpoint.hpp"
#include "train/learnt_test_support.hpp"

namespace truemax {
namespace {

struct SavedCase {
  const char* name;
  DataView data;
  Recipe options;
};

std::vector<SavedCase> saved_cases() {
  std::vector<SavedCase> cases;
  Recipe linear = options_of("prox", 16, Visit::shuffle);
  linear.draw = "blocks", linear.group = 32, linear.ridge = 0.3, linear.intercept = true, linear.epochs = 1;
  cases.push_back({"prox", random_data({.rows = 300, .classes = 75, .features = 40}), linear});
  linear.method = "exact";
  cases.push_back({"exact", random_data({.rows = 300, .classes = 75, .features = 40}), linear});
  for (const bool row_state : {false, true}) {
    cases.push_back(
        {"bag", random_data({.rows = 300, .classes = 75, .features = 90}), learnt_options(32, 20, 12)});
    cases.back().options.row_state = row_state, cases.back().options.epochs = 1;
  }
  for (const bool tied : {false, true}) {
    cases.push_back({"context", random_text({.words = 500, .kinds = 70, .encoder = EncoderKind::context}),
                     learnt_options(32, 20, 12)});
    cases.back().options.layers = 1, cases.back().options.tied = tied, cases.back().options.epochs = 1;
  }
  cases.push_back({"triples", some_triples(300, 60, 3), complex_options(32, 20, 12)});
  return cases;
}

// A state in the middle of a run with --patience.
RunState some_state(const SavedCase& c, const std::string& folder) {
  RunState state = run_epochs(c.data, c.options);
  state.patience.waited = 1;
  state.patience.weights = std::make_shared<KeptWeights>(folder);
  state.patience.weights->keep(state.weights);
  state.patience.tables = state.learnt.tables;
  return state;
}

SavedRun about_it() {
  SavedRun about;
  about.asked = about.chosen = {{"step", 0.1}};
  about.fitting = true;
  return about;
}

std::string bytes_in(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

RunState read_back(const SavedCase& c, const std::string& path) {
  RunState state = make_state(c.data, c.options);
  state.patience.weights = std::make_shared<KeptWeights>("");
  CheckpointFile file(path);
  EXPECT_EQ(file.about().asked, about_it().asked);
  file.read_state(state);
  return state;
}

TEST(RanksCheckpoint, OfOneRankIsThatOfTheOrdinaryProgram) {
  for (const SavedCase& c : saved_cases()) {
    const TempFolder folder;
    const RunState state = some_state(c, "");
    write_checkpoint(folder.path("one"), about_it(), &state);
    run_thread_ranks(1, [&](Ranks&) {
      const RunState same = some_state(c, "");
      write_checkpoint(folder.path("ranks"), about_it(), &same);
    });
    EXPECT_TRUE(bytes_in(folder.path("ranks")) == bytes_in(folder.path("one"))) << c.name;
  }
}

TEST(RanksCheckpoint, ReadByAnyNumberOfRanksAndWrittenAgainHasTheSameBytes) {
  for (SavedCase& c : saved_cases())
    for (const std::size_t written_by : {1, 3})
      for (const std::size_t read_by : {1, 2, 4}) {
        const TempFolder folder;
        c.options.shard_embedding = written_by == 3;
        run_thread_ranks(written_by, [&](Ranks&) {
          const RunState state = some_state(c, folder.path(""));
          write_checkpoint(folder.path("first"), about_it(), &state);
        });
        c.options.shard_embedding = read_by == 2;
        run_thread_ranks(read_by, [&](Ranks&) {
          const RunState state = read_back(c, folder.path("first"));
          write_checkpoint(folder.path("again"), about_it(), &state);
        });
        EXPECT_TRUE(bytes_in(folder.path("again")) == bytes_in(folder.path("first")))
            << c.name << " " << written_by << " " << read_by;
      }
}

TEST(RanksCheckpoint, ARankHasItsOwnPartOfWhatAnotherNumberOfRanksSaved) {
  const SavedCase c = saved_cases()[0];
  const TempFolder folder;
  const RunState whole = some_state(c, "");
  write_checkpoint(folder.path("c"), about_it(), &whole);
  run_thread_ranks(3, [&](Ranks&) {
    const RunState own = read_back(c, folder.path("c"));
    std::vector<float> here(own.weights.features()), there(own.weights.features());
    for (ClassId k = 0; k < own.weights.classes(); ++k) {
      const ClassId global = own.weights.share()->global_class(k);
      own.weights.copy_class(k, here);
      whole.weights.copy_class(global, there);
      EXPECT_EQ(here, there);
      EXPECT_EQ(own.weights.intercept()[k], whole.weights.intercept()[global]);
    }
    EXPECT_EQ(own.step, whole.step);
    EXPECT_EQ(own.largest_weight, whole.largest_weight);
  });
}

// Every rank tracks the norms of its own classes.
TEST(RanksCheckpoint, NormsOfUmaxAreSharedOutAgain) {
  SavedCase c = saved_cases()[0];
  c.options.method = "umax";
  const TempFolder folder;
  const RunState whole = some_state(c, "");
  ASSERT_GT(whole.norms.total, 0);
  write_checkpoint(folder.path("one"), about_it(), &whole);
  run_thread_ranks(3, [&](Ranks& ranks) {
    const RunState own = read_back(c, folder.path("one"));
    ASSERT_EQ(own.norms.of_class.size(), own.weights.classes());
    for (ClassId k = 0; k < own.weights.classes(); ++k)
      EXPECT_EQ(own.norms.of_class[k], whole.norms.of_class[own.weights.share()->global_class(k)]);
    EXPECT_NEAR(ranks.sum_of(own.norms.total), whole.norms.total, 1e-9 * whole.norms.total);
    write_checkpoint(folder.path("three"), about_it(), &own);
  });
  const RunState again = read_back(c, folder.path("three"));
  EXPECT_EQ(again.norms.of_class, whole.norms.of_class);
  EXPECT_NEAR(again.norms.total, whole.norms.total, 1e-9 * whole.norms.total);
}

TEST(RanksCheckpoint, DamageIsOneErrorOfAllRanks) {
  const SavedCase c = saved_cases()[0];
  const TempFolder folder;
  const RunState whole = some_state(c, "");
  write_checkpoint(folder.path("c"), about_it(), &whole);
  std::string bytes = bytes_in(folder.path("c"));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  std::ofstream(folder.path("bad"), std::ios::binary) << bytes;
  run_thread_ranks(3, [&](Ranks& ranks) {
    for (const char* name : {"bad", "missing"}) {
      EXPECT_THROW(read_back(c, folder.path(name)), UserError);
      EXPECT_EQ(ranks.sum_of(1), 3);
    }
    RunState state = make_state(c.data, c.options);
    EXPECT_THROW(write_checkpoint(folder.path("no/such/c"), about_it(), &state), UserError);
    EXPECT_EQ(ranks.sum_of(1), 3);
  });
  EXPECT_EQ(bytes_in(folder.path("c")).size(), bytes.size());
}

}  // namespace
}  // namespace truemax
