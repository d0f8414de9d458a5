// The proximal rule: its step is the argmin of its objective, with ridge and an intercept inside or outside
// it, and rho follows the options.
#include "rule/prox.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "rule/proximal_steps.hpp"
#include "solve/mirror.hpp"

namespace truemax {
namespace {

RuleOptions with_rho(double rho, bool falls = true) {
  RuleOptions options;
  options.rho = rho, options.rho_falls = falls;
  return options;
}

TEST(ProxRule, IsTheArgminWithRidgeAndIntercept) {
  std::mt19937_64 random(11);
  for (const std::size_t m : {1U, 2U, 5U})
    for (const bool ridge : {false, true})
      for (const bool free : {false, true})
        for (const double rho : {0.01, 1.0, 30.0})
          for (int i = 0; i < 8; ++i) {
            oracle::Step s = random_step(random, {1, m, ridge, free, false, 2});
            s.rho = rho;
            ProxRule rule(with_rho(rho), {});
            const StepAnswer got = take(rule, input_of(s, ridge));
            const oracle::Errors off = oracle::errors_of(s, got.u, got.c);
            EXPECT_LT(off.u, 1e-11) << m << " ridge " << ridge << " free " << free << " rho " << rho;
            EXPECT_LT(off.w, 1e-11) << m << " ridge " << ridge << " free " << free << " rho " << rho;
          }
}

// A row's weight multiplies e, and with it the distance term of u, so rho keeps its meaning.
TEST(ProxRule, RowWeightLeavesRhoAlone) {
  for (const double weight : {0.25, 1.0, 8.0}) {
    StepInput in = one_row({0.5, -1, 0}, {3, 2}, 1.5, 1e-13);
    in.row_weight = {weight};
    ProxRule rule(with_rho(0.3), {});
    const double wanted = Mirror(1.5, 0.3).from_log_sum(std::log(3 * std::exp(0.5) + 2 * std::exp(-1)));
    EXPECT_NEAR(take(rule, in).u[0], wanted, 1e-9) << weight;
  }
}

TEST(ProxRule, RhoFallsWithTheStepUnlessTurnedOff) {
  StepInput in = one_row({0.5, -1, 0}, {3, 2}, 1.5, 2);
  ProxRule tenth(with_rho(0.03), {}), falls(with_rho(0.3), {}), stays(with_rho(0.3, false), {});
  const StepAnswer small = take(tenth, in), large = take(falls, in);
  in.decayed = 0.1;
  const StepAnswer fallen = take(falls, in), kept = take(stays, in);
  EXPECT_NEAR(fallen.u[0], small.u[0], 1e-14);
  EXPECT_EQ(kept, large);
  EXPECT_NE(fallen, large);
  in.decayed = 1e-300;  // a vanishing step leaves u unchanged
  EXPECT_NEAR(take(falls, in).u[0], 1.5, 1e-12);
}

}  // namespace
}  // namespace truemax
