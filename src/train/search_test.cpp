// What trials choose: they are reported and repeatable, keep what was given, and come close to what a manual
// search finds.
#include "train/search.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "train/fit.hpp"
#include "train/require.hpp"
#include "train/resolve_test_support.hpp"

namespace truemax {
namespace {

const std::atomic<bool> kNoStop{false};

TEST(LearntSearch, TriesRidgeStepAndEpochsAndKeepsWhatIsGiven) {
  const Dataset data = random_data({.rows = 600, .classes = 20, .features = 40});
  Asked options = asked_for();
  options.hidden = 8;
  TrialsSeen seen;
  const Recipe chosen = chosen_for(data, options, seen);
  EXPECT_EQ(chosen.method, "scent");
  EXPECT_FALSE(chosen.sought.any());
  for (const char* about : {"ridge", "step", "epochs"})
    EXPECT_TRUE(std::any_of(seen.trials.begin(), seen.trials.end(), [&](const SearchTrial& t) {
      return t.about == about;
    })) << about;
  double least = seen.trials.front().log_loss;
  for (const SearchTrial& t : seen.trials) least = std::min(least, t.log_loss);
  // What is chosen is as good as any trial, but for gains that count as noise.
  EXPECT_TRUE(std::any_of(seen.trials.begin(), seen.trials.end(), [&](const SearchTrial& t) {
    return t.step == chosen.step && t.log_loss <= least * 1.006;
  }));
  TrialsSeen again;
  const Recipe same = chosen_for(data, options, again);
  EXPECT_EQ(same.ridge, chosen.ridge);
  EXPECT_EQ(same.step, chosen.step);
  EXPECT_EQ(same.epochs, chosen.epochs);

  Asked told = options;
  told.ridge = 0.5, told.step = 0.02, told.epochs = 3;
  TrialsSeen none;
  const Recipe kept = chosen_for(data, told, none);
  EXPECT_TRUE(none.trials.empty());
  EXPECT_EQ(kept.ridge, 0.5);
  EXPECT_EQ(kept.step, 0.02);
  EXPECT_EQ(kept.epochs, 3U);
}

TEST(Search, AllRowsAtOnceForTheTrainingRowsIfTheyAreFew) {
  const Dataset few = random_data({.rows = 2000, .classes = 30, .features = 400});
  Asked train = asked_for({}, Target::train);
  train.epochs = 80;
  TrialsSeen none;
  const Recipe chosen = chosen_for(few, train, none);
  EXPECT_TRUE(none.trials.empty());
  EXPECT_EQ(chosen.method, "lbfgs");
  EXPECT_FALSE(chosen.sought.any());
  EXPECT_EQ(chosen.ridge, 0);
  EXPECT_NO_THROW(require_possible(chosen));
  Asked other = train;
  other.epochs = 79;
  EXPECT_LT(evaluate(run_epochs(few, chosen).weights, few, 1)->log_loss,
            evaluate(run_epochs(few, chosen_for(few, other, none)).weights, few, 1)->log_loss);
}

TEST(Search, StepsByWeightForTheTrainingRowsIfWIsSmall) {
  const Dataset small = random_data({.rows = 4000, .classes = 30, .features = 60});
  Asked options = asked_for({"newton"}, Target::train);
  options.epochs = 20;
  TrialsSeen none;
  const Recipe chosen = chosen_for(small, options, none);
  EXPECT_TRUE(none.trials.empty());
  EXPECT_FALSE(chosen.sought.any());
  EXPECT_EQ(chosen.ridge, 0);
  EXPECT_EQ(chosen.rows_per_step, 125U);
  EXPECT_NO_THROW(require_possible(chosen));
  // As good as any step nearby.
  const auto loss = [&](double factor) {
    Recipe with = chosen;
    with.step *= factor;
    const RunState state = run_epochs(small, with);
    return evaluate(state.weights, small, 1)->log_loss;
  };
  const double best = loss(1);
  for (const double factor : {0.25, 0.5, 2.0, 4.0}) EXPECT_LT(best, 1.01 * loss(factor)) << factor;
}

TEST(Search, SameChoiceForAnyNumberOfThreads) {
  const Dataset data = random_data({.rows = 1500, .classes = 12, .features = 40});
  TrialsSeen one, three;
  Asked options = asked_for({"newton"});
  const Recipe first = chosen_for(data, options, one);
  options.threads = 3;
  const Recipe second = chosen_for(data, options, three);
  EXPECT_EQ(first.step, second.step);
  EXPECT_EQ(first.ridge, second.ridge);
  EXPECT_EQ(first.epochs, second.epochs);
  EXPECT_GT(first.ridge, 0);
  EXPECT_FALSE(first.sought.any());
  ASSERT_GE(one.trials.size(), 4U);
  ASSERT_EQ(one.trials.size(), three.trials.size());
  bool has[3] = {};
  for (std::size_t i = 0; i < one.trials.size(); ++i) {
    const SearchTrial& t = one.trials[i];
    EXPECT_EQ(t.log_loss, three.trials[i].log_loss);
    EXPECT_EQ(t.number, i + 1);
    EXPECT_TRUE(std::isfinite(t.log_loss));
    EXPECT_EQ(t.judged_on, 150U) << "a tenth of the rows was set aside";
    EXPECT_EQ(t.rows, 1350U);
    has[0] |= t.about == "ridge", has[1] |= t.about == "step", has[2] |= t.about == "epochs";
  }
  EXPECT_TRUE(has[0] && has[1] && has[2]);
  // The choice is the best of all trials, up to the noise of the validation rows.
  double best = 1e300, taken = 1e300;
  for (const SearchTrial& t : one.trials) {
    best = std::min(best, t.log_loss);
    if (t.ridge == first.ridge && t.step == first.step) taken = std::min(taken, t.log_loss);
  }
  EXPECT_LE(taken, best / (1 - 0.01));
}

TEST(Search, KeepsOptionsThatAreSet) {
  const Dataset data = random_data({.rows = 800, .classes = 12, .features = 40});
  TrialsSeen none;
  Asked all = asked_for();
  all.step = 0.7, all.ridge = 0.25, all.epochs = 3;
  say_all_but({"method", "visit", "draw"}, all);
  const Recipe chosen = chosen_for(data, all, none);
  EXPECT_TRUE(none.trials.empty());
  EXPECT_EQ(chosen.step, 0.7);
  EXPECT_EQ(chosen.ridge, 0.25);
  EXPECT_EQ(chosen.epochs, 3U);
  TrialsSeen some;
  const Asked no_ridge = asked_for({"ridge", "newton"});
  EXPECT_EQ(chosen_for(data, no_ridge, some).ridge, 0) << "off on request";
  for (const SearchTrial& t : some.trials) EXPECT_EQ(t.ridge, 0);
}

TEST(Search, UsesTheGivenValidationRows) {
  const Dataset data = random_data({.rows = 800, .classes = 12, .features = 40});
  const Dataset valid = random_data({.rows = 300, .classes = 12, .features = 40, .seed = 2});
  TrialsSeen seen;
  chosen_for(data, asked_for(), seen, DataView(valid));
  for (const SearchTrial& t : seen.trials) {
    EXPECT_EQ(t.judged_on, 300U);
    EXPECT_EQ(t.rows, 800U);
  }
}

TEST(Search, StepScalesWithUnitsOfWeightsAndFeatures) {
  const Dataset plain = random_data({.rows = 800, .classes = 12, .features = 40});
  Dataset weighted = plain, longer = plain;
  weighted.row_weight.assign(plain.rows.rows(), 8.0);
  weighted.weight.assign(plain.size(), 8.0);
  for (float& v : longer.rows.value) v *= 16;
  TrialsSeen seen;
  const Asked prox = asked_for({"rho"}, Target::train), adam = asked_for({"newton"}, Target::train);
  const double step = chosen_for(plain, prox, seen).step;
  EXPECT_NEAR(chosen_for(weighted, prox, seen).step * 8 / step, 1, 1e-3);
  EXPECT_NEAR(chosen_for(longer, prox, seen).step * 256 / step, 1, 1e-3);
  // adam takes its units from the data.
  const double of_score = chosen_for(plain, adam, seen).step;
  EXPECT_EQ(chosen_for(weighted, adam, seen).step, of_score);
  EXPECT_EQ(chosen_for(longer, adam, seen).step, of_score);
}

TEST(Search, TargetTrainHasNoRidgeOrValidationRows) {
  const Asked options = asked_for({"newton"}, Target::train);
  const Dataset data = random_data({.rows = 800, .classes = 12, .features = 40});
  for (const char* method : {"prox", "adam"}) {
    TrialsSeen seen;
    const bool trials = method == std::string("prox");
    const Recipe chosen = chosen_for(data, trials ? asked_for({"rho"}, Target::train) : options, seen);
    EXPECT_EQ(chosen.method, method);
    EXPECT_EQ(seen.trials.size() >= 2, trials);
    for (const SearchTrial& t : seen.trials) EXPECT_EQ(t.rows, 800U);
    // Near the best fixed step of the same run: within 10% of its log-loss.
    const auto loss_at = [&](double step) {
      Recipe o = chosen;
      o.step = step, o.epochs = 20;
      return evaluate(run_epochs(data, o).weights, data, 1)->log_loss;
    };
    double best = 1e300;
    for (const double factor : {0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0})
      best = std::min(best, loss_at(chosen.step * factor));
    EXPECT_LE(loss_at(chosen.step), 1.1 * best) << method;
  }
}

TEST(Search, WorksWithFewRows) {
  for (const std::size_t rows : {2U, 9U, 30U, 60U}) {
    const Dataset data = random_data({.rows = rows, .classes = 5, .features = 8});
    TrialsSeen seen;
    const Recipe chosen = chosen_for(data, asked_for(), seen);
    EXPECT_GE(chosen.ridge, 0);
    EXPECT_GT(chosen.newton, 0U);
    EXPECT_EQ(seen.trials.empty(), rows < 10);
    Fit fit(data, planned(data, chosen), make_state(data, chosen));
    EXPECT_EQ(fit.run({}, kNoStop), Fit::End::used_up);
    EXPECT_TRUE(std::isfinite(evaluate(fit.state().weights, data, 1)->log_loss));
    TrialsSeen steps;
    const Recipe stepped = chosen_for(data, asked_for({"newton"}), steps);
    EXPECT_GT(stepped.step, 0);
    EXPECT_GT(stepped.epochs, 0U);
    EXPECT_TRUE(std::isfinite(evaluate(run_epochs(data, stepped).weights, data, 1)->log_loss));
  }
}

// On a machine much slower than the counts assume, Newton's method leaves time for the fit, too.
TEST(Search, TrialsOfNewtonEndIfTheTimeIsUp) {
  const Dataset data = random_data({.rows = 400, .classes = 12, .features = 40});
  Asked options = asked_for();
  options.seconds = 10;
  const Decided run(options, data);
  ASSERT_GT(run.recipe.newton, 0U);
  TrialsSeen quick, slow;
  const auto with_clock = [&](double tick, TrialsSeen& seen) {
    FakeClock clock(tick);
    Stopwatch watch(clock.source());
    watch.resume();
    const Found found = run_search({data}, run, seen, watch, kNoStop);
    EXPECT_TRUE(found.search.finished);
    EXPECT_GT(found.recipe.ridge, 0);
    EXPECT_TRUE(found.recipe.ridge < std::numeric_limits<double>::infinity());
  };
  with_clock(0, quick);
  with_clock(0.05, slow);
  EXPECT_LT(slow.trials.size(), quick.trials.size());
}

// Columns far from 0, in which steps get nowhere.
TEST(Search, NewtonForTheTrainingLikelihoodOfFewRows) {
  Dataset data = random_data({.rows = 600, .classes = 5, .features = 6});
  data.rows = {};
  for (std::size_t i = 0; i < data.size(); ++i) {
    for (FeatureId f = 0; f < 6; ++f) {
      data.rows.index.push_back(f);
      data.rows.value.push_back(100.0F + static_cast<float>((i * 37 + f * 11 + data.label[i] * f) % 19));
    }
    data.rows.begin.push_back(data.rows.index.size());
  }
  TrialsSeen none;
  const Recipe chosen = chosen_for(data, asked_for({}, Target::train), none);
  EXPECT_GT(chosen.newton, 0U);
  EXPECT_EQ(chosen.ridge, 0);
  EXPECT_FALSE(chosen.intercept);
  EXPECT_TRUE(none.trials.empty());
  Asked stepping = asked_for({}, Target::train);
  stepping.epochs = 100;
  const Recipe steps = chosen_for(data, stepping, none);
  EXPECT_EQ(steps.newton, 0U);
  const auto loss = [&](const Recipe& options) {
    Fit fit(data, planned(data, options), make_state(data, options));
    EXPECT_EQ(fit.run({}, kNoStop), Fit::End::used_up);
    EXPECT_TRUE(fit.unsolved().empty()) << fit.unsolved();
    return evaluate(fit.state().weights, data, 1)->log_loss;
  };
  const double optimum = loss(chosen);
  EXPECT_LT(optimum, loss(steps));
  Recipe more = chosen;
  more.newton = 1000;
  EXPECT_NEAR(loss(more), optimum, 1e-9);
}

TEST(Search, EveryRowJudgesOnceAndThreadsDoNotMatter) {
  const Dataset data = random_data({.rows = 400, .classes = 12, .features = 40});
  TrialsSeen one, three;
  Asked options = asked_for();
  const Recipe first = chosen_for(data, options, one);
  options.threads = 3;
  const Recipe second = chosen_for(data, options, three);
  EXPECT_EQ(first.ridge, second.ridge);
  EXPECT_EQ(first.ridge_by_spread, second.ridge_by_spread);
  ASSERT_EQ(one.trials.size(), three.trials.size());
  ASSERT_GE(one.trials.size(), 5U);
  for (std::size_t i = 0; i < one.trials.size(); ++i) {
    EXPECT_EQ(one.trials[i].log_loss, three.trials[i].log_loss);
    EXPECT_EQ(one.trials[i].judged_on, 400U);
  }
}

// Rows of other values than those of the trials: the ridge found is near the best for them.
TEST(Search, RidgeOfFewRowsIsNearTheBestForNewOnes) {
  for (const double scale : {1.0, 100.0}) {
    const Dataset data = random_data({.rows = 250, .classes = 6, .scale = scale});
    const Dataset fresh = random_data({.rows = 4000, .classes = 6, .scale = scale, .seed = 2});
    TrialsSeen seen;
    const Recipe chosen = chosen_for(data, asked_for(), seen);
    const auto loss = [&](double factor) {
      Recipe o = chosen;
      o.ridge *= factor;
      Fit fit(data, planned(data, o), make_state(data, o));
      EXPECT_EQ(fit.run({}, kNoStop), Fit::End::used_up);
      return evaluate(fit.state().weights, fresh, 1)->log_loss;
    };
    double best = 1e300;
    for (const double factor : {0.01, 0.1, 0.3, 3.0, 10.0, 100.0}) best = std::min(best, loss(factor));
    EXPECT_LE(loss(1), 1.02 * best) << scale;
  }
}

// With --seconds the number of trials, their lengths and the choice follow from counted work, so that a
// slower machine makes the same choice.
TEST(Search, SameChoiceOnASlowMachine) {
  const Dataset data = random_data({.rows = 3000, .classes = 40, .features = 200});
  Asked options = asked_for();
  options.seconds = 3;
  const auto with_clock = [&](double tick, TrialsSeen& seen) {
    FakeClock clock(tick);
    Stopwatch watch(clock.source());
    watch.resume();
    const Found found = run_search({data}, Decided(options, data), seen, watch, kNoStop);
    EXPECT_TRUE(found.search.finished);
    return found.recipe;
  };
  TrialsSeen fast, slow;
  const Recipe first = with_clock(0, fast), second = with_clock(1e-6, slow);
  ASSERT_GE(fast.trials.size(), 3U);
  ASSERT_EQ(fast.trials.size(), slow.trials.size());
  for (std::size_t i = 0; i < fast.trials.size(); ++i) {
    EXPECT_EQ(fast.trials[i].steps, slow.trials[i].steps);
    EXPECT_EQ(fast.trials[i].log_loss, slow.trials[i].log_loss);
  }
  EXPECT_EQ(first.step, second.step);
  EXPECT_EQ(first.ridge, second.ridge);
  EXPECT_EQ(first.epochs, second.epochs);
}

// On a machine much slower than the counts assume, there must still be time for the fit.
TEST(Search, EndsTheSearchEarlyIfFarTooSlow) {
  const Dataset data = random_data({.rows = 3000, .classes = 40, .features = 200});
  Asked options = asked_for();
  options.seconds = 3;
  FakeClock clock(0.1);
  Stopwatch watch(clock.source());
  watch.resume();
  TrialsSeen seen;
  const Found found = run_search({data}, Decided(options, data), seen, watch, kNoStop);
  EXPECT_TRUE(found.search.finished);
  EXPECT_LE(seen.trials.size(), 1U);
  EXPECT_GT(found.recipe.step, 0);
}

// Labels that no training row of a trial has are ignored: with many of them, more ridge would always look
// better.
TEST(Search, ValidationIgnoresUnseenLabels) {
  Dataset data = random_data({.rows = 600, .classes = 12, .features = 40});
  std::vector<std::string> names;
  for (int k = 0; k < 312; ++k) names.push_back(fmt::format("{:03}", k));
  data.classes = std::make_shared<ClassList>(names, std::vector<double>(312, 1.0));
  for (std::size_t i = 0; i < 300; ++i) data.label[i] = static_cast<ClassId>(12 + i);  // each once
  TrialsSeen seen;
  chosen_for(data, asked_for(), seen);
  ASSERT_FALSE(seen.trials.empty());
  for (const SearchTrial& t : seen.trials)
    EXPECT_LT(t.judged_on, 45U) << "about half of 60 have a known label";
}

TEST(Search, StopsWhenAsked) {
  const Dataset data = random_data({.rows = 800, .classes = 12, .features = 40});
  const std::atomic<bool> stop{true};
  TrialsSeen none;
  EXPECT_FALSE(run_search({data}, Decided(asked_for(), data), none, stop).search.finished);
}

}  // namespace
}  // namespace truemax
