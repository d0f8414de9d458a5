// The lane of adam. EveryMethod's tests compare it with the slow trainer too.
#include "train/adam_lane.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "data/test_access.hpp"
#include "train/fit.hpp"
#include "train/test_support.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

Recipe adam_options(std::uint64_t rows) {
  Recipe options = options_of("adam", 1, Visit::shuffle);
  options.rows_per_step = rows, options.step = 0.1;
  return options;
}

// The mean over rows of weight times log-loss, in units of the mean weight.
double mean_loss(const Dataset& data, const Weights& weights) {
  double sum = 0, total = 0;
  for (std::uint32_t i = 0; i < data.size(); ++i) {
    const RowView x = x_of(data, i);
    const double z_y = score(weights, x, data.label[i]);
    double others = 0;
    for (ClassId k = 0; k < weights.classes(); ++k)
      if (k != data.label[i]) others += std::exp(score(weights, x, k) - z_y);
    sum += weight_of(data, i) * std::log1p(others), total += weight_of(data, i);
  }
  return sum / total;
}

// One step over all rows: m is a tenth of minus the gradient, in units of the features.
TEST(AdamLane, FollowsTheGradientOfTheLogLoss) {
  for (const std::size_t classes : {5U, 40U, 90U})
    for (const bool weights : {false, true}) {
      const Dataset data = random_data({.rows = 90, .classes = classes, .features = 12, .weights = weights});
      Recipe options = adam_options(data.size());
      options.intercept = true, options.epochs = 2;
      RunState state = run_epochs(data, options), before = run_epochs(data, options);  // anywhere
      state.moments = AdamLane::start(data, options);
      options.epochs = 3;
      Fit fit(data, planned(data, options), std::move(state));
      const std::atomic<bool> stop{false};
      ASSERT_EQ(fit.run({}, stop), Fit::End::used_up);
      const FeatureUnits units(data, 1);
      const Weights& mean = fit.state().moments.mean;
      const std::size_t features = data.space->features;
      Weights& w = before.weights;
      std::vector<float> of_class(features), moved(features), m(features);
      for (ClassId k = 0; k < classes; k += 7) {
        w.copy_class(k, of_class);
        mean.copy_class(k, m);
        for (std::size_t f = 0; f <= features; ++f) {
          constexpr float kMove = 1.0F / 64;
          const auto loss_at = [&](float by) {
            moved = of_class;
            if (f < features) moved[f] += by;
            w.set_class(k, moved);
            if (f == features) w.intercept()[k] += by;
            const double loss = mean_loss(data, w);
            if (f == features) w.intercept()[k] -= by;
            w.set_class(k, of_class);
            return loss;
          };
          const double slope = (loss_at(kMove) - loss_at(-kMove)) / (2 * static_cast<double>(kMove));
          const double inverse = f < features ? static_cast<double>(units.inverse[f]) : 1;
          const auto found = static_cast<double>(f < features ? m[f] : mean.intercept()[k]);
          EXPECT_NEAR(found / (1 - kAdamKeep), -slope * inverse, 2e-5 + 2e-4 * std::abs(slope))
              << classes << " classes, class " << k << ", feature " << f;
        }
      }
    }
}

TEST(AdamLane, SameBitsForAnyNumberOfThreads) {
  for (const std::size_t classes : {10U, 40U, 130U}) {
    const Dataset data = random_data(
        {.rows = 1100, .classes = classes, .features = 600, .most_nonzeros = 60, .weights = true});
    Recipe options = adam_options(512);
    options.intercept = true, options.ridge = 0.5, options.epochs = 2;
    options.threads = 1;
    const auto one = bits_of(run_epochs(data, options));
    for (const std::uint64_t threads : {2U, 3U, 7U}) {
      options.threads = threads;
      EXPECT_EQ(bits_of(run_epochs(data, options)), one) << classes << ' ' << threads;
    }
  }
}

