// SCENT, SOX, BSGD and the softplus bound: each step against its formula in plain double.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "rule/methods.hpp"
#include "rule/scent.hpp"
#include "rule/softplus.hpp"
#include "rule/sox.hpp"
#include "rule/test_support.hpp"

namespace truemax {
namespace {

// Two rows with shared classes; the label of the second is drawn for the first.
std::vector<StepInput> steps(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  std::vector<StepInput> list(200);
  for (StepInput& in : list) {
    in.rows = 2, in.columns = 4, in.step = std::pow(10.0, 2 * sym(random)),
    in.decayed = 0.1 + 0.9 * unit(random);
    in.label = {3, 1}, in.row_weight = {1, 0.5}, in.gram = {1, 0.2, 0.2, 1};
    for (int i = 0; i < 8; ++i) in.score.push_back(4 * sym(random));
    in.weight = {2.5, 0.4, 2.5, 0, 2.5, 0, 2.5, 0};
    in.log_q.assign(4, -1.0);
    in.u = {3 * unit(random), 3 * unit(random)};
  }
  return list;
}

// s of row i.
double sum_of(const StepInput& in, std::size_t i) {
  double s = 1;
  const double* z = &in.score[i * 4];
  for (std::size_t k = 0; k < 4; ++k) s += in.weight[i * 4 + k] * std::exp(z[k] - z[in.label[i]]);
  return s;
}

void expect_descends_at(const StepInput& in, const StepAnswer& out, std::size_t i, double u) {
  const double *z = &in.score[i * 4], *c = &out.c[i * 4], e = in.step * in.row_weight[i];
  double sum = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    if (k == in.label[i]) continue;
    const double pull = e * in.weight[i * 4 + k] * std::exp(z[k] - z[in.label[i]] - u);
    EXPECT_NEAR(c[k], -pull, 1e-13 * pull);
    sum += pull;
  }
  EXPECT_NEAR(c[in.label[i]], sum, 1e-13 * sum);
}

TEST(ScentRule, MirrorStepThenDescentAtTheNewU) {
  RuleOptions falling, fixed;
  falling.rho = fixed.rho = 0.3, fixed.rho_falls = false;
  for (const StepInput& in : steps(1))
    for (const RuleOptions& options : {falling, fixed}) {
      ScentRule rule(options, {});
      const StepAnswer out = take(rule, in);
      const double rho = options.rho * (options.rho_falls ? in.decayed : 1);
      for (std::size_t i = 0; i < 2; ++i) {
        const double u = std::log((1 + rho * sum_of(in, i)) / (rho + std::exp(-in.u[i])));
        EXPECT_NEAR(out.u[i], u, 1e-13 * (1 + u));
        expect_descends_at(in, out, i, u);
      }
    }
}

TEST(SoxRule, RunningMeanThenDescentAtTheNewU) {
  for (const StepInput& in : steps(2))
    for (const double g : {0.1, 0.7, 1.0}) {
      RuleOptions options;
      options.sox_rate = g;
      SoxRule rule(options, {});
      const StepAnswer out = take(rule, in);
      for (std::size_t i = 0; i < 2; ++i) {
        const double u = std::log((1 - g) * std::exp(in.u[i]) + g * sum_of(in, i));
        EXPECT_NEAR(out.u[i], u, 1e-13 * (1 + u));
        expect_descends_at(in, out, i, u);
      }
    }
}

// The bounds keep a step finite; scores here are so large that their sums are rounded.
TEST(ScentAndSox, CoefficientsStayWithinTheirBounds) {
  for (const double gap : {0.0, 30.0, 800.0, 1e6, 1e15, 1e300})
    for (const double weight : {0.01, 1.0, 1e6})
      for (const double u : {0.0, 2.0, 1e4}) {
        const StepInput in = one_row({gap, gap / 3, 0}, {weight, weight}, u);
        RuleOptions options;
        options.rho = 0.2, options.sox_rate = 0.2;
        ScentRule scent(options, {});
        SoxRule sox(options, {});
        const StepAnswer one = take(scent, in), other = take(sox, in);
        ASSERT_TRUE(one.finite() && other.finite()) << gap << ' ' << weight << ' ' << u;
        EXPECT_LE(-one.c[0], (1 + std::exp(-u) / 0.2) * (1 + 1e-9)) << gap << ' ' << weight << ' ' << u;
        EXPECT_LE(-other.c[0], 5 * (1 + 1e-9)) << gap << ' ' << weight << ' ' << u;
      }
}

TEST(Bsgd, IsImportanceSamplingWithLogQ) {
  EXPECT_EQ(&find_method("bsgd"), &ImportanceRule::kInfo);
  RuleOptions without;
  without.log_q = false;
  EXPECT_TRUE(rule_options("bsgd", without).log_q);
  EXPECT_FALSE(rule_options("importance", without).log_q);
  for (const StepInput& in : steps(3)) {
    ImportanceRule rule(rule_options("bsgd", without), {});
    const StepAnswer out = take(rule, in);
    for (std::size_t i = 0; i < 2; ++i) expect_descends_at(in, out, i, std::log(sum_of(in, i)));
  }
}

// At b = 1 the objective is above the log-sum for every u; as b goes to 0 it is the double sum minus 1.
TEST(SoftplusRule, ObjectiveIsAboveTheLogSum) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> sym(-1, 1);
  for (int i = 0; i < 1000; ++i) {
    const double a[3] = {5 * sym(random), 5 * sym(random), 5 * sym(random)}, u = 6 * sym(random);
    double sum = 1, bound = u + softplus(-u), steep = u, flat = u + std::exp(-u);
    steep += std::log1p(1e-6 * std::exp(-u)) / 1e-6;
    for (const double v : a) {
      sum += std::exp(v);
      bound += softplus(v - u);
      steep += std::log1p(1e-6 * std::exp(v - u)) / 1e-6;
      flat += std::exp(v - u);
    }
    EXPECT_GE(bound, std::log(sum));
    EXPECT_NEAR(steep, flat, 1e-6 * (1 + flat * flat));
  }
}

TEST(SoftplusRule, MovesUAndWAlongItsGradient) {
  for (const StepInput& in : steps(6)) {
    RuleOptions options;
    options.softplus_bend = 0.3;
    SoftplusRule rule(options, {});
    const StepAnswer out = take(rule, in);
    for (std::size_t i = 0; i < 2; ++i) {
      const double *z = &in.score[i * 4], e = in.step * in.row_weight[i];
      const auto share = [&](double t) { return std::exp(t) / (1 + 0.3 * std::exp(t)); };
      double slope = 1 - share(-in.u[i]);
      for (std::size_t k = 0; k < 4; ++k) {
        const double pull = in.weight[i * 4 + k] * share(z[k] - z[in.label[i]] - in.u[i]);
        if (k != in.label[i]) {
          EXPECT_NEAR(out.c[i * 4 + k], -e * pull, 1e-13 * e * pull);
        }
        slope -= pull;
      }
      EXPECT_NEAR(out.u[i], in.u[i] - e * slope, 1e-12 * (1 + e * (1 + std::abs(slope))));
    }
  }
}

}  // namespace
}  // namespace truemax
