// --method auto: what it chooses, that trials are reported and repeatable, and that the choice is close to
// what a manual search finds.
#include "train/automatic.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "train/device_choice.hpp"
#include "train/fit.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

const std::atomic<bool> kGo{false};

// The initial options of `truemax train` with only these options given.
Recipe asked(const std::vector<std::string>& given = {}, Target target = Target::valid) {
  Recipe options;
  options.target = target;
  options.threads = 1;
  options.complete(
      [&](const char* name) { return std::find(given.begin(), given.end(), name) != given.end(); });
  return options;
}

struct Seen final : TrainObserver {
  std::vector<SearchTrial> trials;
  void tried(const SearchTrial& trial) override { trials.push_back(trial); }
};

Recipe choose(const Dataset& data, Recipe options, Seen& seen, const std::optional<DataView>& valid = {}) {
  choose_shape(data, options);
  TrainObserver* const observers[] = {&seen};
  Stopwatch watch;
  watch.resume();
  EXPECT_TRUE(choose_by_trials({data, {}, valid}, options, {watch, observers, kGo}).finished);
  return options;
}

TEST(LearntSearch, TriesRidgeStepAndEpochsAndKeepsWhatIsGiven) {
  const Dataset data = random_data({.rows = 600, .classes = 20, .features = 40});
  Recipe options = asked();
  options.hidden = 8;
  options.complete([](const char* name) { return std::string(name) == "hidden"; });
  Seen seen;
  const Recipe chosen = choose(data, options, seen);
  EXPECT_EQ(chosen.method, "scent");
  EXPECT_FALSE(chosen.open.any());
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
  Seen again;
  const Recipe same = choose(data, options, again);
  EXPECT_EQ(same.ridge, chosen.ridge);
  EXPECT_EQ(same.step, chosen.step);
  EXPECT_EQ(same.epochs, chosen.epochs);

  Recipe told;
  told.hidden = 8, told.threads = 1, told.ridge = 0.5, told.step = 0.02, told.epochs = 3;
  told.complete([](const char* name) {
    const std::string n = name;
    return n == "hidden" || n == "ridge" || n == "step" || n == "epochs";
  });
  Seen none;
  const Recipe kept = choose(data, told, none);
  EXPECT_TRUE(none.trials.empty());
  EXPECT_EQ(kept.ridge, 0.5);
  EXPECT_EQ(kept.step, 0.02);
  EXPECT_EQ(kept.epochs, 3U);
}

TEST(Automatic, UsesAllClassesIfFewAndBlocksIfMany) {
  Recipe few = asked();
  choose_shape(random_data({.rows = 400, .classes = 30}), few);
  EXPECT_EQ(few.method, "prox");
  EXPECT_EQ(few.draw, "head-blocks");
  EXPECT_GE(few.draws.head, 30U);
  Recipe many = asked();
  choose_shape(random_data({.rows = 4000, .classes = 2000, .features = 3000}), many);
  EXPECT_LT(many.draws.head + many.classes_per_step, 500U);
  Recipe told = asked({"draw"});
  told.draw = "uniform", told.classes_per_step = 7;
  choose_shape(random_data({.rows = 400, .classes = 30}), told);
  EXPECT_EQ(told.draw, "uniform");
  EXPECT_EQ(told.classes_per_step, 7U);
}

// The device is decided before the method: with a draw that the user gave, too.
TEST(Automatic, DecidesTheDeviceOfARunWithAllChoicesGiven) {
  const Dataset made = random_data({.rows = 400, .classes = 300});
  const DataView data(made);
  Recipe options;
  options.draw = "head-blocks", options.draws.head = 64, options.classes_per_step = 16;
  options.encoder = EncoderKind::linear, options.device = device::kAuto;
  options.open = {};
  ASSERT_TRUE(options.automatic());
  EXPECT_NO_THROW(decide_device(data, options));
  EXPECT_NE(options.device, device::kAuto);
}

