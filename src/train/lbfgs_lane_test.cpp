// The lane of lbfgs. EveryMethod's tests compare it with the slow trainer too.
#include "train/lbfgs_lane.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/test_access.hpp"
#include "train/fit.hpp"
#include "train/newton.hpp"
#include "train/slow_trainer.hpp"
#include "train/test_support.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

Recipe lbfgs_options(std::uint64_t epochs) {
  Recipe options = options_of("lbfgs", 1);
  options.epochs = epochs;
  return options;
}

// What a run minimises: the mean over rows by weight, with the ridge.
double objective(const Dataset& data, const Recipe& options, const Weights& weights) {
  double sum = 0, total = 0, squares = 0;
  for (std::uint32_t i = 0; i < data.size(); ++i) {
    const RowView x = x_of(data, i);
    const double z_y = score(weights, x, data.label[i]);
    double others = 0;
    for (ClassId k = 0; k < weights.classes(); ++k)
      if (k != data.label[i]) others += std::exp(score(weights, x, k) - z_y);
    sum += weight_of(data, i) * std::log1p(others), total += weight_of(data, i);
  }
  for (ClassId k = 0; k < weights.classes(); ++k) {
    squares += weights.squared_norm(k);
    if (options.ridge_intercept) squares += std::pow(weights.intercept_of(k), 2);
  }
  return (sum + 0.5 * options.ridge * squares) / total;
}

TEST(LbfgsLane, MatchesTheSlowTrainerOverManySteps) {
  for (const std::size_t classes : {3U, 40U, 90U})
    for (const int kind : {0, 1, 2}) {
      const Dataset data =
          random_data({.rows = 150, .classes = classes, .features = 25, .weights = kind == 1});
      Recipe options = lbfgs_options(8);
      options.ridge = kind == 0 ? 0 : 2, options.intercept = kind > 0, options.ridge_intercept = kind == 2;
      const RunState fast = run_epochs(data, options);
      const SlowState slow = slow_epochs(data, options);
      double most = 0, off = 0;
      std::vector<float> row(25);
      for (ClassId k = 0; k < classes; ++k) {
        fast.weights.copy_class(k, row);
        for (std::size_t f = 0; f < 25; ++f) {
          most = std::max(most, std::abs(slow.w[k][f]));
          off = std::max(off, std::abs(slow.w[k][f] - static_cast<double>(row[f])));
        }
      }
      EXPECT_GT(most, 0.1);
      EXPECT_LT(off, 1e-4 * most) << classes << ' ' << kind;
    }
}

TEST(LbfgsLane, TheLossOfTheModelNeverRises) {
  for (const double scale : {1.0, 30.0}) {
    const Dataset data = random_data({.rows = 120, .classes = 20, .features = 30, .scale = scale});
    const Recipe options = lbfgs_options(60);
    RunState state = make_state(data, options);
    StepLoop loop(data, planned(data, options));
    const std::atomic<bool> stop{false};
    double before = objective(data, options, state.weights);
    const double first = before;
    std::uint64_t shorter = 0;
    while (state.epoch < options.epochs) {
      loop.run(state, stop, {});
      const double now = objective(data, options, state.weights);
      ASSERT_LE(now, before * (1 + 1e-5)) << state.epoch;  // scores are in float32
      ASSERT_NEAR(state.lbfgs.search.loss, now, 1e-5 * now);
      shorter += state.lbfgs.search.tries;
      before = now;
    }
    EXPECT_LT(before, 0.5 * first);
    std::cout << "scale " << scale << ": " << shorter << " steps were too long\n";
  }
}

