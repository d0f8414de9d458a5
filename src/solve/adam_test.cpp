#include "solve/adam.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace truemax {
namespace {

// m and v after some gradients, by their definition.
struct Means {
  double m = 0, v = 0;
  void add(double g, double share_of_v) {
    m = kAdamKeep * m + (1 - kAdamKeep) * g;
    v = (1 - share_of_v) * v + share_of_v * g * g;
  }
};

TEST(AdamMeans, GradientsOfOneHaveMeansOfOne) {
  AdamMeans means;
  Means of_one;
  for (int t = 0; t < 1000; ++t) {
    means.advance();
    of_one.add(1, means.square_share());
    EXPECT_NEAR(of_one.m * means.correction(), 1, 1e-12);
    EXPECT_NEAR(of_one.v, 1, 1e-12);
    EXPECT_GE(means.most(), 1 - 1e-12);
  }
}

TEST(AdamMeans, SquaresOfTheFirstHalfCountAnEighth) {
  AdamMeans means;
  double first_half = 1;
  for (int t = 0; t < 20000; ++t) {
    means.advance();
    if (t >= 10000) first_half *= 1 - means.square_share();
  }
  EXPECT_NEAR(first_half, std::pow(0.5, kAdamWindow), 1e-3);
}

TEST(AdamMeans, NoGradientsMoveAWeightFurtherThanTheBound) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (const double rare : {1.0, 0.1, 0.01})
    for (int run = 0; run < 20; ++run) {
      AdamMeans means;
      Means of;
      for (int t = 0; t < 2000; ++t) {
        means.advance();
        const bool seen = std::uniform_real_distribution<double>(0, 1)(random) < rare;
        of.add(seen ? std::exp(3 * normal(random)) * (normal(random) > -1 ? 1 : -1) : 0,
               means.square_share());
        if (of.v > 0) {
          ASSERT_LE(std::abs(of.m) * means.correction() / std::sqrt(of.v), means.most() * (1 + 1e-12));
        }
      }
    }
}

// Gradients g_i = a_i/b_i, of the weights of m and v, attain the bound.
TEST(AdamMeans, SomeGradientsAttainTheBound) {
  for (const std::size_t steps : {1U, 2U, 3U, 10U, 200U, 3000U}) {
    AdamMeans means;
    std::vector<double> a, b;
    for (std::size_t t = 0; t < steps; ++t) {
      means.advance();
      for (double& weight : a) weight *= kAdamKeep;
      for (double& weight : b) weight *= 1 - means.square_share();
      a.push_back(1 - kAdamKeep), b.push_back(means.square_share());
    }
    double m = 0, v = 0;
    for (std::size_t i = 0; i < steps; ++i) {
      if (b[i] == 0) continue;  // none: the first share of v is 1, and the second below
      const double g = a[i] / b[i];
      m += a[i] * g, v += b[i] * g * g;
    }
    EXPECT_NEAR(m * means.correction() / std::sqrt(v) / means.most(), 1, 1e-9) << steps;
  }
}

TEST(AdamMeans, CatchUp) {
  for (const std::uint64_t steps : {0U, 1U, 777U, 100000U}) {
    AdamMeans one;
    for (std::uint64_t t = 0; t < steps; ++t) one.advance();
    const AdamMeans other(steps);
    EXPECT_EQ(one.steps(), other.steps());
    EXPECT_EQ(one.square_share(), other.square_share());
    if (steps == 0) continue;
    EXPECT_EQ(one.correction(), other.correction());
    EXPECT_NEAR(one.most(), other.most(), 1e-12 * one.most());
  }
  EXPECT_GT(AdamMeans(std::uint64_t{1} << 62).most(), 1);  // at once
}

}  // namespace
}  // namespace truemax