TEST(Automatic, AllRowsAtOnceForTheTrainingRowsIfTheyAreFew) {
  const Dataset few = random_data({.rows = 2000, .classes = 30, .features = 400});
  const auto method = [](const Dataset& data, Recipe options) {
    choose_shape(data, options);
    return options.method;
  };
  Recipe train = asked({"epochs"}, Target::train);
  train.epochs = 80;
  EXPECT_EQ(method(few, train), "lbfgs");
  for (const char* of_steps :
       {"step", "draw", "head", "classes-per-step", "rows-per-step", "rho", "rho-falls"})
    EXPECT_EQ(method(few, asked({"epochs", of_steps}, Target::train)), "prox") << of_steps;
  EXPECT_EQ(method(random_data({.rows = 2000, .classes = 30, .features = 300}), train), "adam")
      << "too few features for its rows";
  EXPECT_EQ(method(random_data({.rows = 9000, .classes = 30, .features = 1600}), train), "adam");
  EXPECT_EQ(method(random_data({.rows = 2000, .classes = 2000, .features = 3000}), train), "prox");
  Recipe shorter = train;
  shorter.epochs = 79;
  EXPECT_EQ(method(few, shorter), "adam");
  Recipe timed = asked({"newton"}, Target::train);
  timed.seconds = 10;
  EXPECT_EQ(method(few, timed), "lbfgs");
  timed.seconds = 0.02;
  EXPECT_EQ(method(few, timed), "adam");
  Seen none;
  const Recipe chosen = choose(few, train, none);
  EXPECT_TRUE(none.trials.empty());
  EXPECT_EQ(chosen.method, "lbfgs");
  EXPECT_FALSE(chosen.open.any());
  EXPECT_EQ(chosen.ridge, 0);
  chosen.check();
  Recipe other = train;
  other.epochs = 79;
  EXPECT_LT(evaluate(run_epochs(few, chosen).weights, few, 1)->log_loss,
            evaluate(run_epochs(few, choose(few, other, none)).weights, few, 1)->log_loss);
}

