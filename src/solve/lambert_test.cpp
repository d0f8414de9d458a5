// W(e^t) against 50-digit arithmetic.
#include "solve/lambert.hpp"

#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_dec_float.hpp>
#include <cmath>
#include <limits>
#include <random>

namespace truemax {
namespace {

using Digits50 = boost::multiprecision::cpp_dec_float_50;

// The relative error of w as a solution of w + log(w) = t: one Newton step in 50 digits.
double relative_error(double t, double w) {
  const Digits50 exact_w(w);
  const Digits50 residual = Digits50(t) - exact_w - log(exact_w);
  return std::abs((residual / (1 + exact_w)).convert_to<double>());
}

TEST(LambertWExp, IsWithinItsStatedErrorOnRandomInput) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> wide(-700, 700), narrow(-25, 25);
  std::uniform_real_distribution<double> exponent(-3, 15);
  double worst = 0;
  for (int i = 0; i < 40000; ++i) {
    const double t = i % 4 == 0   ? wide(random)
                     : i % 4 == 1 ? std::pow(10.0, exponent(random))
                                  : narrow(random);
    worst = std::max(worst, relative_error(t, lambert_w_exp(t)));
  }
  EXPECT_LT(worst, 5e-15);
}

TEST(LambertWExp, IsAccurateOnBothSidesOfEveryBranch) {
  for (const double edge : {-18.0, 1.0, 2.5, 1e10})
    for (const double t : {std::nextafter(edge, -1e11), edge, std::nextafter(edge, 1e11)})
      EXPECT_LT(relative_error(t, lambert_w_exp(t)), 5e-15) << t;
}

TEST(LambertWExp, IsFiniteAndMonotoneAtTheExtremes) {
  EXPECT_EQ(lambert_w_exp(-1e300), 0.0);
  EXPECT_EQ(lambert_w_exp(-800.0), 0.0);
  EXPECT_GT(lambert_w_exp(-700.0), 0.0);
  EXPECT_DOUBLE_EQ(lambert_w_exp(1.0), 1.0);
  EXPECT_DOUBLE_EQ(lambert_w_exp(1e300), 1e300);
  EXPECT_TRUE(std::isfinite(lambert_w_exp(std::numeric_limits<double>::max())));
  double before = 0;
  for (double t = -700; t < 700; t += 0.37) {
    const double w = lambert_w_exp(t);
    EXPECT_GT(w, before) << t;
    before = w;
  }
}

}  // namespace
}  // namespace truemax
