// Linear or learnt features: what is compared, what is chosen, and what memory decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "train/automatic.hpp"
#include "train/memory_plan.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

using Given = std::vector<std::string>;

Recipe completed(Recipe options, const Given& given) {
  options.threads = 1;
  options.complete(
      [&](const char* name) { return std::find(given.begin(), given.end(), name) != given.end(); });
  return options;
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
struct ChoiceSeen final : TrainObserver {
  std::vector<SearchTrial> trials;
  std::atomic<bool> stop{false};
  std::size_t stop_after = 1000000;
  void tried(const SearchTrial& trial) override {
    trials.push_back(trial);
    if (learnt() >= stop_after) stop = true;
  }
  std::size_t learnt() const {
    return static_cast<std::size_t>(
        std::count_if(trials.begin(), trials.end(), [](const SearchTrial& t) { return t.hidden > 0; }));
  }
};

SearchResult search_with(const Dataset& data, Recipe& options, ChoiceSeen& seen) {
  if (options.automatic()) choose_shape(data, options);
  TrainObserver* const observers[] = {&seen};
  Stopwatch watch;
  watch.resume();
  return choose_by_trials({data}, options, {watch, observers, seen.stop});
}

TEST(EncoderChoice, LearntFeaturesIfClassesShareTopics) {
  const Dataset data = topic_data(1200, 100, 200);
  Recipe options = completed({}, {});
  ChoiceSeen seen;
  const SearchResult result = search_with(data, options, seen);
  ASSERT_TRUE(result.finished);
  ASSERT_TRUE(result.compared.has_value());
  EXPECT_TRUE(result.compared->learnt_wins());
  EXPECT_EQ(options.encoder, EncoderKind::bag);
  EXPECT_EQ(options.hidden, 64U) << "of 100 classes";
  EXPECT_EQ(options.hidden, result.compared->hidden);
  EXPECT_EQ(options.method, "scent");
  EXPECT_FALSE(options.open.any());
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
  Recipe options = completed({}, {}), asked_for = options;
  ChoiceSeen seen, of_linear;
  const SearchResult result = search_with(data, options, seen);
  ASSERT_TRUE(result.compared.has_value());
  EXPECT_FALSE(result.compared->learnt_wins());
  EXPECT_GT(seen.learnt(), 0U);
  // The fit is what --encoder linear would run.
  asked_for.encoder = EncoderKind::linear;
  asked_for = completed(asked_for, {"encoder"});
  const SearchResult alone = search_with(data, asked_for, of_linear);
  EXPECT_FALSE(alone.compared.has_value());
  EXPECT_EQ(of_linear.learnt(), 0U);
  for (const Recipe* o : {&options, &asked_for}) {
    EXPECT_EQ(o->encoder, EncoderKind::linear);
    EXPECT_EQ(o->hidden, 0U);
    EXPECT_EQ(o->method, "prox");
  }
  EXPECT_EQ(options.step, asked_for.step);
  EXPECT_EQ(options.ridge, asked_for.ridge);
  EXPECT_EQ(options.epochs, asked_for.epochs);
  EXPECT_EQ(options.draws.head, asked_for.draws.head);
}

TEST(EncoderChoice, AStoppedSearchKeepsTheBetterOneSoFar) {
  const Dataset data = topic_data(1200, 100, 200);
  for (const std::size_t after : {0U, 2U}) {
    Recipe options = completed({}, {});
    ChoiceSeen seen;
    seen.stop_after = after;
    const SearchResult result = search_with(data, options, seen);
    EXPECT_FALSE(result.finished);
    EXPECT_EQ(options.hidden > 0, after > 0) << "two trials with learnt features beat the linear model";
    EXPECT_EQ(options.encoder, after > 0 ? EncoderKind::bag : EncoderKind::linear);
    EXPECT_EQ(result.trials, seen.trials.size());
    EXPECT_EQ(result.ridge, true) << "found, and worth telling";
  }
}

TEST(EncoderChoice, SecondsLeaveNoTimeForLearntTrials) {
  const Dataset data = topic_data(1200, 100, 200);
  Recipe options;
  options.seconds = 3;
  options = completed(options, {"seconds"});
  ChoiceSeen seen;
  EXPECT_FALSE(search_with(data, options, seen).compared.has_value());
  EXPECT_EQ(seen.learnt(), 0U);
  EXPECT_EQ(options.encoder, EncoderKind::linear);
}

TEST(EncoderChoice, FewClassesOrRowsAreLinearWithoutATrial) {
  for (const Dataset& data : {random_data({.rows = 200, .classes = 64, .features = 300}),
                              random_data({.rows = 40, .classes = 100, .features = 300})}) {
    Recipe options = completed({}, {});
    ChoiceSeen seen;
    EXPECT_FALSE(search_with(data, options, seen).compared.has_value());
    EXPECT_EQ(seen.learnt(), 0U);
    EXPECT_EQ(options.encoder, EncoderKind::linear);
  }
}

TEST(EncoderChoice, OptionsOfTheLinearStepAskForTheLinearModel) {
  for (const Given& given : std::vector<Given>{
           {"ridge"}, {"step"}, {"draw"}, {"head"}, {"classes-per-step"}, {"rows-per-step"}, {"rho"}}) {
    const Recipe options = completed({}, given);
    EXPECT_FALSE(options.open.encoder) << given[0];
    EXPECT_EQ(options.encoder, EncoderKind::linear) << given[0];
  }
  for (const Given& given : std::vector<Given>{{}, {"epochs"}, {"intercept"}, {"valid"}, {"visit"}})
    EXPECT_TRUE(completed({}, given).compares_encoders());
  Recipe steps, train, named, none, hidden;
  steps.steps = 5, train.target = Target::train, named.method = "prox", none.epochs = 0, hidden.hidden = 8;
  for (const Recipe& options : {steps, train, named, none})
    EXPECT_EQ(completed(options, {"method", "steps", "target", "epochs"}).encoder, EncoderKind::linear);
  EXPECT_EQ(completed(hidden, {"hidden"}).encoder, EncoderKind::bag);
  EXPECT_FALSE(completed(hidden, {"hidden"}).open.hidden);
}

TEST(EncoderChoice, RefusesWhatContradictsItself) {
  Recipe both, named;
  both.encoder = EncoderKind::linear, both.hidden = 8;
  EXPECT_THROW(completed(both, {"encoder", "hidden"}).check(), UserError);
  named.encoder = EncoderKind::bag, named.method = "scent";
  EXPECT_THROW(completed(named, {"encoder", "method"}).check(), UserError);
  named.hidden = 8;
  EXPECT_NO_THROW(completed(named, {"encoder", "method", "hidden"}).check());
}

TEST(EncoderChoice, TriesMoreLearntFeaturesUpToTheMost) {
  const Dataset data = topic_data(1200, 100, 200);
  Recipe options;
  options.encoder = EncoderKind::bag;
  options = completed(options, {"encoder"});
  ASSERT_TRUE(options.open.hidden);
  options.hidden = 1, options.open.most_hidden = 4;
  ChoiceSeen seen;
  search_with(data, options, seen);
  std::uint64_t most = 0, before = 1;
  for (const SearchTrial& t : seen.trials) {
    EXPECT_TRUE(t.hidden == before || (t.about == "hidden" && t.hidden == 2 * before));
    most = std::max(most, t.hidden), before = t.hidden;
  }
  EXPECT_EQ(most, 4U) << "ten topics";
  EXPECT_GE(options.hidden, 2U);
}

TEST(EncoderChoice, WeightsThatDoNotFitAreLearntFeaturesInstead) {
  const Dataset data = random_data({.rows = 300, .classes = 1000, .features = 20000});
  const TrainSets sets{data};
  constexpr std::uint64_t kLimit = 60000000;  // the linear weights alone are 80 MB
  Recipe options = completed({}, {});
  choose_shape(data, options);
  const std::string said = fit_to_memory(sets, options, kLimit);
  EXPECT_NE(said.find("1000 classes x 20000 features"), std::string::npos) << said;
  EXPECT_EQ(options.encoder, EncoderKind::bag);
  EXPECT_EQ(options.method, "scent");
  EXPECT_TRUE(options.open.hidden && options.open.step && !options.open.encoder);
  EXPECT_TRUE(plan_memory(sets, options, kLimit).fits());
  options.open.most_hidden *= 2;
  EXPECT_FALSE(plan_memory(sets, options, kLimit).fits()) << "no h is left out that would fit";

  for (const Given& given : {Given{"encoder"}, Given{"ridge"}}) {
    Recipe linear;
    if (given[0] == "encoder") linear.encoder = EncoderKind::linear;
    linear = completed(linear, given);
    choose_shape(data, linear);
    EXPECT_EQ(fit_to_memory(sets, linear, kLimit), "");
    EXPECT_THROW(plan_memory(sets, linear, kLimit).require(), UserError) << given[0];
  }
  Recipe nothing = completed({}, {});
  choose_shape(data, nothing);
  EXPECT_EQ(fit_to_memory(sets, nothing, 1000), "");
  EXPECT_THROW(plan_memory(sets, nothing, 1000).require(), UserError);
}

TEST(EncoderChoice, MemoryPlanIsThatOfTheLargerModel) {
  const Dataset wide = random_data({.rows = 300, .classes = 70, .features = 9000});
  const TrainSets sets{wide};
  Recipe options = completed({}, {});
  choose_shape(wide, options);
  EXPECT_EQ(fit_to_memory(sets, options, 0), "");
  ASSERT_TRUE(options.compares_encoders());
  EXPECT_EQ(options.open.most_hidden, 64U) << "below 70 classes";
  const MemoryPlan both = plan_memory(sets, options, 0);
  const MemoryPlan learnt = plan_memory(sets, as_learnt(wide, options, 64), 0);
  EXPECT_EQ(both.total(), learnt.total());
  Recipe linear = options;
  linear.open.encoder = linear.open.hidden = false;
  EXPECT_GT(both.total(), plan_memory(sets, linear, 0).total());
  // Room for the linear model only.
  const std::string said = fit_to_memory(sets, options, plan_memory(sets, linear, 0).total());
  EXPECT_TRUE(options.compares_encoders()) << said;
  EXPECT_LT(options.open.most_hidden, 64U);
}

}  // namespace
}  // namespace truemax