TEST(Automatic, StepsByWeightForTheTrainingRowsIfWIsSmall) {
  const Dataset small = random_data({.rows = 4000, .classes = 30, .features = 60});
  const auto method = [](const Dataset& data, Recipe options) {
    choose_shape(data, options);
    return options.method;
  };
  const Recipe train = asked({"newton"}, Target::train);
  EXPECT_EQ(method(small, train), "adam");
  EXPECT_EQ(method(small, asked()), "prox");
  for (const char* of_prox :
       {"step", "draw", "head", "classes-per-step", "rows-per-step", "rho", "rho-falls"})
    EXPECT_EQ(method(small, asked({of_prox}, Target::train)), "prox") << of_prox;
  EXPECT_EQ(method(random_data({.rows = 400, .classes = 2000, .features = 3000}), train), "prox");
  const Dataset many = random_data({.rows = 4000, .classes = 800, .features = 500, .most_nonzeros = 40});
  EXPECT_EQ(method(many, train), "prox") << "drawing is far cheaper";
  Recipe few = asked({"epochs"}, Target::train);
  few.epochs = 2;
  EXPECT_EQ(method(small, few), "prox");
  Recipe timed = train;
  timed.seconds = 1e-5;
  EXPECT_EQ(method(small, timed), "prox") << "not a pass over the rows";
  timed.seconds = 1;
  EXPECT_EQ(method(small, timed), "adam");

  Recipe options = train;
  options.epochs = 20;
  Seen none;
  const Recipe chosen = choose(small, options, none);
  EXPECT_TRUE(none.trials.empty());
  EXPECT_FALSE(chosen.open.any());
  EXPECT_EQ(chosen.ridge, 0);
  EXPECT_EQ(chosen.rows_per_step, 125U);
  chosen.check();
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

TEST(Automatic, SameChoiceForAnyNumberOfThreads) {
  const Dataset data = random_data({.rows = 1500, .classes = 12, .features = 40});
  Seen one, three;
  Recipe options = asked({"newton"});
  const Recipe first = choose(data, options, one);
  options.threads = 3;
  const Recipe second = choose(data, options, three);
  EXPECT_EQ(first.step, second.step);
  EXPECT_EQ(first.ridge, second.ridge);
  EXPECT_EQ(first.epochs, second.epochs);
  EXPECT_GT(first.ridge, 0);
  EXPECT_FALSE(first.open.any());
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

TEST(Automatic, KeepsOptionsThatAreSet) {
  const Dataset data = random_data({.rows = 800, .classes = 12, .features = 40});
  Seen none;
  Recipe all;
  all.step = 0.7, all.ridge = 0.25, all.epochs = 3, all.threads = 1;
  all.complete([](const char* name) { return std::string(name) != "visit" && std::string(name) != "draw"; });
  const Recipe chosen = choose(data, all, none);
  EXPECT_TRUE(none.trials.empty());
  EXPECT_EQ(chosen.step, 0.7);
  EXPECT_EQ(chosen.ridge, 0.25);
  EXPECT_EQ(chosen.epochs, 3U);
  Seen some;
  Recipe no_ridge;
  no_ridge.threads = 1;
  no_ridge.complete(
      [](const char* name) { return std::string(name) == "ridge" || std::string(name) == "newton"; });
  EXPECT_EQ(choose(data, no_ridge, some).ridge, 0) << "off on request";
  for (const SearchTrial& t : some.trials) EXPECT_EQ(t.ridge, 0);
}

TEST(Automatic, UsesTheGivenValidationRows) {
  const Dataset data = random_data({.rows = 800, .classes = 12, .features = 40});
  const Dataset valid = random_data({.rows = 300, .classes = 12, .features = 40, .seed = 2});
  Seen seen;
  choose(data, asked(), seen, DataView(valid));
  for (const SearchTrial& t : seen.trials) {
    EXPECT_EQ(t.judged_on, 300U);
    EXPECT_EQ(t.rows, 800U);
  }
}

TEST(Automatic, StepScalesWithUnitsOfWeightsAndFeatures) {
  const Dataset plain = random_data({.rows = 800, .classes = 12, .features = 40});
  Dataset weighted = plain, longer = plain;
  weighted.row_weight.assign(plain.rows.rows(), 8.0);
  weighted.weight.assign(plain.size(), 8.0);
  for (float& v : longer.rows.value) v *= 16;
  Seen seen;
  const Recipe prox = asked({"rho"}, Target::train), adam = asked({"newton"}, Target::train);
  const double step = choose(plain, prox, seen).step;
  EXPECT_NEAR(choose(weighted, prox, seen).step * 8 / step, 1, 1e-3);
  EXPECT_NEAR(choose(longer, prox, seen).step * 256 / step, 1, 1e-3);
  // adam takes its units from the data.
  const double of_score = choose(plain, adam, seen).step;
  EXPECT_EQ(choose(weighted, adam, seen).step, of_score);
  EXPECT_EQ(choose(longer, adam, seen).step, of_score);
}

TEST(Automatic, TargetTrainHasNoRidgeOrValidationRows) {
  const Recipe options = asked({"newton"}, Target::train);
  EXPECT_EQ(options.ridge, 0);
  EXPECT_FALSE(options.intercept);
  EXPECT_EQ(options.valid_share, 0);
  const Dataset data = random_data({.rows = 800, .classes = 12, .features = 40});
  for (const char* method : {"prox", "adam"}) {
    Seen seen;
    const bool trials = method == std::string("prox");
    const Recipe chosen = choose(data, trials ? asked({"rho"}, Target::train) : options, seen);
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

TEST(Automatic, WorksWithFewRows) {
  for (const std::size_t rows : {2U, 9U, 30U, 60U}) {
    const Dataset data = random_data({.rows = rows, .classes = 5, .features = 8});
    Seen seen;
    const Recipe chosen = choose(data, asked(), seen);
    EXPECT_GE(chosen.ridge, 0);
    EXPECT_GT(chosen.newton, 0U);
    EXPECT_EQ(seen.trials.empty(), rows < 10);
    Fit fit(data, chosen, make_state(data, chosen));
    EXPECT_EQ(fit.run({}, kGo), Fit::End::used_up);
    EXPECT_TRUE(std::isfinite(evaluate(fit.state().weights, data, 1)->log_loss));
    Seen steps;
    const Recipe stepped = choose(data, asked({"newton"}), steps);
    EXPECT_GT(stepped.step, 0);
    EXPECT_GT(stepped.epochs, 0U);
    EXPECT_TRUE(std::isfinite(evaluate(run_epochs(data, stepped).weights, data, 1)->log_loss));
  }
}

TEST(Automatic, NewtonForFewRowsAndClassesUnlessStepsAreAskedFor) {
  const Dataset small = random_data({.rows = 400, .classes = 12});
  Recipe options = asked();
  choose_shape(small, options);
  EXPECT_GT(options.newton, 0U);
  EXPECT_EQ(options.epochs, 0U);
  for (const char* of_steps : {"newton", "step", "epochs", "draw", "schedule", "valid-share"}) {
    Recipe told = asked({of_steps});
    choose_shape(small, told);
    EXPECT_EQ(told.newton, 0U) << of_steps;
  }
  Recipe timed = asked({"seconds"});
  timed.complete([](const char* name) { return std::string(name) == "seconds"; });
  for (const double seconds : {1e-4, 10.0}) {
    Recipe limited = timed;
    limited.seconds = seconds;
    choose_shape(small, limited);
    EXPECT_EQ(limited.newton > 0, seconds > 1) << seconds;
  }
  Recipe large = asked();
  choose_shape(random_data({.rows = 90000, .classes = 30, .features = 40}), large);
  EXPECT_EQ(large.newton, 0U);
}

// Dense rows may be more, and have more classes, than sparse ones.
TEST(Automatic, NewtonForMoreDenseRowsThanSparseOnes) {
  for (const std::size_t classes : {20U, 150U})
    for (const bool dense : {true, false}) {
      Dataset data = random_data({.rows = 4000, .classes = classes, .features = dense ? 20U : 60U});
      data.rows = {};
      for (std::size_t i = 0; i < data.size(); ++i) {
        for (FeatureId f = 0; f < 20; ++f)
          data.rows.index.push_back(f * (dense ? 1 : 3)), data.rows.value.push_back(f % 3 == 0 ? 1.0F : 2.0F);
        data.rows.begin.push_back(data.rows.index.size());
      }
      const bool cheap = dense || classes == 20;
      EXPECT_EQ(newton_is_cheap(data), cheap) << classes << dense;
      EXPECT_FALSE(newton_is_cheap(data, 0.1)) << classes << dense;
    }
}

// On a machine much slower than the counts assume, Newton's method leaves time for the fit, too.
TEST(Automatic, TrialsOfNewtonEndIfTheTimeIsUp) {
  const Dataset data = random_data({.rows = 400, .classes = 12, .features = 40});
  Recipe options = asked({"seconds"});
  options.seconds = 10;
  options.complete([](const char* name) { return std::string(name) == "seconds"; });
  choose_shape(data, options);
  ASSERT_GT(options.newton, 0U);
  Seen quick, slow;
  Recipe other = options;
  const auto with_clock = [&](double tick, Recipe& chosen, Seen& seen) {
    FakeClock clock(tick);
    Stopwatch watch(clock.source());
    watch.resume();
    TrainObserver* const observers[] = {&seen};
    chosen.threads = 1;
    EXPECT_TRUE(choose_by_trials({data}, chosen, {watch, observers, kGo}).finished);
    EXPECT_GT(chosen.ridge, 0);
    EXPECT_TRUE(chosen.ridge < std::numeric_limits<double>::infinity());
  };
  with_clock(0, options, quick);
  with_clock(0.05, other, slow);
  EXPECT_LT(slow.trials.size(), quick.trials.size());
}

// Columns far from 0, in which steps get nowhere.
TEST(Automatic, NewtonForTheTrainingLikelihoodOfFewRows) {
  Dataset data = random_data({.rows = 600, .classes = 5, .features = 6});
  data.rows = {};
  for (std::size_t i = 0; i < data.size(); ++i) {
    for (FeatureId f = 0; f < 6; ++f) {
      data.rows.index.push_back(f);
      data.rows.value.push_back(100.0F + static_cast<float>((i * 37 + f * 11 + data.label[i] * f) % 19));
    }
    data.rows.begin.push_back(data.rows.index.size());
  }
  Seen none;
  Recipe chosen = choose(data, asked({}, Target::train), none);
  EXPECT_GT(chosen.newton, 0U);
  EXPECT_EQ(chosen.ridge, 0);
  EXPECT_FALSE(chosen.intercept);
  EXPECT_TRUE(none.trials.empty());
  Recipe steps = asked({"epochs"}, Target::train);
  steps.epochs = 100;
  steps = choose(data, steps, none);
  EXPECT_EQ(steps.newton, 0U);
  const auto loss = [&](const Recipe& options) {
    Fit fit(data, options, make_state(data, options));
    EXPECT_EQ(fit.run({}, kGo), Fit::End::used_up);
    EXPECT_TRUE(fit.unsolved().empty()) << fit.unsolved();
    return evaluate(fit.state().weights, data, 1)->log_loss;
  };
  const double optimum = loss(chosen);
  EXPECT_LT(optimum, loss(steps));
  Recipe more = chosen;
  more.newton = 1000;
  EXPECT_NEAR(loss(more), optimum, 1e-9);
}

TEST(Automatic, EveryRowJudgesOnceAndThreadsDoNotMatter) {
  const Dataset data = random_data({.rows = 400, .classes = 12, .features = 40});
  Seen one, three;
  Recipe options = asked();
  const Recipe first = choose(data, options, one);
  options.threads = 3;
  const Recipe second = choose(data, options, three);
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
TEST(Automatic, RidgeOfFewRowsIsNearTheBestForNewOnes) {
  for (const double scale : {1.0, 100.0}) {
    const Dataset data = random_data({.rows = 250, .classes = 6, .scale = scale});
    const Dataset fresh = random_data({.rows = 4000, .classes = 6, .scale = scale, .seed = 2});
    Seen seen;
    const Recipe chosen = choose(data, asked(), seen);
    const auto loss = [&](double factor) {
      Recipe o = chosen;
      o.ridge *= factor;
      Fit fit(data, o, make_state(data, o));
      EXPECT_EQ(fit.run({}, kGo), Fit::End::used_up);
      return evaluate(fit.state().weights, fresh, 1)->log_loss;
    };
    double best = 1e300;
    for (const double factor : {0.01, 0.1, 0.3, 3.0, 10.0, 100.0}) best = std::min(best, loss(factor));
    EXPECT_LE(loss(1), 1.02 * best) << scale;
  }
}

// With --seconds the number of trials, their lengths and the choice follow from counted work, so that a
// slower machine makes the same choice.
TEST(Automatic, SameChoiceOnASlowMachine) {
  const Dataset data = random_data({.rows = 3000, .classes = 40, .features = 200});
  Recipe options = asked({"seconds"});
  options.seconds = 3;
  const auto with_clock = [&](double tick, Seen& seen) {
    Recipe o = options;
    choose_shape(data, o);
    FakeClock clock(tick);
    Stopwatch watch(clock.source());
    watch.resume();
    TrainObserver* const observers[] = {&seen};
    EXPECT_TRUE(choose_by_trials({data}, o, {watch, observers, kGo}).finished);
    return o;
  };
  Seen fast, slow;
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
TEST(Automatic, EndsTheSearchEarlyIfFarTooSlow) {
  const Dataset data = random_data({.rows = 3000, .classes = 40, .features = 200});
  Recipe options = asked({"seconds"});
  options.seconds = 3;
  choose_shape(data, options);
  FakeClock clock(0.1);
  Stopwatch watch(clock.source());
  watch.resume();
  Seen seen;
  TrainObserver* const observers[] = {&seen};
  EXPECT_TRUE(choose_by_trials({data}, options, {watch, observers, kGo}).finished);
  EXPECT_LE(seen.trials.size(), 1U);
  EXPECT_GT(options.step, 0);
}

// Labels that no training row of a trial has are ignored: with many of them, more ridge would always look
// better.
TEST(Automatic, ValidationIgnoresUnseenLabels) {
  Dataset data = random_data({.rows = 600, .classes = 12, .features = 40});
  std::vector<std::string> names;
  for (int k = 0; k < 312; ++k) names.push_back(fmt::format("{:03}", k));
  data.classes = std::make_shared<ClassList>(names, std::vector<double>(312, 1.0));
  for (std::size_t i = 0; i < 300; ++i) data.label[i] = static_cast<ClassId>(12 + i);  // each once
  Seen seen;
  choose(data, asked(), seen);
  ASSERT_FALSE(seen.trials.empty());
  for (const SearchTrial& t : seen.trials)
    EXPECT_LT(t.judged_on, 45U) << "about half of 60 have a known label";
}

TEST(Automatic, StopsWhenAsked) {
  const Dataset data = random_data({.rows = 800, .classes = 12, .features = 40});
  Recipe options = asked();
  choose_shape(data, options);
  const std::atomic<bool> stop{true};
  Stopwatch watch;
  watch.resume();
  EXPECT_FALSE(choose_by_trials({data}, options, {watch, {}, stop}).finished);
}

// With the intercept started at the class frequencies and W = 0, u is the row's exact normaliser.
TEST(StartAtFrequencies, IsTheClassFrequencyModel) {
  Dataset data = random_data({.rows = 500, .classes = 12, .features = 40});
  std::vector<std::string> names;
  std::vector<double> counts;
  for (int k = 0; k < 12; ++k) names.push_back(std::to_string(k)), counts.push_back(1 + k * k);
  data.classes = std::make_shared<ClassList>(names, counts);
  Recipe options = options_of("prox", 5);
  options.intercept = options.start_at_frequencies = true;
  const RunState state = make_state(data, options);
  double total = 0, loss = 0;
  for (ClassId k = 0; k < 12; ++k) total += data.classes->count(k);
  for (std::size_t i = 0; i < data.size(); ++i) {
    const double expected = -std::log(data.classes->count(data.label[i]) / total);
    EXPECT_NEAR(state.rows[i].u, expected, 1e-6);
    loss += expected / static_cast<double>(data.size());
  }
  EXPECT_NEAR(evaluate(state.weights, data, 1)->log_loss, loss, 1e-6);
  options.intercept = false;
  EXPECT_THROW(options.check(), UserError);
}

}  // namespace
}  // namespace truemax
