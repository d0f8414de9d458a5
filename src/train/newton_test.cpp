// Newton's method against an oracle of the optimum, and what does not change it.
#include "train/newton.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "core/error.hpp"
#include "train/require.hpp"
#include "train/ridge_oracle.hpp"

namespace truemax {
namespace {

const std::atomic<bool> kGo{false};

Recipe newton_options(double ridge, bool intercept = false) {
  Recipe options = options_of("prox", 1, Visit::shuffle);
  options.epochs = 0, options.newton = 100, options.ridge = ridge, options.intercept = intercept;
  return options;
}

RunState fitted(const DataView& data, const Recipe& options) {
  Fit fit(data, planned(data, options), make_state(data, options));
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
  Recipe options = newton_options(0.1);
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
        Recipe options = newton_options(0, true);
        options.newton = steps;
        RunState state = make_state(data, options);
        for (ClassId k = 0; k < 3; ++k)
          state.weights.set_class(k, std::vector<float>{k == 0 ? start : -start, start});
        Fit fit(data, planned(data, options), std::move(state));
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
  Recipe options = newton_options(1, true);
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
    Recipe options = newton_options(0, true);
    options.ridge_by_spread = by_spread;
    const RunState state = fitted(data, options);
    EXPECT_TRUE(std::isfinite(state.weights.largest()));
    EXPECT_TRUE(std::isfinite(loss_of(state, data)));
  }
}

TEST(Newton, StoppedItLeavesTheWeights) {
  const Dataset data = centres_data(120, 5);
  const Recipe options = newton_options(0.1);
  const std::atomic<bool> stop{true};
  Fit fit(data, planned(data, options), make_state(data, options));
  const std::vector<std::uint64_t> before = bits_of(fit.state());
  EXPECT_EQ(fit.run({}, stop), Fit::End::stopped);
  EXPECT_EQ(bits_of(fit.state()), before);
  EXPECT_EQ(newton_fit(data, options, fit.state().weights, stop), NewtonEnd::stopped);
  EXPECT_EQ(bits_of(fit.state()), before);
  EXPECT_EQ(fit.run({}, kGo), Fit::End::used_up);
  EXPECT_EQ(bits_of(fit.state()), bits_of(fitted(data, options)));
}

// Rows of 20 to 40 counts, whose frequencies depend on the class; a few classes have most of the rows.
Dataset counts_data(std::size_t rows, std::size_t classes, std::size_t features) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> unit;
  const auto pick = [&](std::size_t count, double power) {
    return static_cast<std::size_t>(static_cast<double>(count) * std::pow(unit(random), power));
  };
  Dataset data = random_data({.rows = rows, .classes = classes, .features = features});
  data.rows = {};
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t label = i < classes ? i : pick(classes, 2.5);
    data.label[i] = static_cast<ClassId>(label);
    std::map<std::size_t, float> count;
    for (int c = 0; c < 30; ++c)
      ++count[unit(random) < 0.5 ? pick(features, 1) : (label * 37 + pick(features / 20, 1) * 11) % features];
    for (const auto& [feature, value] : count)
      data.rows.index.push_back(static_cast<FeatureId>(feature)), data.rows.value.push_back(value);
    data.rows.begin.push_back(data.rows.index.size());
  }
  return data;
}

// |gradient| of the objective at a model, and at W = 0 without intercepts.
struct Gradients {
  double here, at_zero;
};
Gradients gradients(const Dataset& data, const Weights& weights, const Recipe& options) {
  const std::size_t classes = data.classes->size(), features = data.space->features, last = features;
  std::vector<std::vector<double>> w(classes, std::vector<double>(features + 1, 0.0));
  std::vector<float> row(features);
  for (ClassId k = 0; k < classes; ++k) {
    weights.copy_class(k, row);
    std::copy(row.begin(), row.end(), w[k].begin());
    if (options.intercept) w[k][last] = static_cast<double>(weights.intercept_of(k));
  }
  const auto length = [&](bool zero) {
    std::vector<std::vector<double>> g(classes, std::vector<double>(features + 1, 0.0));
    for (std::size_t i = 0; i < data.size(); ++i) {
      const RowView x = x_of(data, i);
      std::vector<double> p(classes, 0.0);
      for (std::size_t k = 0; k < classes && !zero; ++k) {
        p[k] = w[k][last];
        for (std::size_t j = 0; j < x.index.size(); ++j)
          p[k] += w[k][x.index[j]] * static_cast<double>(x.value[j]);
      }
      const double most = *std::max_element(p.begin(), p.end());
      double sum = 0;
      for (double& v : p) sum += v = std::exp(v - most);
      for (std::size_t k = 0; k < classes; ++k) {
        const double c = p[k] / sum - (k == data.label[i] ? 1 : 0);
        for (std::size_t j = 0; j < x.index.size(); ++j)
          g[k][x.index[j]] += c * static_cast<double>(x.value[j]);
        if (options.intercept) g[k][last] += c;
      }
    }
    double squares = 0;
    for (std::size_t k = 0; k < classes; ++k)
      for (std::size_t f = 0; f <= features; ++f) {
        const double v = g[k][f] + (f < last && !zero ? options.ridge * w[k][f] : 0);
        squares += v * v;
      }
    return std::sqrt(squares);
  };
  return {length(false), length(true)};
}

