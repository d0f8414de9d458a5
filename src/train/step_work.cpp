#include "train/step_work.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace truemax {

StepWork::StepWork(const LaneSetup& setup, const StepShape& shape)
    : setup_(setup), gram_(shape.rows > 1 ? setup.data.space->features : 0) {
  a.reserve(shape.rows, shape.columns);
}

void StepWork::start(std::span<const ExampleId> examples) {
  examples_ = examples;
  a.x.resize(examples.size());
  for (std::size_t i = 0; i < examples.size(); ++i) a.x[i] = setup_.data.x(examples[i]);
}

void StepWork::fill_view(const RunState& state, const Batch& batch, bool with_gram) {
  const std::size_t n = examples_.size();
  assert(n > 0);
  for (std::size_t i = 0; i < n; ++i) {
    a.row_weight[i] = setup_.data.weight(examples_[i]);
    a.u[i] = state.row(examples_[i]).u;
  }
  view = {};
  view.rows = n;
  view.columns = a.score.size() / n;
  view.score = a.score.data();
  view.weight = a.weight.data();
  view.label = a.label.data();
  view.row_weight = a.row_weight.data();
  view.log_q = a.log_q.data();
  view.step = batch.step / static_cast<double>(setup_.recipe.rows_per_step);
  view.decayed = batch.decayed;
  view.complete = setup_.draw != nullptr && setup_.draw->complete();
  if (n == 1) {
    view.gram = &state.row(examples_[0]).squared_norm;
  } else if (with_gram) {
    a.gram.resize(n * n);
    gram_.fill(a.x, setup_.recipe.intercept, a.gram.data());
    view.gram = a.gram.data();
  }
  if (setup_.ridge.on()) fill_ridge(state, batch.step);
}

void StepWork::fill_ridge(const RunState& state, double step) {
  double weight = 0;
  for (std::size_t i = 0; i < view.rows; ++i) weight += view.row_weight[i];
  const double strength = setup_.ridge.strength(step, weight);
  const std::vector<double>& by_class = setup_.ridge.beta(view.rows);
  const bool learns = setup_.draw_learns();
  a.ridge.assign(view.columns, 1.0);
  for (std::size_t c = 0; c < a.classes.size(); ++c) {
    const double beta = !learns ? by_class[a.classes[c]] : c < a.drawn ? a.weight[c] : 1;
    a.ridge[c] = ridge_factor(strength, beta);
  }
  view.ridge = a.ridge.data();
  if (!setup_.ridge.leaves_intercept()) return;
  a.intercept.assign(view.columns, 0.0);
  for (std::size_t c = 0; c < a.classes.size(); ++c)
    a.intercept[c] = state.weights.intercept_of(a.classes[c]);
  view.free_intercept = a.intercept.data();
}

Growth StepWork::solve(const RunState& state) {
  StepResult result{a.coefficient.data(), a.u.data()};
  setup_.rule.step(view, result);
  return growth_of(state);
}

Growth StepWork::growth_of(const RunState& state) const {
  Growth growth;
  for (std::size_t i = 0; i < examples_.size(); ++i) {
    double most = 0, largest = 0;
    for (std::size_t c = 0; c < a.classes.size(); ++c) {
      const double v = std::abs(a.coefficient[i * columns() + c]);
      largest = std::max(largest, v);
      most = std::max(most, v / state.weights.scale(a.classes[c]));
      growth.finite &= std::isfinite(v);
    }
    growth.finite &= std::isfinite(a.u[i]) && std::isfinite(most);
    const double length = std::max(1.0, std::sqrt(state.row(examples_[i]).squared_norm));
    growth.memory += most * length;  // at least max |c x|
    growth.update += largest * length;
  }
  return growth;
}

// Folding a scale into memory makes the numbers there smaller, so that the bound on them holds.
void StepWork::apply_ridge(RunState& state) const {
  if (!setup_.ridge.on()) return;
  for (std::size_t c = 0; c < a.classes.size(); ++c) {
    const double factor = 1 / a.ridge[c];
    state.weights.scale_class(a.classes[c], factor);
    if (setup_.ridge.includes_intercept()) state.weights.scale_intercept(a.classes[c], factor);
  }
}

void StepWork::apply_u(RunState& state) const {
  for (std::size_t i = 0; i < examples_.size(); ++i) state.row(examples_[i]).u = a.u[i];
}

}  // namespace truemax
