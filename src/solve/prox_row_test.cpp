// The proximal step of one row with a mirror step for u, against the argmin in many digits.
#include "solve/prox_row.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "core/instruction_sets.hpp"
#include "solve/mirror.hpp"
#include "solve/proximal_oracle.hpp"

namespace truemax {
namespace {

RowMemory prox_scratch;

struct ProxAnswer {
  std::vector<double> u, c;  // c: C of [1][K] with the label's column last
  int evaluations;
};

// The row's label is the last column.
ProxAnswer take_prox(const oracle::Step& step) {
  const std::size_t m = step.columns() - 1;
  std::vector<double> score;
  for (const auto& w : step.w) score.push_back(oracle::inner(step.x[0], w));
  ProxAnswer answer{{}, std::vector<double>(m + 1), 0};
  ProxRow row;
  row.e = step.e[0], row.rho = step.rho, row.squared_norm = oracle::inner(step.x[0], step.x[0]);
  row.u = step.u[0], row.label_score = score[m], row.label_ridge = step.r[m], row.classes = m;
  row.weight = step.o[0].data(), row.score = score.data(), row.coefficient = answer.c.data();
  row.ridge =
      std::all_of(step.r.begin(), step.r.end(), [](double r) { return r == 1; }) ? nullptr : step.r.data();
  answer.evaluations = solve_prox_row(row, prox_scratch);
  answer.u = {row.u};
  double sum = 0;
  for (std::size_t j = 0; j < m; ++j) sum += answer.c[j], answer.c[j] = -answer.c[j];
  EXPECT_EQ(row.label_coefficient, sum);
  answer.c[m] = row.label_coefficient;
  return answer;
}

std::vector<oracle::Step> random_prox_steps(std::size_t count, bool ridge, double decades,
                                            std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  std::vector<oracle::Step> list(count);
  for (std::size_t i = 0; i < count; ++i) {
    oracle::Step& s = list[i];
    const std::size_t m = 1 + i % 6, d = 1 + i % 2;
    s.e = {std::pow(10.0, decades * sym(random))};
    s.rho = std::pow(10.0, decades * sym(random));
    s.u = {15 * unit(random) * unit(random)};
    s.label = {m};
    s.x.resize(1), s.o.resize(1);
    const double length = std::pow(10.0, decades / 2 * sym(random));
    for (std::size_t f = 0; f < d; ++f) s.x[0].push_back(length * (0.1 + 0.9 * unit(random)));
    for (std::size_t k = 0; k <= m; ++k) {
      s.o[0].push_back(k == m || i % 7 == k + 3 ? 0 : std::pow(10.0, 4 * unit(random)));
      s.w.emplace_back();
      for (std::size_t f = 0; f < d; ++f) s.w[k].push_back(4 * sym(random) / length);
      s.r.push_back(ridge ? 1 + std::pow(10.0, 2 * sym(random)) : 1);
    }
    if (i % 5 == 0 && m > 2) s.w[1] = s.w[0], s.o[0][1] = s.o[0][0];  // duplicate a class
  }
  return list;
}

void expect_prox_argmin(const std::vector<oracle::Step>& steps) {
  oracle::Errors worst;
  double evaluations = 0;
  for (const oracle::Step& step : steps) {
    const ProxAnswer answer = take_prox(step);
    const oracle::Errors errors = oracle::errors_of(step, answer.u, answer.c);
    EXPECT_LT(errors.u, 1e-11) << "e " << step.e[0] << " rho " << step.rho << " m " << step.columns() - 1;
    EXPECT_LT(errors.w, 1e-11) << "e " << step.e[0] << " rho " << step.rho << " m " << step.columns() - 1;
    worst.u = std::max(worst.u, errors.u), worst.w = std::max(worst.w, errors.w);
    evaluations += answer.evaluations;
  }
  std::cout << "worst error of u " << worst.u << ", of w " << worst.w << ", evaluations "
            << evaluations / static_cast<double>(steps.size()) << '\n';
}

TEST(SolveProxRow, IsTheArgminOfItsProximalObjective) {
  for (const double decades : {1.0, 3.0, 6.0}) expect_prox_argmin(random_prox_steps(60, false, decades, 1));
}

TEST(SolveProxRow, IsTheArgminWithRidge) {
  for (const double decades : {1.0, 3.0}) expect_prox_argmin(random_prox_steps(60, true, decades, 2));
}

// Distant scores, tiny and huge steps, weak and strong mirror terms.
TEST(SolveProxRow, IsTheArgminFarFromTheOptimum) {
  std::vector<oracle::Step> steps;
  for (const double gap : {-60.0, 60.0, 150.0})
    for (const double e : {1e-6, 1.0, 1e6})
      for (const double u : {0.0, 3.0, 50.0})
        for (const double rho : {1e-6, 0.1, 1e3}) {
          oracle::Step step{
              {{0.6, -0.8}},
              {3},
              {{1e3, 1, 30, 0}},
              {e},
              {u},
              {{gap * 0.3, -gap * 0.4}, {1, 2}, {gap * 0.2, -gap * 0.3}, {-gap * 0.3, gap * 0.4}},
              {1, 1, 1, 1}};
          step.rho = rho;
          steps.push_back(step);
        }
  expect_prox_argmin(steps);
}

std::string shown(const ProxRow& row, double gap, double u) {
  std::ostringstream text;
  text << "e " << row.e << " rho " << row.rho << " s " << row.squared_norm << " u " << u << " gap " << gap
       << " o " << row.weight[0] << " r " << row.ridge[0] << " -> u " << row.u << " c_y "
       << row.label_coefficient;
  return text.str();
}

// The optimality conditions, which every solution satisfies: one per class, and that of u.
void expect_stationary(const ProxRow& row, double u_old, const std::string& what, double tolerance) {
  const double s = row.squared_norm, y = row.label_score / row.label_ridge,
               moved = s / row.label_ridge * row.label_coefficient;
  std::vector<double> gap, own;
  double size = 1 + moved + row.u;
  for (std::size_t j = 0; j < row.classes; ++j) {
    const double r = row.ridge == nullptr ? 1 : row.ridge[j];
    gap.push_back(r == row.label_ridge ? (row.score[j] - row.label_score) / r : row.score[j] / r - y);
    own.push_back(s / r * row.coefficient[j]);
    if (row.weight[j] > 0) size = std::max(size, std::abs(gap[j]));
  }
  for (std::size_t j = 0; j < row.classes; ++j) {
    if (row.weight[j] == 0) {
      EXPECT_EQ(row.coefficient[j], 0) << what;
      continue;
    }
    const double t = std::log(row.e) + std::log(row.weight[j]) + gap[j] - own[j] - moved - row.u;
    if (t < -600 || row.coefficient[j] < 1e-290) continue;
    EXPECT_NEAR(std::log(row.coefficient[j]), t, tolerance * size) << what << " class " << j;
  }
  const double whole = row.rho + std::exp(-u_old), pull = row.rho * (row.label_coefficient / row.e);
  EXPECT_NEAR((1 + row.rho) * std::exp(-row.u), whole - pull, tolerance * (whole + pull) * (1 + row.u))
      << what;
}

TEST(SolveProxRow, IsFiniteAndStationaryAtTheExtremes) {
  int most = 0;
  std::size_t count = 0;
  const double ones[4] = {1, 1, 1, 1};
  for (const double e : {1e-300, 1e-12, 1e-3, 1.0, 1e3, 1e15})
    for (const double rho : {1e-12, 1e-3, 0.1, 1.0, 1e6})
      for (const double gap : {-1e300, -1e6, -700.0, -1.0, 0.0, 1.0, 80.0, 700.0, 1e6, 1e300})
        for (const double s : {1e-76, 1e-12, 1.0, 1e12, 1e76})
          for (const double u : {0.0, 1e-9, 1.0, 100.0, 700.0, 1e4})
            for (const double ridge : {1.0, 3.0, 1e12})
              for (int shape = 0; shape < 3; ++shape) {
                const double o = shape == 0 ? 1 : shape == 1 ? 145 : 1e9;
                const double weight[4] = {o, 1, shape == 1 ? 0 : o, 1};
                const double score[4] = {gap, 0, shape == 2 ? -gap : gap / 2, -1};
                const double r[4] = {ridge, 1, shape == 1 ? ridge : 1, 2};
                double c[4];
                ProxRow row;
                row.e = e, row.rho = rho, row.squared_norm = s, row.u = u, row.classes = 4;
                row.label_ridge = shape == 0 ? ridge : 1;
                row.weight = weight, row.score = score, row.ridge = ridge == 1 ? ones : r;
                row.coefficient = c;
                const int evaluations = solve_prox_row(row, prox_scratch);
                const std::string what = shown(row, gap, u);
                most = std::max(most, evaluations);
                ++count;
                ASSERT_TRUE(std::isfinite(row.u) && row.u >= 0) << what;
                ASSERT_TRUE(std::isfinite(row.label_coefficient) && row.label_coefficient >= 0) << what;
                for (const double v : c) ASSERT_TRUE(std::isfinite(v) && v >= 0) << what;
                EXPECT_GE(row.u, Mirror(u, rho).from_pull(0)) << what;
                expect_stationary(row, u, what, 1e-12);
              }
  std::cout << count << " problems, at most " << most << " evaluations\n";
  EXPECT_LT(most, 100);  // never stopped by the iteration limit
}

// The step lies between the mirror step without classes and the explicit one, its limit as e s goes to 0.
TEST(SolveProxRow, LiesBetweenTheMirrorSteps) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  for (int i = 0; i < 3000; ++i) {
    const double weight[3] = {std::pow(10.0, 4 * unit(random)), 3, 7},
                 score[3] = {9 * sym(random), 9 * sym(random), 9 * sym(random)};
    double sum = 0, c[3];
    for (int j = 0; j < 3; ++j) sum += weight[j] * std::exp(score[j]);
    for (const double e : {1e-14, 1e-3, 1.0, 1e3}) {
      ProxRow row;
      row.e = e, row.rho = std::pow(10.0, 3 * sym(random)), row.classes = 3;
      row.weight = weight, row.score = score, row.coefficient = c;
      const double old = row.u = 12 * unit(random);
      const double least = std::log((1 + row.rho) / (row.rho + std::exp(-old))),
                   most = std::log((1 + row.rho * (1 + sum)) / (row.rho + std::exp(-old)));
      solve_prox_row(row, prox_scratch);
      EXPECT_GE(row.u, least - 1e-14 * (1 + least));
      EXPECT_LE(row.u, most + 1e-14 * (1 + most));
      if (e == 1e-14) {
        EXPECT_NEAR(row.u, most, 1e-9 * (1 + most));
      }
      if (e == 1e3) {
        EXPECT_LT(row.u, most);
      }
    }
  }
}

// u does not decrease with the old u, the weight of a class or its score, and does not increase with the
// step.
TEST(SolveProxRow, IsMonotoneInItsInputs) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  for (int i = 0; i < 2000; ++i) {
    double weight[2] = {std::pow(10.0, 3 * unit(random)), 5}, score[2] = {6 * sym(random), 6 * sym(random)},
           c[2];
    ProxRow start;
    start.e = std::pow(10.0, 2 * sym(random)), start.rho = std::pow(10.0, 2 * sym(random)), start.classes = 2;
    start.weight = weight, start.score = score, start.coefficient = c, start.u = 6 * unit(random);
    const auto solved = [&](ProxRow row) {
      solve_prox_row(row, prox_scratch);
      return row.u;
    };
    const double here = solved(start), slack = 1e-13 * (1 + here);
    ProxRow other = start;
    other.u += 0.3;
    EXPECT_GT(solved(other), here - slack);
    other = start, other.e *= 3;
    EXPECT_LT(solved(other), here + slack);
    weight[0] *= 2;
    EXPECT_GT(solved(start), here - slack);
    weight[0] /= 2, score[1] += 1;
    EXPECT_GT(solved(start), here - slack);
  }
}