// Classes can be told apart, so that without much ridge probabilities are next to 0 or 1: then the Hessian
// says little about the objective a step away. With 120 classes the preconditioner is the diagonal.
TEST(Newton, ReachesTheOptimumOfSparseCountsFromAnyStart) {
  for (const std::size_t classes : {20U, 120U})
    for (const double ridge : {1e-5, 0.1, 1.0})
      for (const float start : {0.0F, 1.0F, 4.0F, 30.0F}) {
        SCOPED_TRACE(testing::Message() << classes << ' ' << ridge << ' ' << start);
        const Dataset data = counts_data(300, classes, 120);
        const Recipe options = newton_options(ridge, true);
        RunState state = make_state(data, options);
        std::vector<float> w(data.space->features);
        for (ClassId k = 0; k < classes; ++k) {
          for (std::size_t f = 0; f < w.size(); ++f)
            w[f] = start * (static_cast<float>((k * 31 + f * 17) % 13) / 6 - 1);
          state.weights.set_class(k, w);
        }
        const auto check = [&](const Weights& weights) {
          const Gradients found = gradients(data, weights, options);
          EXPECT_LT(found.here, 1e-6 * found.at_zero);
        };
        if (start < 10) {  // a fit would not start there, but where less is to go
          const NewtonProblem problem(data, options);
          NewtonProblem::Point at = problem.from(state.weights);
          EXPECT_EQ(problem.solve({ridge, false, 300, 1e-9}, at, kGo), NewtonEnd::optimum);
          RunState solved = make_state(data, options);
          problem.write(at, solved.weights);
          check(solved.weights);
        }
        Fit fit(data, planned(data, options), std::move(state));
        ASSERT_EQ(fit.run({}, kGo), Fit::End::used_up);
        EXPECT_EQ(fit.unsolved(), "");
        check(fit.state().weights);
      }
}

TEST(Newton, SaysThatItDidNotReachTheOptimum) {
  const Dataset data = counts_data(600, 120, 120);
  Recipe options = newton_options(0.1, true);
  options.newton = 2;
  Fit fit(data, planned(data, options), make_state(data, options));
  EXPECT_EQ(fit.run({}, kGo), Fit::End::used_up);
  EXPECT_NE(fit.unsolved().find("2 steps; give more --newton"), std::string::npos) << fit.unsolved();
}

TEST(Newton, EndsWithTheTimeAndSaysSo) {
  const Dataset data = counts_data(300, 20, 120);
  Recipe options = newton_options(0.1, true);
  options.seconds = 5;
  FakeClock clock(1);
  Stopwatch watch(clock.source());
  watch.resume();
  Fit fit(data, planned(data, options), make_state(data, options), &watch);
  EXPECT_EQ(fit.run({}, kGo), Fit::End::used_up);
  EXPECT_NE(fit.unsolved().find("give more --seconds"), std::string::npos) << fit.unsolved();
  EXPECT_LE(watch.seconds_running(), 15);
  EXPECT_TRUE(std::isfinite(loss_of(fit.state(), data)));
}

TEST(Newton, IsOnlyForLinearModels) {
  Recipe options = newton_options(1);
  EXPECT_NO_THROW(require_possible(options));
  options.ridge_by_spread = true;
  EXPECT_NO_THROW(require_possible(options));
  options.epochs = 1;
  EXPECT_THROW(require_possible(options), UserError);
  options.epochs = 0, options.ridge_by_spread = false, options.method = "scent", options.hidden = 8;
  EXPECT_THROW(require_possible(options), UserError);
}

}  // namespace
}  // namespace truemax
