// The optimum with ridge: Lemmas 1 and 2 bound it, and U-max (Proposition 5) and every other unbiased method
// reach it.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <vector>

#include "rule/methods.hpp"
#include "train/ridge_oracle.hpp"
#include "train/slow_trainer.hpp"

namespace truemax {
namespace {

double norm_of(const std::vector<double>& w) {
  double sum = 0;
  for (const double v : w) sum += v * v;
  return std::sqrt(sum);
}

// Weights from 1/2 to 3.
void weigh_rows(Dataset& data) {
  for (std::size_t i = 0; i < data.size(); ++i) data.weight.push_back(i % 3 == 0 ? 3 : i % 3 == 1 ? 1 : 0.5);
}

TEST(LemmaOne, OptimalWeightsLieInTheBall) {
  double closest = 0;
  for (const double noise : {0.0, 0.4})
    for (const bool weights : {false, true})
      for (const double mu : {1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4}) {
        Dataset data = centres_data(60, 5, noise);
        if (noise == 0)
          for (std::size_t i = 0; i < data.size(); ++i)
            data.label[i] = static_cast<ClassId>(i % 5);  // separable
        if (weights) weigh_rows(data);
        const RidgeOracle oracle(data, mu);
        const double norm = norm_of(oracle.optimum()), bound = oracle.info().weight_bound();
        EXPECT_LE(norm, bound) << mu << ' ' << weights;
        closest = std::max(closest, norm / bound);
      }
  std::cout << "longest W " << closest << " of the bound\n";
  EXPECT_GT(closest, 0.3);  // not vacuous
}

TEST(LemmaTwo, OptimalUIsAtMostItsBound) {
  double closest = 0, for_learnt = 0;
  for (const bool weights : {false, true})
    for (const double mu : {1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e6}) {
      Dataset data = centres_data(60, 5);
      if (weights) weigh_rows(data);
      const RidgeOracle oracle(data, mu);
      const std::vector<double> w = oracle.optimum();
      const double bound = oracle.info().u_bound();
      for (std::size_t i = 0; i < data.size(); ++i) {
        const double u = oracle.u_of(w, i);
        EXPECT_LE(u, bound) << mu << ' ' << weights << ' ' << i;
        closest = std::max(closest, u / bound);
        if (u > 1.2 * std::log(5.0)) for_learnt = std::max(for_learnt, u / bound);  // well above u at W = 0
      }
    }
  std::cout << "largest u " << closest << " of the bound; where W is not nearly 0, " << for_learnt << '\n';
  EXPECT_GT(closest, 0.9);
  EXPECT_GT(for_learnt, 0.08);
}

Recipe falling_steps(const MethodInfo& info, Shape shape, double ridge) {
  Recipe options = options_of(std::string(info.name), shape.m, Visit::shuffle);
  options.rows_per_step = shape.n;
  options.ridge = ridge;
  options.step = (info.can_diverge ? 0.01 : 0.3) * static_cast<double>(shape.n);
  options.decay = info.can_diverge ? 0.9985 : 0.992, options.epochs = info.can_diverge ? 3000 : 1000;
  return options;
}

// Proposition 5 requires steps eta <= delta^2/(4 B_f^2), below 1e-20 here, with which no run would move. This
// tests its conclusion: with falling steps and projections, U-max reaches the optimum of every double sum.
// With alpha > 0 a common shift of all classes moves every v but costs only ridge, so it decays over about
// N/(mu K) of step: with a small ridge steps must fall slowly, and delta must not be small compared with
// them.
TEST(PropositionFive, UmaxReachesTheOptimumWithProjections) {
  static_assert(UmaxRule::kInfo.projects);
  const Dataset data = centres_data(250, 5);
  for (const double mu : {1.0, 30.0}) {
    const RidgeOracle oracle(data, mu);
    const double best = oracle.value(oracle.optimum());
    ASSERT_TRUE(std::isfinite(oracle.info().weight_bound()) && std::isfinite(oracle.info().u_bound()));
    ASSERT_GT(oracle.value(std::vector<double>(15, 0.0)), 1.05 * best);  // there is something to learn
    for (const double alpha : {0.0, 0.5, 1.0})
      for (const double delta : {0.1, 1.0})
        for (const Shape shape : {Shape{1, 1}, Shape{1, 3}, Shape{10, 2}}) {
          if (mu == 1 && alpha > 0 && delta < 1) continue;
          Recipe options = falling_steps(UmaxRule::kInfo, shape, mu);
          if (mu == 1 && alpha > 0) options.decay = 0.998, options.epochs = 3000;
          options.rule.double_sum_alpha = alpha, options.rule.delta = delta;
          const double reached = oracle.value(run_epochs(data, options));
          EXPECT_GE(reached, best * (1 - 1e-6));
          EXPECT_LT(reached, 1.01 * best)
              << mu << " alpha " << alpha << " delta " << delta << ' ' << shape.n << 'x' << shape.m;
        }
  }
}

// First steps so large that W leaves the ball repeatedly do not prevent convergence.
TEST(PropositionFive, UmaxReachesTheOptimumAfterWHitsTheBall) {
  const Dataset data = centres_data(100, 5);
  const RidgeOracle oracle(data, 100);
  const double best = oracle.value(oracle.optimum());
  Recipe options = falling_steps(UmaxRule::kInfo, {1, 3}, 100);
  options.step = 3;
  Recipe beginning = options;
  beginning.epochs = 3;
  EXPECT_GT(slow_epochs(data, beginning).projections, 10U);
  EXPECT_LT(oracle.value(run_epochs(data, options)), 1.01 * best);
}

// Within 0.2% (1% is promised): tight enough to detect a ridge of half or twice the size, or none.
TEST(EveryMethod, UnbiasedOnesReachTheRidgeOptimum) {
  const Dataset data = centres_data(250, 5);
  const RidgeOracle oracle(data, 1);
  const double best = oracle.value(oracle.optimum());
  for (const double other : {0.0, 0.5, 2.0})
    ASSERT_GT(oracle.value(RidgeOracle(data, other).optimum()), 1.003 * best) << other;
  std::size_t runs = 0;
  for (const MethodInfo* info : methods()) {
    if (info->biased) continue;
    for (const Shape shape : {Shape{1, 1}, Shape{10, 2}}) {
      if (shape.n > info->most_rows || shape.m > info->most_classes) continue;
      ++runs;
      const double reached = oracle.value(run_epochs(data, falling_steps(*info, shape, 1)));
      EXPECT_GE(reached, best * (1 - 1e-6));
      EXPECT_LT(reached, 1.002 * best) << info->name << ' ' << shape.n << 'x' << shape.m;
    }
  }
  EXPECT_GT(runs, 8U);
}

}  // namespace
}  // namespace truemax
