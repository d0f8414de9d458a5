// How long does the arithmetic of a step take, without its memory accesses? Microseconds and evaluations of
// the proximal steps of one row (implicit and with the mirror step of u) and of 20 rows, on random problems
// of a middling size: scores of some units, steps of 1 to 100.
#include "solver_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "solve/implicit_batch.hpp"
#include "solve/implicit_row.hpp"
#include "solve/prox_row.hpp"
#include "timing.hpp"

namespace truemax {
namespace {

using Json = nlohmann::ordered_json;

void set_step(ImplicitRow& row, double e) {
  row.e = e;
}
void set_step(ProxRow& row, double e) {
  row.e = e, row.rho = 0.1;
}

// One row and m classes; scores are drawn before the clock starts.
template <class Row, class Solve>
Json one_row(std::size_t m, double e, std::size_t rounds, Solve&& solve) {
  constexpr std::size_t kProblems = 2000;
  std::mt19937_64 random(8);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  std::vector<double> weight(m, 150.0 / static_cast<double>(m)), score(kProblems * m), c(m);
  for (double& z : score) z = 3 * sym(random);
  std::vector<double> u(kProblems), label(kProblems);
  for (std::size_t i = 0; i < kProblems; ++i) u[i] = 6 * unit(random), label[i] = 4 * unit(random);
  double best = 1e300, evaluations = 0;
  RowMemory memory;
  memory.reserve(m);
  for (std::size_t round = 0; round < rounds; ++round) {
    evaluations = 0;
    const double start = thread_seconds();
    for (std::size_t i = 0; i < kProblems; ++i) {
      Row row;
      set_step(row, e);
      row.u = u[i], row.label_score = label[i];
      row.classes = m, row.weight = weight.data(), row.score = &score[i * m], row.coefficient = c.data();
      evaluations += solve(row, memory);
    }
    best = std::min(best, thread_seconds() - start);
  }
  return {{"rows", 1},
          {"classes", m},
          {"step", e},
          {"microseconds", 1e6 * best / kProblems},
          {"evaluations", evaluations / kProblems}};
}

// n rows that share m classes; their labels are others. Rows of length 1 with correlations about 0 to 0.5.
struct BatchProblem {
  BatchProblem(std::size_t n, std::size_t m, double step, std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> unit(0, 1);
    constexpr std::size_t kDimensions = 40;
    const std::size_t columns = m + n;
    std::vector<double> x(n * kDimensions), common(kDimensions);
    for (double& v : common) v = normal(random);
    for (std::size_t i = 0; i < n; ++i) {
      double norm = 0;
      const double part = 0.7 * unit(random);
      for (std::size_t d = 0; d < kDimensions; ++d) {
        x[i * kDimensions + d] = part * common[d] + std::sqrt(1 - part * part) * normal(random);
        norm += x[i * kDimensions + d] * x[i * kDimensions + d];
      }
      for (std::size_t d = 0; d < kDimensions; ++d) x[i * kDimensions + d] /= std::sqrt(norm);
      e.push_back(step), label.push_back(static_cast<std::uint32_t>(m + i)), old_u.push_back(2);
      for (std::size_t k = 0; k < columns; ++k) {
        base.push_back(normal(random));
        weight.push_back(k < m ? 30.0 : 0.0);
      }
    }
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double g = 0;
        for (std::size_t d = 0; d < kDimensions; ++d) g += x[i * kDimensions + d] * x[j * kDimensions + d];
        gram.push_back(g);
      }
    u = old_u, c.resize(n * columns);
    batch.rows = n, batch.columns = columns, batch.e = e.data(), batch.base = base.data();
    batch.weight = weight.data(), batch.label = label.data(), batch.gram = gram.data();
    batch.u = u.data(), batch.coefficient = c.data();
  }

  // Stationary: log c = log(e o) + b_k - b_y - u, b the new scores.
  bool solved(std::size_t m) const {
    const std::size_t n = batch.rows, columns = batch.columns;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < m; ++k) {
        const std::size_t y = label[i];
        double gap = base[i * columns + k] - base[i * columns + y];
        for (std::size_t j = 0; j < n; ++j)
          gap += gram[i * n + j] * (c[j * columns + k] - c[j * columns + y]);
        const double off = std::log(-c[i * columns + k]) - (std::log(e[i] * 30) + gap - u[i]);
        if (!(std::abs(off) < 1e-9)) return false;
      }
    return true;
  }

  std::vector<double> e, base, weight, gram, old_u, u, c;
  std::vector<std::uint32_t> label;
  ImplicitBatch batch;
};

// Empty if a solution is wrong.
Json many_rows(std::size_t n, std::size_t m, double step, std::size_t rounds) {
  constexpr std::size_t kProblems = 50;
  std::mt19937_64 random(9);
  ImplicitBatchSolver solver;
  solver.reserve(n, m + n, m);
  double seconds = 0, sweeps = 0, newton = 0;
  for (std::size_t i = 0; i < kProblems; ++i) {
    BatchProblem problem(n, m, step, random);
    double best = 1e300;
    for (std::size_t round = 0; round < rounds; ++round) {
      problem.u = problem.old_u;
      const double start = thread_seconds();
      solver.solve(problem.batch);
      best = std::min(best, thread_seconds() - start);
    }
    if (!problem.solved(m)) return {};
    seconds += best, sweeps += solver.sweeps(), newton += solver.newton_iterations();
  }
  return {{"rows", n},
          {"classes", m},
          {"step", step},
          {"microseconds", 1e6 * seconds / kProblems},
          {"sweeps", sweeps / kProblems},
          {"newton_iterations", newton / kProblems}};
}

}  // namespace

int bench_solvers(const std::map<std::string, std::string>& settings) {
  const std::size_t rounds = settings.count("rounds") > 0 ? std::stoul(settings.at("rounds")) : 10;
  Json out;
  for (const double e : {1.0, 10.0, 100.0})
    for (const std::size_t m : {1UL, 5UL, 16UL, 64UL}) {
      out["implicit"].push_back(one_row<ImplicitRow>(m, e, rounds, solve_implicit_row));
      out["prox"].push_back(one_row<ProxRow>(m, e, rounds, solve_prox_row));
    }
  for (const double e : {1.0, 10.0, 100.0}) {
    const Json of_step = many_rows(20, 5, e, rounds);
    if (of_step.empty()) {
      fmt::print(stderr, "the solver of several rows did not solve its problem: nothing to time\n");
      return 1;
    }
    out["implicit"].push_back(of_step);
  }
  fmt::print("{}\n", out.dump());
  return 0;
}

}  // namespace truemax