TEST(SolveProxRow, AcceptsZeroToThousandsOfClasses) {
  for (const std::int64_t set : instruction_sets()) {
    const OnInstructionSet here(set);
    std::mt19937_64 random(7);
    std::uniform_real_distribution<double> sym(-1, 1);
    for (const std::size_t m : {0UL, 1UL, 7UL, 63UL, 64UL, 65UL, 5000UL}) {
      std::vector<double> weight(m, 12.5), score(m), c(m);
      for (double& z : score) z = 5 * sym(random);
      ProxRow row;
      row.e = 30, row.u = 2, row.squared_norm = 1.5, row.rho = 0.3;
      row.classes = m, row.weight = weight.data(), row.score = score.data(), row.coefficient = c.data();
      EXPECT_LE(solve_prox_row(row, prox_scratch), 12);
      expect_stationary(row, 2, std::to_string(m), 1e-14);
      if (m == 0) {
        EXPECT_DOUBLE_EQ(row.u, std::log(1.3 / (0.3 + std::exp(-2.0))));
      }
    }
  }
}

// A common offset of the scores costs no digits; a row without features changes only u.
TEST(SolveProxRow, DependsOnlyOnScoreDifferences) {
  const double o[3] = {3, 4, 0}, high[3] = {1048577, 1048575.5, 1048576}, low[3] = {1, -0.5, 0};
  double c[2][3], u[2];
  for (int i = 0; i < 2; ++i) {
    ProxRow row;
    row.classes = 3, row.weight = o, row.score = i == 0 ? high : low, row.coefficient = c[i], row.e = 2;
    row.label_score = i == 0 ? 1048576 : 0;
    solve_prox_row(row, prox_scratch);
    u[i] = row.u;
  }
  EXPECT_EQ(u[0], u[1]);
  EXPECT_EQ(c[0][0], c[1][0]);
  EXPECT_EQ(c[0][1], c[1][1]);
  EXPECT_EQ(c[0][2], 0);
  ProxRow row;
  row.classes = 3, row.weight = o, row.score = low, row.coefficient = c[0], row.squared_norm = 0, row.u = 1;
  solve_prox_row(row, prox_scratch);
  EXPECT_NEAR(row.u, Mirror(1, row.rho).from_log_sum(std::log(3 * std::exp(1) + 4 * std::exp(-0.5))), 1e-12);
  for (const double v : c[0]) EXPECT_TRUE(std::isfinite(v));
}

