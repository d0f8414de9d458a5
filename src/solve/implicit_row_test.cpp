// The implicit step of one row and m classes against the argmin in many digits, and against the solver for
// one class.
#include "solve/implicit_row.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "core/instruction_sets.hpp"
#include "solve/implicit.hpp"
#include "solve/proximal_oracle.hpp"

namespace truemax {
namespace {

RowMemory scratch;

struct RowAnswer {
  std::vector<double> u, c;  // c: C of [1][K] with the label's column last
  int evaluations;
};

// The row's label is the last column.
RowAnswer take(const oracle::Step& step, double start = -1) {
  const std::size_t m = step.columns() - 1;
  std::vector<double> score;
  for (const auto& w : step.w) score.push_back(oracle::inner(step.x[0], w));
  RowAnswer answer{{}, std::vector<double>(m + 1), 0};
  ImplicitRow row;
  row.e = step.e[0], row.squared_norm = oracle::inner(step.x[0], step.x[0]), row.u = step.u[0];
  row.label_score = score[m], row.label_ridge = step.r[m], row.classes = m;
  row.weight = step.o[0].data(), row.score = score.data(), row.coefficient = answer.c.data();
  row.ridge =
      std::all_of(step.r.begin(), step.r.end(), [](double r) { return r == 1; }) ? nullptr : step.r.data();
  row.start = start;
  answer.evaluations = solve_implicit_row(row, scratch);
  answer.u = {row.u};
  double sum = 0;
  for (std::size_t j = 0; j < m; ++j) sum += answer.c[j], answer.c[j] = -answer.c[j];
  EXPECT_EQ(row.label_coefficient, sum);
  answer.c[m] = row.label_coefficient;
  return answer;
}

std::vector<oracle::Step> random_steps(std::size_t count, bool ridge, double decades, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  std::vector<oracle::Step> list(count);
  for (std::size_t i = 0; i < count; ++i) {
    oracle::Step& s = list[i];
    const std::size_t m = 1 + i % 6, d = 1 + i % 2;
    s.e = {std::pow(10.0, decades * sym(random))};
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

void expect_argmin(const std::vector<oracle::Step>& steps) {
  oracle::Errors worst;
  double evaluations = 0;
  for (const oracle::Step& step : steps) {
    const RowAnswer answer = take(step);
    const oracle::Errors errors = oracle::errors_of(step, answer.u, answer.c);
    EXPECT_LT(errors.u, 1e-11) << "e " << step.e[0] << " m " << step.columns() - 1;
    EXPECT_LT(errors.w, 1e-11) << "e " << step.e[0] << " m " << step.columns() - 1;
    worst.u = std::max(worst.u, errors.u), worst.w = std::max(worst.w, errors.w);
    evaluations += answer.evaluations;
  }
  std::cout << "worst error of u " << worst.u << ", of w " << worst.w << ", evaluations "
            << evaluations / static_cast<double>(steps.size()) << '\n';
}

TEST(SolveImplicitRow, IsTheArgminOfItsProximalObjective) {
  for (const double decades : {1.0, 3.0, 6.0}) expect_argmin(random_steps(60, false, decades, 1));
}

TEST(SolveImplicitRow, IsTheArgminWithRidge) {
  for (const double decades : {1.0, 3.0}) expect_argmin(random_steps(60, true, decades, 2));
}

TEST(SolveImplicitRow, IsTheArgminFarFromTheOptimum) {
  std::vector<oracle::Step> steps;
  for (const double gap : {-60.0, 60.0, 150.0})
    for (const double e : {1e-6, 1.0, 1e6})
      for (const double u : {0.0, 3.0, 50.0})
        steps.push_back({{{0.6, -0.8}},
                         {3},
                         {{1e3, 1, 30, 0}},
                         {e},
                         {u},
                         {{gap * 0.3, -gap * 0.4}, {1, 2}, {gap * 0.2, -gap * 0.3}, {-gap * 0.3, gap * 0.4}},
                         {1, 1, 1, 1}});
  expect_argmin(steps);
}

// Problems of one class through both solvers, on every instruction set.
TEST(SolveImplicitRow, MatchesTheOneClassSolver) {
  for (const std::int64_t set : instruction_sets()) {
    const OnInstructionSet here(set);
    std::mt19937_64 random(5);
    std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
    for (int i = 0; i < 3000; ++i) {
      const double spread = i % 3 == 0 ? 1 : i % 3 == 1 ? 4 : 10;
      const double o = std::pow(10.0, 9 * unit(random)), z = 40 * sym(random), r = 1 + (i % 2) * unit(random);
      ImplicitRow row;
      double c = 0;
      row.e = std::pow(10.0, spread * sym(random)), row.squared_norm = std::pow(10.0, spread * sym(random));
      row.u = 20 * unit(random) * unit(random), row.label_score = 40 * sym(random);
      row.label_ridge = 1 + (i % 2) * 3 * unit(random);
      row.classes = 1, row.weight = &o, row.score = &z, row.ridge = &r, row.coefficient = &c;
      ImplicitProblems one = kNoProblems;
      one.e[0] = row.e, one.o[0] = o, one.gap[0] = z / r - row.label_score / row.label_ridge;
      one.gamma[0] = 1 / (row.squared_norm * (1 / r + 1 / row.label_ridge)), one.u[0] = row.u;
      solve_implicit(one, 1);
      EXPECT_LE(solve_implicit_row(row, scratch), 3);
      EXPECT_NEAR(row.u, one.u[0], 1e-11 * (1 + row.u)) << row.e << ' ' << row.squared_norm << ' ' << row.u;
      EXPECT_NEAR(c, one.gamma[0] * one.a[0], 1e-11 * (c + 1e-290)) << row.e << ' ' << row.squared_norm;
    }
  }
}

// The same solution from every start; a common offset of the scores costs no digits.
TEST(SolveImplicitRow, DependsOnlyOnTheProblem) {
  for (const oracle::Step& step : random_steps(600, false, 3, 4)) {
    const RowAnswer cold = take(step);
    for (const double start : {0.0, 1e-3, 1.0, 20.0, 1e3, 1e9}) {
      const RowAnswer warm = take(step, start);
      EXPECT_NEAR(warm.u[0], cold.u[0], 1e-12 * (1 + cold.u[0])) << start;
      for (std::size_t k = 0; k < cold.c.size(); ++k)
        EXPECT_NEAR(warm.c[k], cold.c[k], 1e-12 * (std::abs(cold.c[k]) * (1 + cold.u[0]) + cold.c.back()));
    }
  }
  const double o[3] = {3, 4, 0}, high[3] = {1048577, 1048575.5, 1048576}, low[3] = {1, -0.5, 0};
  double c[2][3], u[2];
  for (int i = 0; i < 2; ++i) {
    ImplicitRow row;
    row.classes = 3, row.weight = o, row.score = i == 0 ? high : low, row.coefficient = c[i], row.e = 2;
    row.label_score = i == 0 ? 1048576 : 0;
    solve_implicit_row(row, scratch);
    u[i] = row.u;
  }
  EXPECT_EQ(u[0], u[1]);
  EXPECT_EQ(c[0][0], c[1][0]);
  EXPECT_EQ(c[0][1], c[1][1]);
  EXPECT_EQ(c[0][2], 0);
}

TEST(SolveImplicitRow, IsFiniteAtTheExtremes) {
  int most = 0;
  std::size_t count = 0;
  const double ones[4] = {1, 1, 1, 1};
  for (const double e : {1e-12, 1e-3, 1.0, 1e3, 1e12})
    for (const double o : {1.0, 145.0, 1e9})
      for (const double gap : {-1e15, -1e6, -700.0, -1.0, 0.0, 1.0, 80.0, 700.0, 1e6, 1e15})
        for (const double s : {1e-12, 1e-3, 1.0, 1e3, 1e12})
          for (const double u : {0.0, 1e-9, 1.0, 100.0, 1e4})
            for (const double ridge : {1.0, 3.0, 1e12})
              for (int shape = 0; shape < 3; ++shape) {
                const double weight[4] = {o, 1, shape == 1 ? 0 : o, 1};
                const double score[4] = {gap, 0, shape == 2 ? -gap : gap / 2, -1};
                const double r[4] = {ridge, 1, shape == 1 ? ridge : 1, 2};
                double c[4];
                ImplicitRow row;
                row.e = e, row.squared_norm = s, row.u = u, row.classes = 4,
                row.label_ridge = shape == 0 ? ridge : 1;
                row.weight = weight, row.score = score, row.ridge = ridge == 1 ? ones : r,
                row.coefficient = c;
                most = std::max(most, solve_implicit_row(row, scratch));
                ++count;
                ASSERT_TRUE(std::isfinite(row.u) && row.u >= 0) << e << ' ' << o << ' ' << gap << ' ' << s;
                ASSERT_TRUE(std::isfinite(row.label_coefficient) && row.label_coefficient >= 0);
                for (const double v : c) ASSERT_TRUE(std::isfinite(v) && v >= 0);
                // The equation for u, which every solution satisfies.
                const double got = -e * std::expm1(-row.u) + row.u, wanted = u + row.label_coefficient;
                if (std::abs(gap) <= 1e6) {
                  EXPECT_NEAR(got, wanted, 1e-8 * (got + wanted + e * 1e-3))
                      << e << ' ' << o << ' ' << gap << ' ' << s << ' ' << u << ' ' << ridge << ' ' << shape;
                }
              }
  std::cout << count << " problems, at most " << most << " evaluations\n";
  EXPECT_LT(most, 100);  // never stopped by the iteration limit
}

TEST(SolveImplicitRow, AcceptsZeroToThousandsOfClasses) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> sym(-1, 1);
  for (const std::size_t m : {0UL, 1UL, 63UL, 64UL, 65UL, 5000UL}) {
    std::vector<double> weight(m, 12.5), score(m), c(m);
    for (double& z : score) z = 5 * sym(random);
    ImplicitRow row;
    row.e = 30, row.u = 2, row.squared_norm = 1.5;
    row.classes = m, row.weight = weight.data(), row.score = score.data(), row.coefficient = c.data();
    EXPECT_LE(solve_implicit_row(row, scratch), 8);
    EXPECT_NEAR(30 * (1 - std::exp(-row.u)) + row.u, 2 + row.label_coefficient,
                1e-12 * (32 + row.label_coefficient));
    for (std::size_t j = 0; j < m; ++j) {
      const double b = score[j] - 1.5 * c[j], b_y = 1.5 * row.label_coefficient;
      EXPECT_NEAR(std::log(c[j]), std::log(30 * 12.5) + b - b_y - row.u, 1e-12 * (1 + b_y));
    }
  }
}

// `truemax_bench solvers` prints the microseconds per step.
TEST(SolveImplicitRow, NeedsFewEvaluations) {
  std::mt19937_64 random(8);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  for (const std::size_t m : {1UL, 5UL, 50UL}) {
    std::vector<double> weight(m, 150.0 / static_cast<double>(m)), score(m), c(m);
    double evaluations = 0;
    const int rounds = 20000;
    for (int i = 0; i < rounds; ++i) {
      for (double& z : score) z = 3 * sym(random);
      ImplicitRow row;
      row.e = 10, row.u = 6 * unit(random), row.label_score = 4 * unit(random);
      row.classes = m, row.weight = weight.data(), row.score = score.data(), row.coefficient = c.data();
      evaluations += solve_implicit_row(row, scratch);
    }
    EXPECT_LT(evaluations / rounds, 4);
  }
}

}  // namespace
}  // namespace truemax
