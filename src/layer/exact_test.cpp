#include "layer/exact.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "layer/layer_oracle.hpp"

namespace truemax {
namespace {

std::vector<double> scores_of(const TestLayer& layer, const TestBatch& batch, std::size_t i) {
  std::vector<double> z(layer.classes);
  for (std::size_t k = 0; k < layer.classes; ++k) {
    z[k] = layer.b(k);
    for (std::size_t c = 0; c < layer.features; ++c)
      z[k] += layer.w(k, c) * static_cast<double>(batch.x[i * layer.features + c]);
  }
  return z;
}

double log_sum_of(const std::vector<double>& z) {
  const double highest = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (const double v : z) sum += std::exp(v - highest);
  return highest + std::log(sum);
}

// Sizes on both sides of the slices of rows and of classes.
TEST(Exact, NllAndTopAreThoseOfAllScores) {
  for (const std::size_t classes : {1U, 3U, 1024U, 1025U, 2500U})
    for (const std::size_t rows : {1U, 255U, 300U})
      for (const bool bias : {false, true}) {
        TestLayer layer(classes, 6, 0, bias, 1, 1, 3);
        TestBatch batch(rows, 6, classes, 2);
        if (rows > 2) batch.target[1] = -100;
        Team team(2);
        std::vector<double> loss(rows);
        exact_nll(classes, 6, layer.arrays(), batch.batch(false), loss.data(), team);
        const std::size_t top = std::min<std::size_t>(classes, 5);
        std::vector<std::int64_t> found(rows * top);
        std::vector<double> log_p(rows * top);
        exact_top(classes, 6, layer.arrays(), batch.batch(false), top, found.data(), log_p.data(), team);
        for (std::size_t i = 0; i < rows; ++i) {
          const std::vector<double> z = scores_of(layer, batch, i);
          const double log_sum = log_sum_of(z);
          const std::int64_t y = batch.target[i];
          EXPECT_NEAR(loss[i], y < 0 ? 0 : log_sum - z[static_cast<std::size_t>(y)], 2e-5);
          std::vector<std::int64_t> order(classes);
          std::iota(order.begin(), order.end(), 0);
          std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                            [&](std::int64_t a, std::int64_t b) {
                              return z[static_cast<std::size_t>(a)] > z[static_cast<std::size_t>(b)];
                            });
          for (std::size_t j = 0; j < top; ++j) {
            const double wanted = z[static_cast<std::size_t>(order[j])] - log_sum;
            EXPECT_NEAR(log_p[i * top + j], wanted, 2e-5);
            EXPECT_NEAR(z[static_cast<std::size_t>(found[i * top + j])] - log_sum, wanted, 2e-5);
          }
        }
      }
}

TEST(Exact, AllClassesCanBeAskedForAndEqualsAreInOrder) {
  TestLayer layer(1500, 2, 0, false, 1, 0);
  const TestBatch batch(3, 2, 1500, 2);
  Team team(2);
  std::vector<std::int64_t> found(3 * 1500);
  std::vector<double> log_p(3 * 1500);
  exact_top(1500, 2, layer.arrays(), batch.batch(false), 1500, found.data(), log_p.data(), team);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i], static_cast<std::int64_t>(i % 1500));
    ASSERT_NEAR(log_p[i], -std::log(1500.0), 1e-6);
  }
}

TEST(Exact, HugeScoresStayFinite) {
  TestLayer layer(50, 4, 0, true, 1, 1e14);
  const TestBatch batch(10, 4, 50, 2, 1e14);
  Team team(1);
  std::vector<double> loss(10), log_p(10);
  std::vector<std::int64_t> found(10);
  exact_nll(50, 4, layer.arrays(), batch.batch(false), loss.data(), team);
  exact_top(50, 4, layer.arrays(), batch.batch(false), 1, found.data(), log_p.data(), team);
  for (const double l : loss) EXPECT_TRUE(std::isfinite(l) && l >= 0);
  for (const double l : log_p) EXPECT_TRUE(l <= 0);
  layer.weight[77] = NAN;
  EXPECT_THROW(exact_nll(50, 4, layer.arrays(), batch.batch(false), loss.data(), team), UserError);
}

}  // namespace
}  // namespace truemax
