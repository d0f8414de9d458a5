// U-max: the jump of u and the SGD step after it, against 50-digit arithmetic.
#include "rule/umax.hpp"

#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_dec_float.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "rule/test_support.hpp"

namespace truemax {
namespace {

using Real = boost::multiprecision::cpp_dec_float_50;

struct Input {
  std::vector<double> score;  // m drawn classes, then the label
  std::vector<double> weight;
  double step = 1, row_weight = 1, u = 0, delta = 1;
};

struct Answer {
  std::vector<double> c;
  double u = 0;
};

Answer take(const Input& in, double alpha = 0, const ProblemInfo& problem = no_ridge()) {
  RuleOptions options;
  options.delta = in.delta;
  options.double_sum_alpha = alpha;
  StepInput step = one_row(in.score, in.weight, in.u, in.step);
  step.row_weight[0] = in.row_weight;
  UmaxRule rule(options, problem);
  const StepAnswer out = truemax::take(rule, step);
  return {out.c, out.u[0]};
}

// log(1 + sum of exp(z_k - z_y)) over the distinct drawn classes.
Real bound_of(const Input& in) {
  Real sum = 1;
  for (std::size_t j = 0; j < in.weight.size(); ++j) sum += exp(Real(in.score[j]) - Real(in.score.back()));
  return log(sum);
}

std::vector<Input> random_inputs(std::size_t count, double spread, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  std::vector<Input> list(count);
  for (std::size_t i = 0; i < count; ++i) {
    Input& in = list[i];
    const std::size_t m = 1 + i % 6;
    for (std::size_t j = 0; j <= m; ++j) in.score.push_back(spread * sym(random));
    for (std::size_t j = 0; j < m; ++j) in.weight.push_back(1 + 1000 * unit(random));
    in.step = std::pow(10.0, 3 * sym(random));
    in.row_weight = i % 2 == 0 ? 1 : 0.5;
    in.delta = std::pow(10.0, sym(random));
    in.u = 2 * spread * unit(random);
  }
  return list;
}

// Only the jump: the step is too small to change anything else.
double jumped(Input in) {
  in.step = std::numeric_limits<double>::min();
  return take(in).u;
}

TEST(UmaxRule, RaisesUToTheLogSumOfDistinctClasses) {
  std::size_t jumps = 0, stays = 0;
  for (const double spread : {0.1, 3.0, 50.0, 1e4})
    for (const Input& in : random_inputs(500, spread, 1)) {
      const Real exact = bound_of(in);
      if (abs(Real(in.u) - (exact - in.delta)) < Real(1e-9) * (1 + exact)) continue;  // rounding decides
      const double u = jumped(in);
      if (Real(in.u) < exact - in.delta) {
        ++jumps;
        EXPECT_NEAR(u, exact.convert_to<double>(), 4e-16 * (1 + std::abs(u)));
        EXPECT_GT(u, in.u);
      } else {
        ++stays;
        EXPECT_EQ(u, in.u);
      }
    }
  EXPECT_GT(jumps, 300U);
  EXPECT_GT(stays, 300U);
}

TEST(UmaxRule, JumpsOnlyMoreThanDeltaBelow) {
  for (const double delta : {1e-3, 0.5, 1.0, 3.0}) {
    Input in{{2, 1, -1, -2}, {5, 5, 5}, 1, 1, 0, delta};
    const double bound = bound_of(in).convert_to<double>();
    in.u = bound - delta + 1e-12;
    EXPECT_EQ(jumped(in), in.u) << delta;
    in.u = bound - delta - 1e-12;
    EXPECT_DOUBLE_EQ(jumped(in), bound) << delta;
  }
}

TEST(UmaxRule, CountsAClassDrawnTwiceOnce) {
  Input in{{3, 0}, {9}, 1, 1, 0, 1};
  const double once = jumped(in);
  in.weight[0] = 18;  // drawn twice, so twice the weight
  EXPECT_EQ(jumped(in), once);
  EXPECT_DOUBLE_EQ(once, std::log1p(std::exp(3.0)));
}

TEST(UmaxRule, TakesTheSgdStepFromTheRaisedU) {
  for (const double spread : {0.1, 3.0, 50.0})
    for (const Input& in : random_inputs(500, spread, 2)) {
      const Answer got = take(in);
      const std::size_t m = in.weight.size();
      const Real e = Real(in.step) * Real(in.row_weight), u(jumped(in));
      Real sum = 0;
      for (std::size_t j = 0; j < m; ++j) {
        const Real c = e * Real(in.weight[j]) * exp(Real(in.score[j]) - Real(in.score[m]) - u);
        sum += c;
        EXPECT_NEAR(got.c[j], -c.convert_to<double>(), 1e-13 * c.convert_to<double>() * (1 + spread));
      }
      EXPECT_NEAR(got.c[m], sum.convert_to<double>(), 1e-13 * sum.convert_to<double>() * (1 + spread));
      const Real moved = u - e * (1 - exp(-u)) + sum;
      const Real expected = moved < 0 ? Real(0) : moved;
      const double size = (u + e + sum).convert_to<double>();
      EXPECT_NEAR(got.u, expected.convert_to<double>(), 1e-13 * (1 + spread) * size);
    }
}

// Lemma 5: after the jump no exponent is above delta, for any scores.
TEST(UmaxRule, CoefficientsAreAtMostWeightTimesExpDelta) {
  for (const double spread : {1.0, 100.0, 1e6})
    for (const Input& in : random_inputs(1000, spread, 3)) {
      const Answer got = take(in);
      for (std::size_t j = 0; j < in.weight.size(); ++j)
        EXPECT_LE(-got.c[j], in.step * in.row_weight * in.weight[j] * std::exp(in.delta) * (1 + 1e-9));
    }
}

TEST(UmaxRule, UIsNeverNegative) {
  std::size_t at_zero = 0;
  for (const double step : {1.0, 1e3, 1e12})
    for (Input in : random_inputs(300, 20, 4)) {
      in.step = step;
      in.score.back() += 100;  // label far ahead: the step lowers u
      const double u = take(in).u;
      EXPECT_GE(u, 0);
      at_zero += u == 0;
    }
  EXPECT_GT(at_zero, 300U);
}

// With alpha > 0 the variable is v = u + alpha z_y: the jump includes alpha z_y, and u is not clamped at 0.
TEST(UmaxRule, JumpWithAlphaAddsAlphaTimesLabelScore) {
  std::size_t negative = 0;
  for (const double alpha : {0.3, 1.0})
    for (Input in : random_inputs(500, 8, 5)) {
      in.step = std::numeric_limits<double>::min();
      const double z_y = in.score.back(), bound = bound_of(in).convert_to<double>() + alpha * z_y;
      in.u = bound - in.delta - 0.5;
      EXPECT_NEAR(take(in, alpha).u, bound, 1e-13 * (1 + std::abs(bound) + std::abs(z_y)));
      in.u = bound - in.delta + 0.5;
      EXPECT_EQ(take(in, alpha).u, in.u);
      negative += in.u < 0;
    }
  EXPECT_GT(negative, 50U);
}

TEST(UmaxRule, ProjectsUOntoTheIntervalOfLemma2) {
  ProblemInfo problem = no_ridge();
  problem.ridge = 50;
  const double high = problem.u_bound();
  ASSERT_LT(high, 20);
  std::size_t at_bound = 0;
  for (Input in : random_inputs(500, 20, 6)) {
    in.step = 1e3;
    const double u = take(in, 0, problem).u;
    EXPECT_GE(u, 0);
    EXPECT_LE(u, high);
    at_bound += u == high;
  }
  EXPECT_GT(at_bound, 50U);
}

}  // namespace
}  // namespace truemax
