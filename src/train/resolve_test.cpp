// --method auto: what follows from the options, the data and the machine, without a trial.
#include "train/resolve.hpp"

#include <gtest/gtest.h>

#include <string>

#include "train/resolve_test_support.hpp"

namespace truemax {
namespace {

std::string method_for(const Dataset& data, const Asked& asked) {
  return decided(data, asked).method;
}

TEST(Resolve, UsesAllClassesIfFewAndBlocksIfMany) {
  const Recipe few = decided(random_data({.rows = 400, .classes = 30}), asked_for());
  EXPECT_EQ(few.method, "prox");
  EXPECT_EQ(few.draw, "head-blocks");
  EXPECT_GE(few.draws.head, 30U);
  const Recipe many = decided(random_data({.rows = 4000, .classes = 2000, .features = 3000}), asked_for());
  EXPECT_LT(many.draws.head + many.classes_per_step, 500U);
  Asked told = asked_for();
  told.draw = "uniform", told.classes_per_step = 7;
  const Recipe kept = decided(random_data({.rows = 400, .classes = 30}), told);
  EXPECT_EQ(kept.draw, "uniform");
  EXPECT_EQ(kept.classes_per_step, 7U);
}

// The device is decided before the method: with a draw that the user gave, too.
TEST(Resolve, DecidesTheDeviceOfARunWithAllChoicesGiven) {
  const Dataset made = random_data({.rows = 400, .classes = 300});
  Asked asked = asked_for({"step", "ridge", "epochs"});
  asked.draw = "head-blocks", asked.draws.head = 64, asked.classes_per_step = 16;
  asked.encoder = EncoderKind::linear, asked.device = device::kAuto;
  ASSERT_TRUE(asked.automatic());
  const Reading reading = resolve_reading(asked, {}, {});
  EXPECT_EQ(reading.draft.device, device::kAuto);
  EXPECT_FALSE(reading.draft.sought.any());
  const Problem problem = facts_of({made}, false, reading.wanted, 1);
  const Resolved resolved = resolve(asked, problem, machine_of(1, 0, problem), {});
  EXPECT_FALSE(resolved.needs_card) << "not worth a look";
  EXPECT_NE(resolved.recipe.device, device::kAuto);
}

TEST(Resolve, AllRowsAtOnceForTheTrainingRowsIfTheyAreFew) {
  const Dataset few = random_data({.rows = 2000, .classes = 30, .features = 400});
  Asked train = asked_for({}, Target::train);
  train.epochs = 80;
  EXPECT_EQ(method_for(few, train), "lbfgs");
  for (const char* of_steps :
       {"step", "draw", "head", "classes-per-step", "rows-per-step", "rho", "rho-falls"})
    EXPECT_EQ(method_for(few, asked_for({"epochs", of_steps}, Target::train)), "prox") << of_steps;
  EXPECT_EQ(method_for(random_data({.rows = 2000, .classes = 30, .features = 300}), train), "adam")
      << "too few features for its rows";
  EXPECT_EQ(method_for(random_data({.rows = 9000, .classes = 30, .features = 1600}), train), "adam");
  EXPECT_EQ(method_for(random_data({.rows = 2000, .classes = 2000, .features = 3000}), train), "prox");
  Asked shorter = train;
  shorter.epochs = 79;
  EXPECT_EQ(method_for(few, shorter), "adam");
  Asked timed = asked_for({"newton"}, Target::train);
  timed.seconds = 10;
  EXPECT_EQ(method_for(few, timed), "lbfgs");
  timed.seconds = 0.02;
  EXPECT_EQ(method_for(few, timed), "adam");
}

TEST(Resolve, StepsByWeightForTheTrainingRowsIfWIsSmall) {
  const Dataset small = random_data({.rows = 4000, .classes = 30, .features = 60});
  const Asked train = asked_for({"newton"}, Target::train);
  EXPECT_EQ(method_for(small, train), "adam");
  EXPECT_EQ(method_for(small, asked_for()), "prox");
  for (const char* of_prox :
       {"step", "draw", "head", "classes-per-step", "rows-per-step", "rho", "rho-falls"})
    EXPECT_EQ(method_for(small, asked_for({of_prox}, Target::train)), "prox") << of_prox;
  EXPECT_EQ(method_for(random_data({.rows = 400, .classes = 2000, .features = 3000}), train), "prox");
  const Dataset many = random_data({.rows = 4000, .classes = 800, .features = 500, .most_nonzeros = 40});
  EXPECT_EQ(method_for(many, train), "prox") << "drawing is far cheaper";
  Asked few = asked_for({}, Target::train);
  few.epochs = 2;
  EXPECT_EQ(method_for(small, few), "prox");
  Asked timed = train;
  timed.seconds = 1e-5;
  EXPECT_EQ(method_for(small, timed), "prox") << "not a pass over the rows";
  timed.seconds = 1;
  EXPECT_EQ(method_for(small, timed), "adam");
}

TEST(Resolve, NewtonForFewRowsAndClassesUnlessStepsAreAskedFor) {
  const Dataset small = random_data({.rows = 400, .classes = 12});
  const Recipe few = decided(small, asked_for());
  EXPECT_GT(few.newton, 0U);
  EXPECT_EQ(few.epochs, 0U);
  for (const char* of_steps : {"newton", "step", "epochs", "draw", "schedule"})
    EXPECT_EQ(decided(small, asked_for({of_steps})).newton, 0U) << of_steps;
  Asked held_out = asked_for();
  held_out.valid_share = 0.2;
  EXPECT_EQ(decided(small, held_out).newton, 0U);
  for (const double seconds : {1e-4, 10.0}) {
    Asked limited = asked_for();
    limited.seconds = seconds;
    EXPECT_EQ(decided(small, limited).newton > 0, seconds > 1) << seconds;
  }
  const Dataset large = random_data({.rows = 90000, .classes = 30, .features = 40});
  EXPECT_EQ(decided(large, asked_for()).newton, 0U);
}

// Dense rows may be more, and have more classes, than sparse ones.
TEST(Resolve, NewtonForMoreDenseRowsThanSparseOnes) {
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
      EXPECT_EQ(decided(data, asked_for()).newton > 0, cheap) << classes << dense;
      Asked short_run = asked_for();
      short_run.seconds = 0.1;
      EXPECT_EQ(decided(data, short_run).newton, 0U) << classes << dense;
    }
}

TEST(Resolve, TargetTrainHasNoRidgeOrValidationRows) {
  const Asked asked = asked_for({"newton"}, Target::train);
  const Dataset data = random_data({.rows = 800, .classes = 12, .features = 40});
  for (const Recipe& recipe : {resolve_reading(asked, {}, {}).draft, decided(data, asked)}) {
    EXPECT_EQ(recipe.ridge, 0);
    EXPECT_FALSE(recipe.intercept);
    EXPECT_EQ(recipe.valid_share, 0);
  }
}

}  // namespace
}  // namespace truemax
