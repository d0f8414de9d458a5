// Newton's method against an oracle of the optimum, and what does not change it.
#include "train/newton.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <vector>

#include "train/ridge_oracle.hpp"

namespace truemax {
namespace {

const std::atomic<bool> kGo{false};

TrainOptions newton_options(double ridge, bool intercept = false) {
  TrainOptions options = options_of("prox", 1, Visit::shuffle);
  options.epochs = 0, options.newton = 100, options.ridge = ridge, options.intercept = intercept;
  return options;
}

RunState fitted(const DataView& data, const TrainOptions& options) {
  Fit fit(data, options, make_state(data, options));
  EXPECT_EQ(fit.run({}, kGo), Fit::End::used_up);
  EXPECT_TRUE(fit.state().newton_done);
  return std::move(fit.state());
}

double loss_of(const RunState& state, const DataView& data) {
  return evaluate(state.weights, data, 1)->log_loss;
}

TEST(Newton, ReachesTheOptimum) {
  for (const bool weights : {false, true})
    for (const double mu : {0.0, 1e-3, 0.1, 1.0, 100.0}) {
      Dataset data = centres_data(120, 5);
      if (weights)
        for (std::size_t i = 0; i < data.size(); ++i) data.weight.push_back(i % 3 == 0 ? 3 : 0.5);
      const RidgeOracle oracle(data, mu);
      const double least = oracle.value(oracle.optimum());
      EXPECT_NEAR(oracle.value(fitted(data, newton_options(mu))) / least, 1, 1e-6) << mu << ' ' << weights;
    }
}

// The steps before it change where it starts, not where it ends.
TEST(Newton, EndsAtTheOptimumAfterEpochsToo) {
  const Dataset data = centres_data(120, 5);
  TrainOptions options = newton_options(0.1);
  options.epochs = 3, options.step = 0.5;
  const RidgeOracle oracle(data, 0.1);
  EXPECT_NEAR(oracle.value(fitted(data, options)) / oracle.value(oracle.optimum()), 1, 1e-6);
}

// From weights and values near the ends of float32, an intercept may be far beyond it: that is divergence,
// and the weights stay as they were.
TEST(Newton, KeepsTheWeightsFiniteFromAnyStart) {
  for (const double scale : {1e-30, 1.0, 1e30})
    for (const float start : {0.0F, 1e10F, 1e37F})
      for (const std::uint64_t steps : {1U, 100U}) {
        SCOPED_TRACE(testing::Message() << scale << ' ' << start << ' ' << steps);
        const Dataset data = random_data({.rows = 40, .classes = 3, .features = 2, .scale = scale});
        TrainOptions options = newton_options(0, true);
        options.newton = steps;
        RunState state = make_state(data, options);
        for (ClassId k = 0; k < 3; ++k)
          state.weights.set_class(k, std::vector<float>{k == 0 ? start : -start, start});
        Fit fit(data, options, std::move(state));
        const Fit::End end = fit.run({}, kGo);
        EXPECT_TRUE(end == Fit::End::used_up || end == Fit::End::diverged);
        if (end == Fit::End::diverged) {
          EXPECT_NE(fit.divergence().find("--ridge"), std::string::npos) << fit.divergence();
        }
        EXPECT_TRUE(std::isfinite(fit.state().weights.largest()));
      }
}

TEST(Newton, InterceptIsOutsideTheRidge) {
  const Dataset data = centres_data(120, 5);  // its last feature is always 1
  const double loss = loss_of(fitted(data, newton_options(1e9, true)), data);
  std::vector<double> count(5, 0.0);
  for (const ClassId label : data.label) ++count[label];
  double expected = 0;
  for (const double c : count) expected -= c / 120 * std::log(c / 120);
  EXPECT_NEAR(loss, expected, 1e-4);
}

// With features in other units, the same predictions.
TEST(Newton, RidgeBySpreadDoesNotDependOnTheUnitsOfFeatures) {
  const Dataset data = random_data({.rows = 300, .classes = 4, .features = 6});
  Dataset other = data;
  for (std::size_t j = 0; j < other.rows.value.size(); ++j)
    other.rows.value[j] *= std::pow(10.0F, static_cast<float>(other.rows.index[j]) - 3);
  TrainOptions options = newton_options(1, true);
  EXPECT_GT(std::abs(loss_of(fitted(other, options), other) / loss_of(fitted(data, options), data) - 1),
            0.01);
  options.ridge_by_spread = true;
  EXPECT_NEAR(loss_of(fitted(other, options), other) / loss_of(fitted(data, options), data), 1, 1e-5);
}

// Many features: another preconditioner.
TEST(Newton, SmallRidgeSeparatesMoreFeaturesThanRows) {
  const Dataset data = random_data({.rows = 40, .classes = 5, .features = 900});
  EXPECT_LT(loss_of(fitted(data, newton_options(1e-4, true)), data), 0.5);
}

TEST(Newton, FeaturesThatNeverChangeAndEmptyClassesDoNoHarm) {
  Dataset data = random_data({.rows = 60, .classes = 3, .features = 5, .scale = 1e6});
  std::vector<std::string> names{"0", "1", "2", "3"};
  data.classes = std::make_shared<ClassList>(names, std::vector<double>(4, 1.0));  // no row has the last one
  auto space = std::make_shared<FeatureSpace>(*data.space);
  space->features = 9;
  data.space = space;
  for (const bool by_spread : {false, true}) {
    TrainOptions options = newton_options(0, true);
    options.ridge_by_spread = by_spread;
    const RunState state = fitted(data, options);
    EXPECT_TRUE(std::isfinite(state.weights.largest()));
    EXPECT_TRUE(std::isfinite(loss_of(state, data)));
  }
}

TEST(Newton, StoppedItLeavesTheWeights) {
  const Dataset data = centres_data(120, 5);
  const TrainOptions options = newton_options(0.1);
  const std::atomic<bool> stop{true};
  Fit fit(data, options, make_state(data, options));
  const std::vector<std::uint64_t> before = bits_of(fit.state());
  EXPECT_EQ(fit.run({}, stop), Fit::End::stopped);
  EXPECT_EQ(bits_of(fit.state()), before);
  EXPECT_FALSE(newton_fit(data, options, fit.state().weights, stop));
  EXPECT_EQ(bits_of(fit.state()), before);
  EXPECT_EQ(fit.run({}, kGo), Fit::End::used_up);
  EXPECT_EQ(bits_of(fit.state()), bits_of(fitted(data, options)));
}

TEST(Newton, IsOnlyForLinearModels) {
  TrainOptions options = newton_options(1);
  EXPECT_NO_THROW(options.check());
  options.ridge_by_spread = true;
  EXPECT_NO_THROW(options.check());
  options.epochs = 1;
  EXPECT_THROW(options.check(), UserError);
  options.epochs = 0, options.ridge_by_spread = false, options.method = "scent", options.hidden = 8;
  EXPECT_THROW(options.check(), UserError);
}

}  // namespace
}  // namespace truemax
