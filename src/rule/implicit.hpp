// Implicit SGD (paper: Section 3.1, Algorithm 1, Appendix D): the proximal point of the step's part of the
// double sum
//     f(u, W) = sum_i e_i (u_i + exp(-u_i) + sum_k o_ik exp(x_i.(w_k - w_y) - u_i)) + ridge, eq:stochastic_f,
// that is, the argmin of  2 f(theta) + |theta - theta_old|^2,  for one row and one class (a scalar root), one
// row and m classes (a scalar root too) or n rows and m classes (a convex problem in the coefficients). The
// draw's weight o generalises the paper's (K-1); a row weight multiplies the row's loss.
#pragma once

#include <cstddef>
#include <vector>

#include "rule/row_problem.hpp"
#include "solve/implicit.hpp"
#include "solve/implicit_batch.hpp"
#include "solve/implicit_row.hpp"

namespace truemax {

class ImplicitRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "implicit",
      .description =
          "Implicit SGD: the exact proximal step on n rows and m classes; stable at any step size.",
      .biased = false,
      .most_rows = 1024,  // beyond this a step takes seconds
      .most_classes = kAnyNumber,
      .cost = "n(m+1) scores, n(m+1) updates; a scalar root for one row, about n^2(n+m) operations for more",
      .objective = Objective::double_sum,
      .needs_gram = true};

  ImplicitRule(const RuleOptions& /*options*/, const ProblemInfo& /*problem*/) {}

  void reserve(const StepShape& shape) {
    if (shape.rows == 1) return row_problem_.reserve(shape);
    row_problem_.reserve({1, shape.drawn, shape.columns});  // the last step of an epoch may have one row
    solver_.reserve(shape.rows, shape.columns, shape.drawn);
    e_.reserve(shape.rows), score_.reserve(shape.rows * shape.columns),
        gram_.reserve(shape.rows * shape.rows);
  }

  void step(const StepView& view, StepResult& out) noexcept {
    if (view.rows > 1) return step_batch(view, out);
    if (view.columns != 2) return step_row(view, out);  // one column: only the label was drawn
    const std::size_t y = view.label[0], k = 1 - y;
    ImplicitProblems p = kNoProblems;
    p.e[0] = view.step * view.row_weight[0];
    p.o[0] = view.weight[k];
    p.gap[0] = base_score(view, 0, k) - base_score(view, 0, y);
    p.gamma[0] = 1 / (stretch_of(view, k) + stretch_of(view, y));  // eq:gamma
    p.u[0] = out.u[0];
    solve_implicit(p, 1);
    out.u[0] = p.u[0];
    const double c = p.gamma[0] * p.a[0];  // eq:implicit_single_class_w_update; the trainer divides by r
    out.coefficient[k] = -c;
    out.coefficient[y] = c;
  }

  static constexpr bool takes_pairs() noexcept { return true; }
  void step_pairs(PairSteps& pairs, std::size_t count, double step) const noexcept {
    ImplicitProblems p = kNoProblems;
    for (std::size_t i = 0; i < count; ++i) {
      p.e[i] = step * pairs.row_weight[i];
      p.o[i] = pairs.weight[i];
      p.gap[i] = pairs.score_drawn[i] - pairs.score_label[i];
      p.gamma[i] = 1 / (pairs.squared_norm[i] * 2);
      p.u[i] = pairs.u[i];
    }
    solve_implicit(p, count);
    for (std::size_t i = 0; i < count; ++i) {
      pairs.u[i] = p.u[i];
      pairs.coefficient[i] = p.gamma[i] * p.a[i];
    }
  }

 private:
  void step_row(const StepView& view, StepResult& out) noexcept {
    ImplicitRow row;
    row_problem_.solve(view, out, row, solve_implicit_row);
  }

  void step_batch(const StepView& view, StepResult& out) noexcept {
    const std::size_t n = view.rows, columns = view.columns;
    e_.resize(n);
    for (std::size_t i = 0; i < n; ++i) e_[i] = view.step * view.row_weight[i];
    ImplicitBatch batch;
    batch.rows = n, batch.columns = columns;
    batch.e = e_.data(), batch.base = view.score, batch.weight = view.weight, batch.label = view.label;
    batch.gram = view.gram, batch.ridge = view.ridge;
    if (view.ridge != nullptr) {
      score_.resize(n * columns);
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t k = 0; k < columns; ++k) score_[i * columns + k] = base_score(view, i, k);
      batch.base = score_.data();
    }
    if (view.free_intercept != nullptr) {
      gram_.assign(view.gram, view.gram + n * n);
      for (double& g : gram_) g -= 1;
      batch.gram = gram_.data(), batch.free = 1;
    }
    batch.u = out.u, batch.coefficient = out.coefficient;
    solver_.solve(batch);
  }

  RowProblem row_problem_;
  std::vector<double> score_, e_, gram_;
  ImplicitBatchSolver solver_;
};

}  // namespace truemax
