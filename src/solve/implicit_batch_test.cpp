// The implicit step of n rows and m classes against the argmin in many digits, and against the solver for one
// row.
#include "solve/implicit_batch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "solve/implicit_row.hpp"
#include "solve/proximal_oracle.hpp"

namespace truemax {
namespace {

struct Answer {
  std::vector<double> u, c;  // [n], C [n][columns]
};

// The solver's input for a step.
struct Scalars {
  explicit Scalars(const oracle::Step& step) {
    for (std::size_t i = 0; i < step.rows(); ++i) {
      for (std::size_t j = 0; j < step.rows(); ++j) gram.push_back(oracle::inner(step.x[i], step.x[j]));
      for (std::size_t k = 0; k < step.columns(); ++k) {
        score.push_back(oracle::inner(step.x[i], step.w[k]));
        base.push_back(score.back() / step.r[k]);
        weight.push_back(step.o[i][k]);
      }
      label.push_back(static_cast<std::uint32_t>(step.label[i]));
    }
  }
  std::vector<double> score, base, weight, gram;
  std::vector<std::uint32_t> label;
};

Answer take(ImplicitBatchSolver& solver, const oracle::Step& step) {
  const Scalars given(step);
  Answer answer{step.u, std::vector<double>(step.rows() * step.columns(), 99.0)};
  ImplicitBatch batch;
  batch.rows = step.rows(), batch.columns = step.columns();
  batch.e = step.e.data(), batch.base = given.base.data(), batch.weight = given.weight.data();
  batch.label = given.label.data(), batch.gram = given.gram.data();
  batch.ridge =
      std::all_of(step.r.begin(), step.r.end(), [](double r) { return r == 1; }) ? nullptr : step.r.data();
  batch.u = answer.u.data(), batch.coefficient = answer.c.data();
  solver.solve(batch);
  return answer;
}

enum class Rows { kAny, kEqual, kOpposite, kNearlyEqual };

struct Kind {
  Rows rows = Rows::kAny;
  bool shared_labels = false, labels_drawn = false, ridge = false;
  double decades = 1;  // range of the step sizes
};

oracle::Step random_step(std::mt19937_64& random, const Kind& kind, std::size_t n, std::size_t columns) {
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  oracle::Step s;
  const std::size_t d = 2;
  const double step = std::pow(10.0, kind.decades * sym(random)), length = std::pow(10.0, 0.5 * sym(random));
  const std::size_t labels =
      kind.shared_labels ? std::min<std::size_t>((n + 1) / 2, 2) : std::min(n, columns - 1);
  for (std::size_t i = 0; i < n; ++i) {
    s.e.push_back(step * (0.2 + 2 * unit(random)));
    s.u.push_back(10 * unit(random) * unit(random));
    s.x.emplace_back();
    for (std::size_t f = 0; f < d; ++f) s.x[i].push_back(length * sym(random));
    if (i > 0)
      for (std::size_t f = 0; f < d; ++f) {
        if (kind.rows == Rows::kEqual) s.x[i][f] = s.x[0][f];
        if (kind.rows == Rows::kOpposite) s.x[i][f] = (i % 2 == 0 ? 1 : -1) * s.x[0][f];
        if (kind.rows == Rows::kNearlyEqual) s.x[i][f] = s.x[0][f] + 1e-7 * s.x[i][f];
      }
    s.label.push_back(columns - 1 - i % labels);
    s.o.emplace_back(columns, 0.0);
    for (std::size_t k = 0; k < columns; ++k) {
      const bool is_label = k >= columns - labels;
      if (k == s.label[i] || (is_label && !kind.labels_drawn) || unit(random) < 0.15) continue;
      s.o[i][k] = std::pow(10.0, 3 * unit(random));
    }
  }
  for (std::size_t k = 0; k < columns; ++k) {
    s.w.emplace_back();
    for (std::size_t f = 0; f < d; ++f) s.w[k].push_back(3 * sym(random) / length);
    s.r.push_back(kind.ridge ? 1 + std::pow(10.0, 2 * sym(random)) : 1);
  }
  return s;
}

// Random steps of one kind with n = 2 .. 4 rows and up to 6 columns.
void expect_argmin(const Kind& kind, int count) {
  std::mt19937_64 random(11);
  ImplicitBatchSolver solver;
  oracle::Errors worst;
  int sweeps = 0, newton = 0;
  for (int i = 0; i < count; ++i) {
    const std::size_t n = 2 + static_cast<std::size_t>(i % 3);
    const oracle::Step step = random_step(random, kind, n, std::min<std::size_t>(6, n + 1 + i / 3 % 3));
    const Answer answer = take(solver, step);
    const oracle::Errors errors = oracle::errors_of(step, answer.u, answer.c);
    EXPECT_LT(errors.u, 1e-9) << "n " << n << " e " << step.e[0] << " case " << i;
    EXPECT_LT(errors.w, 1e-9) << "n " << n << " e " << step.e[0] << " case " << i;
    worst.u = std::max(worst.u, errors.u), worst.w = std::max(worst.w, errors.w);
    sweeps += solver.sweeps(), newton += solver.newton_iterations();
  }
  std::cout << "worst error of u " << worst.u << ", of w " << worst.w << "; sweeps " << 1.0 * sweeps / count
            << ", Newton iterations " << 1.0 * newton / count << '\n';
}

// The error measure of these tests detects small errors.
TEST(ProximalOracle, DetectsSmallErrorsOfUAndW) {
  std::mt19937_64 random(2);
  ImplicitBatchSolver solver;
  const oracle::Step step = random_step(random, {Rows::kAny, true, true, true, 1}, 3, 5);
  const Answer right = take(solver, step);
  const oracle::Errors none = oracle::errors_of(step, right.u, right.c);
  EXPECT_LT(none.u, 1e-12);
  EXPECT_LT(none.w, 1e-12);
  Answer wrong = right;
  wrong.u[1] += 1e-6;
  EXPECT_NEAR(oracle::errors_of(step, wrong.u, wrong.c).u, 1e-6 / (1 + right.u[1]), 1e-9);
  wrong = right;
  for (double& c : wrong.c) c *= 1 + 1e-6;
  EXPECT_GT(oracle::errors_of(step, wrong.u, wrong.c).w, 1e-8);
  // It finds the same from a distant start.
  const oracle::ProximalObjective objective(step);
  const oracle::Vector best = oracle::minimise(objective, objective.start());
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(best[i].convert_to<double>(), right.u[i], 1e-11 * (1 + right.u[i]));
}

TEST(ImplicitBatchSolver, IsTheArgminForRowsOfAnyKind) {
  for (const double decades : {1.0, 3.0})
    for (const bool shared : {false, true})
      for (const bool drawn : {false, true}) expect_argmin({Rows::kAny, shared, drawn, false, decades}, 12);
}

TEST(ImplicitBatchSolver, IsTheArgminWithRidge) {
  for (const double decades : {1.0, 3.0})
    for (const bool shared : {false, true})
      for (const bool drawn : {false, true}) expect_argmin({Rows::kAny, shared, drawn, true, decades}, 12);
}

TEST(ImplicitBatchSolver, IsTheArgminForEqualRows) {
  for (const double decades : {1.0, 3.0})
    for (const bool shared : {false, true}) expect_argmin({Rows::kEqual, shared, true, false, decades}, 12);
}

TEST(ImplicitBatchSolver, IsTheArgminForOppositeRows) {
  for (const double decades : {1.0, 3.0})
    for (const bool shared : {false, true}) expect_argmin({Rows::kOpposite, shared, true, true, decades}, 12);
}

TEST(ImplicitBatchSolver, IsTheArgminForNearlyEqualRows) {
  for (const double decades : {1.0, 3.0})
    for (const bool shared : {false, true})
      expect_argmin({Rows::kNearlyEqual, shared, true, false, decades}, 12);
}

TEST(ImplicitBatchSolver, MatchesTheRowSolverForOneRow) {
  std::mt19937_64 random(3);
  ImplicitBatchSolver solver;
  for (int i = 0; i < 500; ++i) {
    const oracle::Step step = random_step(random, {Rows::kAny, false, false, i % 2 == 0, 4}, 1, 2 + i % 6);
    const Answer answer = take(solver, step);
    const Scalars given(step);
    const std::size_t m = step.columns() - 1;  // the label is the last column
    std::vector<double> c(m);
    ImplicitRow row;
    row.e = step.e[0], row.squared_norm = given.gram[0], row.u = step.u[0], row.classes = m;
    row.label_score = given.score[m], row.label_ridge = step.r[m], row.ridge = step.r.data();
    row.weight = given.weight.data(), row.score = given.score.data(), row.coefficient = c.data();
    RowMemory scratch;
    solve_implicit_row(row, scratch);
    EXPECT_NEAR(answer.u[0], row.u, 1e-13 * (1 + row.u));
    EXPECT_NEAR(answer.c[m], row.label_coefficient, 1e-13 * row.label_coefficient);
    for (std::size_t k = 0; k < m; ++k) EXPECT_NEAR(answer.c[k], -c[k], 1e-13 * row.label_coefficient);
  }
}

// Orthogonal rows do not affect each other.
TEST(ImplicitBatchSolver, SolvesOrthogonalRowsOneByOne) {
  std::mt19937_64 random(4);
  ImplicitBatchSolver solver;
  for (int i = 0; i < 100; ++i) {
    oracle::Step step = random_step(random, {Rows::kAny, i % 2 == 0, true, false, 2}, 2, 5);
    step.x = {{1.5, 0}, {0, 0.7}};
    const Answer both = take(solver, step);
    for (std::size_t r = 0; r < 2; ++r) {
      const oracle::Step alone{{step.x[r]}, {step.label[r]}, {step.o[r]}, {step.e[r]},
                               {step.u[r]}, step.w,          step.r};
      const Answer one = take(solver, alone);
      EXPECT_NEAR(both.u[r], one.u[0], 1e-12 * (1 + one.u[0]));
      for (std::size_t k = 0; k < 5; ++k)
        EXPECT_NEAR(both.c[r * 5 + k], one.c[k], 1e-12 * std::abs(one.c[step.label[r]]));
    }
  }
}

TEST(ImplicitBatchSolver, IsFiniteAtTheExtremes) {
  std::mt19937_64 random(6);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  ImplicitBatchSolver solver;
  int most = 0;
  for (int i = 0; i < 3000; ++i) {
    const Kind kind{static_cast<Rows>(i % 4), i % 3 == 0, i % 5 != 0, i % 7 < 3, 12};
    oracle::Step s = random_step(random, kind, 1 + i % 6, 6);
    const double length = std::pow(10.0, 6 * sym(random)),
                 size = std::pow(10.0, i % 10 == 0 ? 15 : 6 * unit(random));
    for (auto& x : s.x)
      for (double& v : x) v *= length;
    for (auto& w : s.w)
      for (double& v : w) v = sym(random) * size / length;
    for (auto& o : s.o)
      for (double& v : o) v *= std::pow(10.0, 6 * unit(random));
    for (double& u : s.u) u = i % 2 == 0 ? u : std::pow(10.0, 4 * unit(random));
    for (double& r : s.r) r = r > 1 ? 1 + std::pow(10.0, 12 * unit(random)) : 1;
    const Answer answer = take(solver, s);
    most = std::max(most, solver.sweeps() + solver.newton_iterations());
    for (std::size_t r = 0; r < s.rows(); ++r) {
      ASSERT_TRUE(std::isfinite(answer.u[r]) && answer.u[r] >= 0) << i;
      double sum = 0;
      for (std::size_t k = 0; k < s.columns(); ++k) {
        const double c = answer.c[r * s.columns() + k];
        ASSERT_TRUE(std::isfinite(c)) << i;
        ASSERT_TRUE(k == s.label[r] ? c >= 0 : c <= 0) << i;
        sum += c;
      }
      EXPECT_NEAR(sum, 0, 1e-12 * answer.c[r * s.columns() + s.label[r]]) << i;
    }
  }
  std::cout << "at most " << most << " sweeps and Newton iterations\n";
}

// Unit rows with correlations of about 0 to 0.5. `truemax_bench solvers` prints the microseconds.
TEST(ImplicitBatchSolver, NeedsFewIterationsForTypicalBatches) {
  const std::size_t n = 20, m = 5, d = 40;
  for (const bool drawn : {false, true})
    for (const double step : {0.5, 50.0}) {
      std::mt19937_64 random(9);
      std::normal_distribution<double> normal;
      std::uniform_real_distribution<double> unit(0, 1);
      std::vector<oracle::Step> steps(20);
      for (oracle::Step& s : steps) {
        std::vector<double> common(d);
        for (double& v : common) v = normal(random);
        for (std::size_t i = 0; i < n; ++i) {
          std::vector<double> x(d);
          const double part = 0.7 * unit(random);
          for (std::size_t f = 0; f < d; ++f)
            x[f] = part * common[f] + std::sqrt(1 - part * part) * normal(random);
          const double norm = std::sqrt(oracle::inner(x, x));
          for (double& v : x) v /= norm;
          s.x.push_back(x), s.e.push_back(step), s.u.push_back(6 * unit(random));
          s.label.push_back(m + i % 15);
          s.o.emplace_back(m + 15, drawn ? 1.0 : 0.0);
          std::fill_n(s.o.back().begin(), m, 30.0);
          s.o.back()[s.label[i]] = 0;
        }
        for (std::size_t k = 0; k < m + 15; ++k) {
          s.w.emplace_back(d);
          for (double& v : s.w.back()) v = normal(random);
        }
        s.r.assign(m + 15, 1.0);
      }
      ImplicitBatchSolver solver;
      double sweeps = 0, newton = 0;
      for (const oracle::Step& s : steps) {
        const Scalars given(s);
        std::vector<double> u(n), c(n * s.columns());
        ImplicitBatch batch;
        batch.rows = n, batch.columns = s.columns(), batch.e = s.e.data(), batch.base = given.base.data();
        batch.weight = given.weight.data(), batch.label = given.label.data(), batch.gram = given.gram.data();
        batch.u = u.data(), batch.coefficient = c.data();
        u = s.u;
        solver.solve(batch);
        sweeps += solver.sweeps(), newton += solver.newton_iterations();
        // Stationary: log c = log(e o) + b_k - b_y - u.
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t k = 0; k < s.columns(); ++k) {
            if (s.o[i][k] == 0) continue;
            const std::size_t y = s.label[i];
            double gap = given.score[i * s.columns() + k] - given.score[i * s.columns() + y];
            for (std::size_t j = 0; j < n; ++j)
              gap += given.gram[i * n + j] * (c[j * s.columns() + k] - c[j * s.columns() + y]);
            EXPECT_NEAR(std::log(-c[i * s.columns() + k]), std::log(step * s.o[i][k]) + gap - u[i], 3e-11);
          }
      }
      const double count = static_cast<double>(steps.size());
      EXPECT_LT(sweeps / count, 30);
      EXPECT_LT(newton / count, 30);
    }
}

}  // namespace
}  // namespace truemax
