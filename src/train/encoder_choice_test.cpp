// Linear or learnt features: what is compared, what is chosen, and what memory decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "train/memory_plan.hpp"
#include "train/resolve_test_support.hpp"

namespace truemax {
namespace {

using Given = std::vector<std::string>;

// What is known before rows are read.
Reading reading_of(const Asked& asked) {
  return resolve_reading(asked, {}, {});
}

// Rows of a topic: three of its features, and any of its classes. A linear model must learn every pair of a
// feature and a class of a topic; learnt features need one vector a topic.
Dataset topic_data(std::size_t rows, std::size_t classes, std::size_t features) {
  constexpr std::size_t kTopics = 10;
  Dataset data = random_data({.rows = 1, .classes = classes, .features = features});
  data.rows = {}, data.label.clear(), data.label_set.clear();
  data.label_begin.assign(1, 0);
  std::mt19937_64 random(7);
  const auto of = [&](std::size_t topic, std::size_t all) {
    return topic + kTopics * (random() % (all / kTopics));
  };
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t topic = random() % kTopics;
    std::vector<FeatureId> index(3);
    for (FeatureId& f : index) f = static_cast<FeatureId>(of(topic, features));
    std::sort(index.begin(), index.end());
    index.erase(std::unique(index.begin(), index.end()), index.end());
    for (const FeatureId f : index) data.rows.index.push_back(f), data.rows.value.push_back(1);
    data.rows.begin.push_back(data.rows.index.size());
    data.label.push_back(static_cast<ClassId>(of(topic, classes)));
    data.label_set.push_back(data.label.back());
    data.label_begin.push_back(data.label_set.size());
  }
  return data;
}

// Collects trials, and raises a flag after the so-manieth trial of learnt features.
struct ChoiceSeen final : TrialsSeen {
  std::atomic<bool> stop{false};
  std::size_t stop_after = 1000000;
  void tried(const SearchTrial& trial) override {
    TrialsSeen::tried(trial);
    if (learnt() >= stop_after) stop = true;
  }
  std::size_t learnt() const {
    return static_cast<std::size_t>(
        std::count_if(trials.begin(), trials.end(), [](const SearchTrial& t) { return t.hidden > 0; }));
  }
};

Found found_with(const Dataset& data, const Asked& asked, ChoiceSeen& seen) {
  return run_search({data}, Decided(asked, data), seen, seen.stop);
}

MemoryPlan memory_of(const Decided& run, const Recipe& recipe) {
  return bind(recipe, run.problem, run.machine).memory;
}

TEST(EncoderChoice, LearntFeaturesIfClassesShareTopics) {
  const Dataset data = topic_data(1200, 100, 200);
  ChoiceSeen seen;
  const auto& [options, result] = found_with(data, asked_for(), seen);
  ASSERT_TRUE(result.finished);
  ASSERT_TRUE(result.compared.has_value());
  EXPECT_TRUE(result.compared->learnt_wins());
  EXPECT_EQ(options.encoder, EncoderKind::bag);
  EXPECT_EQ(options.hidden, 64U) << "of 100 classes";
  EXPECT_EQ(options.hidden, result.compared->hidden);
  EXPECT_EQ(options.method, "scent");
  EXPECT_FALSE(options.sought.any());
  EXPECT_EQ(options.valid_share, 0);
  EXPECT_EQ(result.trials, seen.trials.size());
  for (std::size_t i = 0; i < seen.trials.size(); ++i) EXPECT_EQ(seen.trials[i].number, i + 1);
  // Both have the same rows and judges.
  const auto linear = std::find_if(seen.trials.begin(), seen.trials.end(),
                                   [](const SearchTrial& t) { return t.about == "linear"; });
  ASSERT_NE(linear, seen.trials.end());
  EXPECT_EQ(linear->hidden, 0U);
  EXPECT_EQ(linear->log_loss, result.compared->linear);
  for (auto t = linear; t != seen.trials.end(); ++t) {
    EXPECT_EQ(t->rows, linear->rows);
    EXPECT_EQ(t->judged_on, linear->judged_on);
  }
}

TEST(EncoderChoice, LinearIfEveryClassHasItsOwnFeature) {
  const Dataset data = random_data({.rows = 1500, .classes = 100, .features = 100, .most_nonzeros = 3});
  ChoiceSeen seen, of_linear;
  const auto& [options, result] = found_with(data, asked_for(), seen);
  ASSERT_TRUE(result.compared.has_value());
  EXPECT_FALSE(result.compared->learnt_wins());
  EXPECT_GT(seen.learnt(), 0U);
  // The fit is what --encoder linear would run.
  Asked linear = asked_for();
  linear.encoder = EncoderKind::linear;
  const auto& [alone, of_alone] = found_with(data, linear, of_linear);
  EXPECT_FALSE(of_alone.compared.has_value());
  EXPECT_EQ(of_linear.learnt(), 0U);
  for (const Recipe* o : {&options, &alone}) {
    EXPECT_EQ(o->encoder, EncoderKind::linear);
    EXPECT_EQ(o->hidden, 0U);
    EXPECT_EQ(o->method, "prox");
  }
  EXPECT_EQ(options.step, alone.step);
  EXPECT_EQ(options.ridge, alone.ridge);
  EXPECT_EQ(options.epochs, alone.epochs);
  EXPECT_EQ(options.draws.head, alone.draws.head);
}

TEST(EncoderChoice, AStoppedSearchKeepsTheBetterOneSoFar) {
  const Dataset data = topic_data(1200, 100, 200);
  for (const std::size_t after : {0U, 2U}) {
    ChoiceSeen seen;
    seen.stop_after = after;
    const auto& [options, result] = found_with(data, asked_for(), seen);
    EXPECT_FALSE(result.finished);
    EXPECT_EQ(options.hidden > 0, after > 0) << "two trials with learnt features beat the linear model";
    EXPECT_EQ(options.encoder, after > 0 ? EncoderKind::bag : EncoderKind::linear);
    EXPECT_EQ(result.trials, seen.trials.size());
    EXPECT_EQ(result.ridge, true) << "found, and worth telling";
  }
}

TEST(EncoderChoice, SecondsLeaveNoTimeForLearntTrials) {
  const Dataset data = topic_data(1200, 100, 200);
  Asked asked = asked_for();
  asked.seconds = 3;
  ChoiceSeen seen;
  const auto& [options, result] = found_with(data, asked, seen);
  EXPECT_FALSE(result.compared.has_value());
  EXPECT_EQ(seen.learnt(), 0U);
  EXPECT_EQ(options.encoder, EncoderKind::linear);
}

TEST(EncoderChoice, FewClassesOrRowsAreLinearWithoutATrial) {
  for (const Dataset& data : {random_data({.rows = 200, .classes = 64, .features = 300}),
                              random_data({.rows = 40, .classes = 100, .features = 300})}) {
    ChoiceSeen seen;
    const auto& [options, result] = found_with(data, asked_for(), seen);
    EXPECT_FALSE(result.compared.has_value());
    EXPECT_EQ(seen.learnt(), 0U);
    EXPECT_EQ(options.encoder, EncoderKind::linear);
  }
}

TEST(EncoderChoice, OptionsOfTheLinearStepAskForTheLinearModel) {
  for (const Given& given : std::vector<Given>{
           {"ridge"}, {"step"}, {"draw"}, {"head"}, {"classes-per-step"}, {"rows-per-step"}, {"rho"}}) {
    const Reading reading = reading_of(asked_for(given));
    EXPECT_FALSE(reading.is_open("encoder")) << given[0];
    EXPECT_EQ(reading.draft.encoder, EncoderKind::linear) << given[0];
  }
  for (const Given& given : std::vector<Given>{{}, {"epochs"}, {"intercept"}, {"visit"}})
    for (const bool has_valid : {false, true})
      EXPECT_TRUE(resolve_reading(asked_for(given), {.has_valid = has_valid}, {}).is_open("encoder"));
  const Given all{"method", "steps", "target", "epochs"};
  Asked steps, train, named, none, hidden;
  steps.steps = 5, train.target = Target::train, named.method = "prox", none.epochs = 0, hidden.hidden = 8;
  for (Asked asked : {steps, train, named, none}) {
    for (const std::string& name : all)
      if (OptionTable table; asked.describe(table), !table.find(name)->said()) say({name}, asked);
    EXPECT_EQ(reading_of(asked).draft.encoder, EncoderKind::linear);
  }
  EXPECT_EQ(reading_of(hidden).draft.encoder, EncoderKind::bag);
  EXPECT_FALSE(reading_of(hidden).is_open("hidden"));
}

TEST(EncoderChoice, RefusesWhatContradictsItself) {
  Asked both, named;
  both.encoder = EncoderKind::linear, both.hidden = 8;
  EXPECT_THROW(reading_of(both), UserError);
  named.encoder = EncoderKind::bag, named.method = "scent";
  EXPECT_THROW(reading_of(named), UserError);
  named.hidden = 8;
  EXPECT_NO_THROW(reading_of(named));
}

TEST(EncoderChoice, TriesMoreLearntFeaturesUpToTheMost) {
  const Dataset data = topic_data(1200, 100, 200);
  Asked asked = asked_for();
  asked.encoder = EncoderKind::bag;
  Decided run(asked, data);
  ASSERT_TRUE(run.recipe.sought.hidden);
  run.recipe.hidden = 1, run.recipe.most_hidden = 4;
  ChoiceSeen seen;
  const Found found = run_search({data}, run, seen, seen.stop);
  std::uint64_t most = 0, before = 1;
  for (const SearchTrial& t : seen.trials) {
    EXPECT_TRUE(t.hidden == before || (t.about == "hidden" && t.hidden == 2 * before));
    most = std::max(most, t.hidden), before = t.hidden;
  }
  EXPECT_EQ(most, 4U) << "ten topics";
  EXPECT_GE(found.recipe.hidden, 2U);
}

TEST(EncoderChoice, WeightsThatDoNotFitAreLearntFeaturesInstead) {
  const Dataset data = random_data({.rows = 300, .classes = 1000, .features = 20000});
  const TrainSets sets{data};
  constexpr std::uint64_t kLimit = 60000000;  // the linear weights alone are 80 MB
  const Decided run(asked_for(), sets, kLimit);
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_NE(run.notes[0].find("1000 classes x 20000 features"), std::string::npos) << run.notes[0];
  Recipe recipe = run.recipe;
  EXPECT_EQ(recipe.encoder, EncoderKind::bag);
  EXPECT_EQ(recipe.method, "scent");
  EXPECT_TRUE(recipe.sought.hidden && recipe.sought.step && !recipe.sought.encoder);
  EXPECT_TRUE(memory_of(run, recipe).fits());
  recipe.most_hidden *= 2;
  EXPECT_FALSE(memory_of(run, recipe).fits()) << "no h is left out that would fit";

  for (const Given& given : {Given{"encoder"}, Given{"ridge"}}) {
    Asked linear = asked_for(given);
    if (given[0] == "encoder") linear.encoder = EncoderKind::linear;
    const Decided kept(linear, sets, kLimit);
    EXPECT_TRUE(kept.notes.empty()) << given[0];
    EXPECT_THROW(memory_of(kept, kept.recipe).require(), UserError) << given[0];
  }
  const Decided nothing(asked_for(), sets, 1000);
  EXPECT_TRUE(nothing.notes.empty());
  EXPECT_THROW(memory_of(nothing, nothing.recipe).require(), UserError);
}

TEST(EncoderChoice, MemoryPlanIsThatOfTheLargerModel) {
  const Dataset wide = random_data({.rows = 300, .classes = 70, .features = 9000});
  const TrainSets sets{wide};
  const Decided run(asked_for(), sets);
  EXPECT_TRUE(run.notes.empty());
  ASSERT_TRUE(run.recipe.sought.encoder);
  EXPECT_EQ(run.recipe.most_hidden, 64U) << "below 70 classes";
  const MemoryPlan both = memory_of(run, run.recipe);
  ASSERT_TRUE(run.recipe.rival);
  Recipe learnt = *run.recipe.rival, linear = run.recipe;
  learnt.hidden = 64;
  EXPECT_EQ(both.total(), memory_of(run, learnt).total());
  linear.sought.encoder = linear.sought.hidden = false, linear.rival = nullptr;
  const std::uint64_t least = memory_of(run, linear).total();
  EXPECT_GT(both.total(), least);
  // Room for the linear model only.
  const Decided short_of(asked_for(), sets, least);
  EXPECT_TRUE(short_of.recipe.sought.encoder);
  EXPECT_LT(short_of.recipe.most_hidden, 64U);
}

}  // namespace
}  // namespace truemax
