// Converts a step of one row into the input of the one-row solvers: base scores and how far a coefficient
// moves them, with ridge and an intercept that may be outside it.
#pragma once

#include <cstddef>
#include <vector>

#include "rule/rule.hpp"
#include "solve/ridge.hpp"
#include "solve/row_memory.hpp"

namespace truemax {

// The score after the ridge shrank the weights, before the step adds to them.
inline double base_score(const StepView& view, std::size_t i, std::size_t k) {
  const double z = view.score[i * view.columns + k];
  if (view.ridge == nullptr) return z;
  if (view.free_intercept == nullptr) return shrunk_score(z, view.ridge[k]);
  return shrunk_score(z, view.ridge[k], view.free_intercept[k]);
}

// How far a coefficient of 1 moves the score of class k for the only row.
inline double stretch_of(const StepView& view, std::size_t k) {
  if (view.ridge == nullptr) return view.gram[0];
  return shrunk_norm(view.gram[0], view.ridge[k], view.free_intercept != nullptr);
}

// Solves the step of the view's only row with `solve`, which takes an ImplicitRow or a ProxRow and scratch
// memory.
class RowProblem {
 public:
  void reserve(const StepShape& shape) {
    memory_.reserve(shape.columns);
    score_.reserve(shape.columns), ridge_.reserve(shape.columns);
  }

  template <class Row, class Solve>
  void solve(const StepView& view, StepResult& out, Row& row, Solve&& solve) {
    const std::size_t y = view.label[0], columns = view.columns;
    row.e = view.step * view.row_weight[0];
    row.u = out.u[0];
    row.classes = columns;
    row.weight = view.weight;  // 0 for the label: the solver returns 0 for it, set below
    row.coefficient = out.coefficient;
    if (view.free_intercept == nullptr) {
      row.squared_norm = view.gram[0];
      row.score = view.score, row.ridge = view.ridge;
    } else {
      // The solver uses only score/ridge and squared_norm/ridge: pass the base and the stretch.
      score_.resize(columns), ridge_.resize(columns);
      for (std::size_t k = 0; k < columns; ++k) {
        ridge_[k] = 1 / stretch_of(view, k);
        score_[k] = base_score(view, 0, k) * ridge_[k];
      }
      row.squared_norm = 1;
      row.score = score_.data(), row.ridge = ridge_.data();
    }
    row.label_score = row.score[y];
    row.label_ridge = row.ridge == nullptr ? 1 : row.ridge[y];
    solve(row, memory_);
    for (std::size_t k = 0; k < columns; ++k) out.coefficient[k] = -out.coefficient[k];
    out.coefficient[y] = row.label_coefficient;
    out.u[0] = row.u;
  }

 private:
  std::vector<double> score_, ridge_;
  RowMemory memory_;
};

}  // namespace truemax