// Features measured in other units, here by factors of two, lead to the same scores, bit for bit.
TEST(AdamLane, DoesNotDependOnTheUnitsOfTheFeatures) {
  const Dataset data = random_data({.rows = 200, .classes = 20, .features = 15});
  Dataset scaled = data;
  for (std::size_t j = 0; j < scaled.rows.value.size(); ++j)
    scaled.rows.value[j] =
        std::ldexp(scaled.rows.value[j], static_cast<int>(scaled.rows.index[j] % 5) * 8 - 16);
  Recipe options = adam_options(16);
  options.epochs = 4;
  const RunState plain = run_epochs(data, options), other = run_epochs(scaled, options);
  std::vector<float> one(15), two(15);
  for (ClassId k = 0; k < 20; ++k) {
    plain.weights.copy_class(k, one);
    other.weights.copy_class(k, two);
    for (std::size_t f = 0; f < 15; ++f)
      ASSERT_EQ(std::ldexp(two[f], static_cast<int>(f % 5) * 8 - 16), one[f]) << k << ' ' << f;
  }
}

TEST(AdamLane, DoesNotDependOnTheUnitOfTheRowWeights) {
  const Dataset data = random_data({.rows = 200, .classes = 20, .features = 15, .weights = true});
  Dataset heavy = data;
  for (auto& w : heavy.weight) w *= 1024;
  Recipe options = adam_options(16);
  options.epochs = 4;
  EXPECT_EQ(bits_of(run_epochs(heavy, options)), bits_of(run_epochs(data, options)));
}

TEST(AdamLane, RefusesValuesThatFloatCannotAdd) {
  const Dataset data = random_data({.rows = 50, .classes = 5, .scale = 3e38});
  const Recipe options = adam_options(8);
  StepLoop loop(data, planned(data, options));
  RunState state = make_state(data, options);
  const std::atomic<bool> stop{false};
  try {
    loop.run(state, stop, {});
    FAIL();
  } catch (const DivergenceError& error) {
    EXPECT_NE(std::string(error.what()).find("--method prox"), std::string::npos) << error.what();
  }
  EXPECT_EQ(state.weights.largest(), 0);
  EXPECT_EQ(state.moments.updates, 0U);
}

// Rare features and labels: one row in a hundred has its own feature and class. Adam's usual memory of
// squares, shorter than the time between two such rows, stops above the optimum (solve/adam.hpp).
TEST(AdamLane, ReachesTheOptimumOfRareFeatures) {
  Dataset data = random_data({.rows = 400, .classes = 3, .features = 3, .most_nonzeros = 1});
  for (std::uint32_t i = 0; i < 400; ++i) {
    data.rows.value[data.rows.begin[i]] = 1;
    data.rows.index[data.rows.begin[i]] = i % 100 == 0 ? 2 : i % 2;
    data.label[i] = i % 100 == 0 ? (i % 200 == 0 ? 2 : 0) : (i / 2) % 3 == 0 ? 1 : 0;
  }
  data.label_set.assign(data.label.begin(), data.label.end());
  // Rows of a feature are alike: the optimum gives each label its share of them.
  std::vector<std::vector<double>> count(3, std::vector<double>(3, 0.0));
  std::vector<double> of_feature(3, 0.0);
  for (std::uint32_t i = 0; i < 400; ++i) {
    const FeatureId f = data.rows.index[data.rows.begin[i]];
    ++count[f][data.label[i]], ++of_feature[f];
  }
  double best = 0;
  for (std::size_t f = 0; f < 3; ++f)
    for (std::size_t k = 0; k < 3; ++k)
      if (count[f][k] > 0) best -= count[f][k] / 400 * std::log(count[f][k] / of_feature[f]);
  Recipe options = adam_options(1);
  options.step = 0.3, options.schedule = Schedule::linear, options.epochs = 200;
  EXPECT_LT(mean_loss(data, run_epochs(data, options).weights), 1.002 * best);
}

}  // namespace
}  // namespace truemax