TEST(LbfgsLane, SameBitsForAnyNumberOfThreads) {
  for (const std::size_t classes : {10U, 40U, 130U}) {
    const Dataset data = random_data(
        {.rows = 1100, .classes = classes, .features = 600, .most_nonzeros = 60, .weights = true});
    Recipe options = lbfgs_options(25);
    options.intercept = true, options.ridge = 0.5;
    options.threads = 1;
    const auto one = bits_of(run_epochs(data, options));
    for (const std::uint64_t threads : {2U, 3U, 7U}) {
      options.threads = threads;
      EXPECT_EQ(bits_of(run_epochs(data, options)), one) << classes << ' ' << threads;
    }
  }
}

// After every step, also between two tries along a direction, and after more steps than there are pairs.
TEST(LbfgsLane, ResumesAnywhereWithTheSameBits) {
  const Dataset data = random_data({.rows = 120, .classes = 20, .features = 30});
  const Recipe options = lbfgs_options(90);
  const auto whole = bits_of(run_epochs(data, options));
  RunState state = make_state(data, options);
  const std::atomic<bool> stop{false};
  std::uint64_t between = 0;
  while (state.epoch < options.epochs) {
    StepLoop(data, planned(data, options)).run(state, stop, {});
    between += state.lbfgs.search.tries > 0 ? 1 : 0;
    StateBuffer bytes;
    write(state, bytes);
    state = RunState();
    read(state, bytes);
  }
  EXPECT_GT(between, 0U);
  EXPECT_EQ(bits_of(state), whole);
}

TEST(LbfgsLane, ReachesTheRidgeOptimumOfNewtonsMethod) {
  for (const double mu : {0.1, 3.0, 100.0})
    for (const int kind : {0, 1, 2}) {
      const Dataset data = random_data({.rows = 200, .classes = 12, .features = 20, .weights = kind == 1});
      Recipe options = lbfgs_options(200);
      options.ridge = mu, options.intercept = kind > 0, options.ridge_intercept = kind == 2;
      const double reached = objective(data, options, run_epochs(data, options).weights);
      Recipe exact = options;
      exact.newton = 100;
      RunState optimum = make_state(data, exact);
      const std::atomic<bool> stop{false};
      optimum.weights.fold_all();
      ASSERT_EQ(newton_fit(data, exact, optimum.weights, stop), NewtonEnd::optimum);
      EXPECT_NEAR(reached, objective(data, options, optimum.weights), 1e-6) << mu << ' ' << kind;
    }
}

// Tiny and huge features, and both together, as far apart as their weights may be.
TEST(LbfgsLane, LearnsWhateverTheUnitsOfTheFeatures) {
  const Dataset data = random_data({.rows = 200, .classes = 10, .features = 15});
  Recipe options = lbfgs_options(30);
  const double plain = objective(data, options, run_epochs(data, options).weights);
  for (const int kind : {0, 1, 2}) {
    Dataset scaled = data;
    for (std::size_t j = 0; j < scaled.rows.value.size(); ++j) {
      const bool huge = kind == 0 || (kind == 2 && scaled.rows.index[j] % 2 == 0);
      scaled.rows.value[j] *= kind == 2 ? (huge ? 1e9F : 1e-9F) : huge ? 1e30F : 1e-30F;
    }
    const RunState state = run_epochs(scaled, options);
    EXPECT_TRUE(std::isfinite(state.weights.largest()));
    EXPECT_NEAR(objective(scaled, options, state.weights), plain, 0.01 * plain) << kind;
  }
}

// Factors of two change no bit of the scores.
TEST(LbfgsLane, DoesNotDependOnTheUnitsOfFeaturesAndRowWeights) {
  const Dataset data = random_data({.rows = 200, .classes = 20, .features = 15, .weights = true});
  Dataset scaled = data;
  for (std::size_t j = 0; j < scaled.rows.value.size(); ++j)
    scaled.rows.value[j] =
        std::ldexp(scaled.rows.value[j], static_cast<int>(scaled.rows.index[j] % 5) * 8 - 16);
  for (auto& w : scaled.weight) w *= 1024;
  const Recipe options = lbfgs_options(12);
  const RunState plain = run_epochs(data, options), other = run_epochs(scaled, options);
  std::vector<float> one(15), two(15);
  for (ClassId k = 0; k < 20; ++k) {
    plain.weights.copy_class(k, one);
    other.weights.copy_class(k, two);
    for (std::size_t f = 0; f < 15; ++f)
      ASSERT_EQ(std::ldexp(two[f], static_cast<int>(f % 5) * 8 - 16), one[f]) << k << ' ' << f;
  }
}

