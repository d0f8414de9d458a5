// The quick exp and log against long double: the errors stated in their header.
#include "solve/quick_math.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace truemax {
namespace {

TEST(QuickLog, IsWithinItsStatedErrorOnRandomInput) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-1021, 1023), near(-0.3, 0.3);
  for (int i = 0; i < 200000; ++i) {
    const double wide = std::exp2(exponent(random)), close = 1 + near(random);
    for (const double x : {wide, close}) {
      const long double truth = std::log(static_cast<long double>(x));
      EXPECT_LE(std::abs(static_cast<long double>(quick_log(x)) - truth),
                2e-9L * std::min(1.0L, std::abs(truth) * 3) + 1e-13L * std::abs(truth))
          << x;
    }
  }
}

TEST(QuickLog, IsAccurateAtTheEndsOfItsRange) {
  EXPECT_EQ(quick_log(1.0), 0.0);
  EXPECT_NEAR(quick_log(std::numeric_limits<double>::min()), std::log(std::numeric_limits<double>::min()),
              1e-8);
  EXPECT_NEAR(quick_log(std::numeric_limits<double>::max()), std::log(std::numeric_limits<double>::max()),
              1e-8);
}

TEST(QuickLog1p, IsWithinItsStatedErrorOnItsInterval) {
  for (int i = -12500; i <= 12500; ++i) {
    const double r = i * 1e-5;
    const long double truth = std::log1p(static_cast<long double>(r));
    EXPECT_LE(std::abs(static_cast<long double>(quick_log1p(r)) - truth),
              1e-8L * std::abs(static_cast<long double>(r)))
        << r;
  }
}

TEST(QuickExp, IsWithinItsStatedErrorOnRandomInput) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> wide(-708, 708), close(-2, 2);
  for (int i = 0; i < 200000; ++i)
    for (const double t : {wide(random), close(random)}) {
      const long double truth = std::exp(static_cast<long double>(t));
      EXPECT_LE(std::abs(static_cast<long double>(quick_exp(t)) - truth), 1e-8L * truth) << t;
    }
}

TEST(QuickExp, UnderflowsToZeroAndNeverOverflows) {
  EXPECT_EQ(quick_exp(-709), 0.0);
  EXPECT_EQ(quick_exp(-std::numeric_limits<double>::infinity()), 0.0);
  EXPECT_TRUE(std::isfinite(quick_exp(709)));
  EXPECT_TRUE(std::isfinite(quick_exp(std::numeric_limits<double>::infinity())));
  EXPECT_EQ(quick_exp(0), 1.0);
}

}  // namespace
}  // namespace truemax