TEST(Mirror, MatchesItsFormulaAlsoForSmallU) {
  for (const double u : {0.0, 1e-9, 0.3, 5.0, 30.0})
    for (const double rho : {1e-9, 1e-3, 0.1, 2.0, 1e5})
      for (const double sum : {0.0, 1e-9, 0.5, 3.0, 1e6}) {
        const auto exact = [&]() -> double {
          const oracle::Real r(rho), s(sum);
          return log((1 + r * (1 + s)) / (r + exp(-oracle::Real(u)))).convert_to<double>();
        }();
        EXPECT_NEAR(Mirror(u, rho).from_log_sum(std::log(sum)), exact, 4e-15 * exact)
            << u << ' ' << rho << ' ' << sum;
        const double pull = rho * sum * std::exp(-exact);
        EXPECT_NEAR(Mirror(u, rho).from_pull(pull), exact, 1e-13 * exact * (1 + sum)) << u << ' ' << rho;
      }
  EXPECT_TRUE(std::isfinite(Mirror(1e4, 1e-300).from_pull(0)));
  EXPECT_EQ(Mirror(0, 0.1).from_pull(0), 0);
}

// `truemax_bench solvers` prints the microseconds per step.
TEST(SolveProxRow, NeedsFewEvaluations) {
  std::mt19937_64 random(8);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  for (const double e : {1.0, 100.0})
    for (const std::size_t m : {1UL, 5UL, 16UL, 64UL}) {
      std::vector<double> weight(m, 150.0 / static_cast<double>(m)), score(m), c(m);
      double evaluations = 0;
      const int rounds = 10000;
      for (int i = 0; i < rounds; ++i) {
        for (double& z : score) z = 3 * sym(random);
        ProxRow row;
        row.e = e, row.u = 6 * unit(random), row.label_score = 4 * unit(random), row.rho = 0.1;
        row.classes = m, row.weight = weight.data(), row.score = score.data(), row.coefficient = c.data();
        evaluations += solve_prox_row(row, prox_scratch);
      }
      EXPECT_LT(evaluations / rounds, 7);
    }
}

}  // namespace
}  // namespace truemax