TEST(LbfgsLane, EndsWhereFloatHasNoBetterPoint) {
  const Dataset data = random_data({.rows = 100, .classes = 5, .features = 6});
  Recipe options = lbfgs_options(2000);
  options.ridge = 1;
  const RunState state = run_epochs(data, options);
  EXPECT_TRUE(state.lbfgs.ended);
  EXPECT_EQ(state.epoch, 2000U);
  EXPECT_LT(std::sqrt(state.lbfgs.squared_gradient), 1e-5);
  options.epochs = 300;
  EXPECT_EQ(run_epochs(data, options).weights.largest(), state.weights.largest());
}

// Separable rows: the loss falls towards 0 and the weights grow without end.
TEST(LbfgsLane, FollowsSeparableRowsWithoutLeavingFloat) {
  Dataset data = random_data({.rows = 60, .classes = 12, .features = 12, .most_nonzeros = 1});
  for (std::uint32_t i = 0; i < data.size(); ++i) data.label[i] = data.rows.index[data.rows.begin[i]];
  data.label_set.assign(data.label.begin(), data.label.end());
  const Recipe options = lbfgs_options(1000);
  const RunState state = run_epochs(data, options);
  EXPECT_TRUE(std::isfinite(state.weights.largest()));
  EXPECT_LT(objective(data, options, state.weights), 1e-20);
}

TEST(LbfgsLane, TakesOneRowOneClassAndEqualRows) {
  for (const std::size_t rows : {1U, 5U})
    for (const std::size_t classes : {1U, 2U, 17U}) {
      Dataset data = random_data({.rows = rows, .classes = classes, .features = 3, .most_nonzeros = 1});
      for (std::uint32_t i = 0; i < data.size(); ++i) {  // the same row with other labels
        data.rows.index[data.rows.begin[i]] = 0, data.rows.value[data.rows.begin[i]] = 1;
        data.label[i] = static_cast<ClassId>(i % std::min<std::size_t>(2, classes));
      }
      data.label_set.assign(data.label.begin(), data.label.end());
      for (const bool intercept : {false, true}) {
        Recipe options = lbfgs_options(100);
        options.intercept = intercept;
        const RunState state = run_epochs(data, options);
        EXPECT_TRUE(std::isfinite(state.weights.largest()));
        const double first = rows == 1 ? 0 : classes == 1 ? 0 : -0.6 * std::log(0.6) - 0.4 * std::log(0.4);
        EXPECT_NEAR(objective(data, options, state.weights), first, 1e-4) << rows << ' ' << classes;
        StateBuffer bytes;  // one class: the gradient is 0, and a checkpoint must not have what 1/0 leads to
        write(state, bytes);
        RunState again;
        EXPECT_NO_THROW(read(again, bytes)) << rows << ' ' << classes;
      }
    }
}

TEST(LbfgsLane, RefusesValuesThatFloatCannotAdd) {
  const Dataset data = random_data({.rows = 50, .classes = 5, .scale = 3e38});
  const Recipe options = lbfgs_options(2);
  StepLoop loop(data, planned(data, options));
  RunState state = make_state(data, options);
  const std::atomic<bool> stop{false};
  EXPECT_THROW(loop.run(state, stop, {}), DivergenceError);
  EXPECT_EQ(state.weights.largest(), 0);
  EXPECT_FALSE(state.lbfgs.known);
}

}  // namespace
}  // namespace truemax
