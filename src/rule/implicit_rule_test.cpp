// Implicit SGD: the step is the argmin of its proximal objective (solve/proximal_oracle.hpp) for one row and
// one class, one row and many classes, and many rows and classes; and Propositions 1 and 2 bound it.
#include "rule/implicit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "rule/proximal_steps.hpp"
#include "rule/test_support.hpp"
#include "rule/vanilla.hpp"

namespace truemax {
namespace {

StepAnswer take_step(const oracle::Step& s, bool say_ridge) {
  ImplicitRule rule(RuleOptions{}, {});
  return take(rule, input_of(s, say_ridge));
}

void expect_argmin(const Kind& kind, int count, double tolerance) {
  std::mt19937_64 random(kind.n * 100 + kind.m);
  for (int i = 0; i < count; ++i) {
    const oracle::Step s = random_step(random, kind);
    const StepAnswer got = take_step(s, kind.ridge);
    const oracle::Errors off = oracle::errors_of(s, got.u, got.c);
    EXPECT_LT(off.u, tolerance) << kind.n << 'x' << kind.m << " e " << s.e[0] << " case " << i;
    EXPECT_LT(off.w, tolerance) << kind.n << 'x' << kind.m << " e " << s.e[0] << " case " << i;
  }
}

TEST(ImplicitRule, IsTheArgminForOneRowAndOneClass) {
  for (const double decades : {1.0, 3.0})
    for (const bool ridge : {false, true})
      for (const bool free : {false, true}) expect_argmin({1, 1, ridge, free, false, decades}, 40, 1e-11);
}

TEST(ImplicitRule, IsTheArgminForOneRowAndManyClasses) {
  for (const std::size_t m : {2U, 5U})
    for (const bool ridge : {false, true})
      for (const bool free : {false, true}) expect_argmin({1, m, ridge, free, false, 2}, 15, 1e-10);
}

TEST(ImplicitRule, IsTheArgminForManyRowsAndClasses) {
  for (const std::size_t n : {2U, 3U, 4U})
    for (const bool ridge : {false, true})
      for (const bool free : {false, true})
        for (const bool equal : {false, true}) expect_argmin({n, 2, ridge, free, equal, 1.5}, 5, 1e-9);
}

// No ridge can be given as factors of 1 or as null; both must give the same step.
TEST(ImplicitRule, RidgeFactorsOfOneAreNoRidge) {
  std::mt19937_64 random(3);
  for (const Kind& kind : {Kind{1, 1}, Kind{1, 4}, Kind{3, 2}})
    for (int i = 0; i < 100; ++i) {
      const oracle::Step s = random_step(random, kind);
      const StepAnswer with = take_step(s, true), without = take_step(s, false);
      for (std::size_t j = 0; j < with.c.size(); ++j)
        EXPECT_NEAR(with.c[j], without.c[j], 1e-12 * std::abs(with.c[j]) + 1e-300);
    }
}

// |theta_new - theta_old| without ridge; W's part comes from the coefficients and the Gram matrix.
long double length_of(const StepInput& in, const StepAnswer& out) {
  long double sum = 0;
  for (std::size_t i = 0; i < in.rows; ++i) {
    const auto du = static_cast<long double>(out.u[i]) - static_cast<long double>(in.u[i]);
    sum += du * du;
    for (std::size_t j = 0; j < in.rows; ++j)
      for (std::size_t k = 0; k < in.columns; ++k)
        sum += static_cast<long double>(out.c[i * in.columns + k]) *
               static_cast<long double>(out.c[j * in.columns + k]) *
               static_cast<long double>(in.gram[i * in.rows + j]);
  }
  return std::sqrt(std::max(sum, 0.0L));
}

// Proposition 1: the implicit step is no longer than the vanilla SGD step from the same point.
TEST(PropositionOne, ImplicitStepIsNoLongerThanVanilla) {
  std::mt19937_64 random(4);
  std::size_t much_shorter = 0;
  for (const Kind& kind : {Kind{1, 1}, Kind{1, 4}, Kind{3, 2}})
    for (const double decades : {1.0, 4.0})
      for (int i = 0; i < 1000; ++i) {
        Kind wide = kind;
        wide.decades = decades;
        StepInput in = input_of(random_step(random, wide), false);
        // Vanilla clamps u at 0, which can shorten its step: compare only unclamped steps.
        VanillaRule vanilla(RuleOptions{}, {});
        ImplicitRule implicit(RuleOptions{}, {});
        const StepAnswer far = take(vanilla, in), near = take(implicit, in);
        if (!far.finite() || *std::min_element(far.u.begin(), far.u.end()) == 0) continue;
        const long double a = length_of(in, near), b = length_of(in, far);
        // u is rounded to a double, which hides a step far below its last bit.
        EXPECT_LE(a, b * (1 + 1e-9L) + 1e-13L * static_cast<long double>(1 + in.u[0]))
            << kind.n << 'x' << kind.m;
        much_shorter += a < 0.1L * b;
      }
  EXPECT_GT(much_shorter, 1000U);
}

// Proposition 2 in testable form: a = C/gamma <= max(1, gap + log(e o/gamma), e/gamma).
TEST(PropositionTwo, ImplicitStepIsAtMostLinearInTheScoreGap) {
  std::mt19937_64 random(5);
  std::size_t by_logarithm = 0;
  for (const double decades : {1.0, 4.0, 9.0})
    for (int i = 0; i < 3000; ++i) {
      const StepInput in = input_of(random_step(random, {1, 1, false, false, false, decades}), false);
      ImplicitRule rule(RuleOptions{}, {});
      const double gamma = 1 / (2 * in.gram[0]), gap = in.score[0] - in.score[1];
      const double logarithm = gap + std::log(in.step * in.weight[0] / gamma);
      const double a = take(rule, in).c[1] / gamma;
      EXPECT_LE(a, std::max({1.0, logarithm, in.step / gamma}) * (1 + 1e-12));
      EXPECT_LE(a, std::max(1.0, logarithm) * (1 + 1e-12));  // sharper: follows from u > 0 alone
      by_logarithm += logarithm > 1 && a > 0.3 * logarithm;
    }
  EXPECT_GT(by_logarithm, 500U);  // the bound is tight
}

// Only the label was drawn: W stays, and u goes to the argmin of e (u + exp(-u)) + (u - u_old)^2/2.
TEST(ImplicitStep, WithoutADrawnClassMovesOnlyU) {
  for (const double u : {0.0, 0.3, 5.0})
    for (const double step : {1e-3, 1.0, 1e3}) {
      ImplicitRule rule({}, no_ridge());
      const StepAnswer answer = take(rule, one_row({0.7}, {}, u, step));
      ASSERT_EQ(answer.c, std::vector<double>{0.0});
      const double v = answer.u[0];
      EXPECT_NEAR(step * -std::expm1(-v) + v - u, 0, 1e-9 * (1 + step)) << u << ' ' << step;
    }
}

}  // namespace
}  // namespace truemax
