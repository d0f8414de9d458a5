#include "train/all_classes_lane.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "train/step_shape.hpp"

namespace truemax {

AllClassesLane::AllClassesLane(const LaneSetup& setup)
    : setup_(setup), visited_(setup), work_(setup, setup.plan.shape) {
  StepArrays& a = work_.a;
  a.classes.resize(setup.data.classes->size());
  std::iota(a.classes.begin(), a.classes.end(), ClassId{0});
  a.drawn = a.classes.size();
}

void AllClassesLane::take(const Batch& batch, RunState& state) {
  visited_.fill(batch);
  for (std::size_t t = 0; t < batch.count; ++t, ++state.step) {
    visited_.prefetch_after(t, state);
    prepare(state, t);
    score(state, batch);
    setup_.guard.admit(state, work_.solve(state));
    apply(state);
  }
}

void AllClassesLane::prepare(const RunState& state, std::size_t t) {
  const std::span<const ClassId> labels = visited_.labels(t);
  work_.start(visited_.examples(t));
  work_.a.shape(labels.size(), state.weights.blocks() * kLanes);
  std::copy(labels.begin(), labels.end(), work_.a.label.begin());
}

void AllClassesLane::score(const RunState& state, const Batch& batch) {
  StepArrays& a = work_.a;
  const std::size_t classes = state.weights.classes(), columns = state.weights.blocks() * kLanes;
  scores_of_all(state.weights, a.x, a.score.data());
  for (std::size_t i = 0; i < a.x.size(); ++i)
    std::fill(a.score.data() + i * columns + classes, a.score.data() + (i + 1) * columns,
              -std::numeric_limits<double>::infinity());
  work_.fill_view(state, batch, setup_.rule.info().needs_gram);
}

void AllClassesLane::apply(RunState& state) {
  work_.apply_u(state);
  for (std::size_t i = 0; i < work_.a.x.size(); ++i)
    add_to_all(state.weights, work_.a.x[i], work_.coefficients(i).data());
  work_.apply_ridge(state);
}

}  // namespace truemax
