// The descriptions of training options: their tags, and the defaults that the help shows.
#include "train/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/draft.hpp"
#include "train/resolve.hpp"
#include "train/run.hpp"

namespace truemax {
namespace {

using ::testing::ElementsAre;

template <class Options>
OptionTable table_of(Options& options) {
  OptionTable table;
  options.describe(table);
  return table;
}

template <class Wanted>
std::vector<std::string> names_of(const OptionTable& table, const Wanted& wanted) {
  std::vector<std::string> names;
  for (const Option& option : table.options())
    if (wanted(option)) names.push_back(option.name);
  return names;
}

TEST(TrainOptions, RunWideOnesAreNotTunable) {
  Recipe recipe;
  Asked asked;
  for (const OptionTable& table : {table_of(recipe), table_of(asked)})
    EXPECT_THAT(
        names_of(table, [](const Option& o) { return !o.tags.tunable; }),
        ElementsAre("epochs", "steps", "newton", "seconds", "encoder", "hidden", "layers", "tied",
                    "row-state", "dropout", "ridge-by-spread", "valid-share", "patience", "eval-every",
                    "eval", "eval-rows", "eval-classes", "threads", "device", "shard-embedding"));
}

TEST(RunOptions, ReplayAllowsThoseThatChangeNoResult) {
  RunOptions options;
  const OptionTable table = table_of(options);
  EXPECT_THAT(names_of(table, [](const Option& o) { return o.tags.replay == Replay::free; }),
              ElementsAre("threads", "device", "shard-embedding", "model", "split-model", "log",
                          "memory-limit", "checkpoint", "checkpoint-every", "resume", "replay"));
  EXPECT_THAT(names_of(table, [](const Option& o) { return o.tags.replay == Replay::test; }),
              ElementsAre("test", "test-label-file", "test-split", "test-row-weights"));
}

// The help must show what resolve_reading() does.
TEST(TrainOptions, DefaultsMatchAuto) {
  Asked fresh, plain;
  const Reading reading = resolve_reading({}, {}, {});
  table_of(plain).from_json(reading.to_json());
  const OptionTable shown = table_of(fresh), done = table_of(plain);
  std::vector<std::string> open;
  for (const Option& option : shown.options()) {
    const std::string& said =
        option.tags.plain_default.empty() ? option.default_value : option.tags.plain_default;
    if (said == kFoundByTrials || said == kChosenFromData || option.name == "draw")
      open.push_back(option.name);
    else
      EXPECT_EQ(said, done.find(option.name)->default_value) << option.name;
  }
  EXPECT_THAT(open, ElementsAre("step", "epochs", "newton", "classes-per-step", "draw", "head", "rivals",
                                "layers", "tied", "row-state", "dropout", "ridge", "ridge-by-spread"));
  EXPECT_TRUE(reading.automatic);
  for (const char* name : {"step", "epochs", "ridge", "draw", "head", "classes-per-step", "encoder"})
    EXPECT_TRUE(reading.is_open(name)) << name;
  EXPECT_EQ(shown.find("schedule")->default_text(), "linear (named methods: decay)");
}

TEST(TrainOptions, AskedHasOnlyWhatWasSaid) {
  Asked asked, again;
  EXPECT_TRUE(table_of(asked).to_json().empty());
  asked.step = 0.5, asked.draws.head = 32, asked.rule.rho = 2, asked.ridge_auto = true;
  const nlohmann::ordered_json said = table_of(asked).to_json();
  EXPECT_EQ(said.size(), 4U);
  EXPECT_EQ(said["ridge"], kAutomatic);
  table_of(again).from_json(said);
  EXPECT_EQ(table_of(again).to_json(), said);
  const Recipe recipe = over_defaults(again);
  EXPECT_EQ(recipe.step, 0.5);
  EXPECT_EQ(recipe.draws.head, 32U);
  EXPECT_EQ(recipe.rule.rho, 2);
  EXPECT_EQ(recipe.ridge, Recipe().ridge);
  EXPECT_EQ(to_json(recipe_of(to_json(recipe))), to_json(recipe));
}

TEST(TrainOptions, OldNamesAreStillRead) {
  Recipe options;
  OptionTable table = table_of(options);
  table.from_json({{"warm-start", true}, {"method", "bsgd"}, {"steps", 0}, {"patience", 0}, {"threads", 0}});
  EXPECT_TRUE(options.start_at_frequencies);
  EXPECT_EQ(options.method, "bsgd");
  EXPECT_EQ(table.find("warm-start"), nullptr);
  ASSERT_NE(table.find_other_name("warm-start"), nullptr);
  EXPECT_EQ(table.find_other_name("warm-start")->name, "start-at-frequencies");
}

}  // namespace
}  // namespace truemax
