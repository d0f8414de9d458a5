#include "train/pair_lane.hpp"

#include <algorithm>
#include <cmath>

namespace truemax {

void PairLane::take(const Batch& batch, RunState& state) {
  general_.prepare(batch);
  const DrawnBatch& drawn = general_.drawn();
  const ExampleId* examples = drawn.all_examples().data();
  const ClassId *labels = drawn.all_labels().data(), *classes = drawn.classes(0).data();
  std::array<std::uint8_t, kPairSteps> now{}, then{};
  groups_.start(batch.count);
  std::size_t now_count = groups_.next(examples, labels, classes, now);
  while (now_count > 0) {
    const std::size_t then_count = groups_.next(examples, labels, classes, then);
    for (std::size_t g = 0; g < then_count; ++g) prefetch_example(setup_.data, state, examples[then[g]]);
    bool taken = prepare(state, {now.data(), now_count});
    if (taken) {
      score();
      taken = solve(state, batch.step);
    }
    if (taken)
      apply(state);
    else
      for (std::size_t g = 0; g < now_count; ++g, ++state.step) general_.step(state, batch, now[g]);
    std::swap(now, then);
    now_count = then_count;
  }
}

bool PairLane::prepare(RunState& state, Group group) {
  if (state.weights.has_intercept() || !float_sums_hold(state.largest_weight)) return false;
  const DrawnBatch& drawn = general_.drawn();
  group_ = group;
  bool safe = true;
  for (std::size_t g = 0; g < group.size(); ++g) {
    const std::size_t t = group[g];
    const ExampleId example = drawn.all_examples()[t];
    const RowState& row = state.row(example);
    places_[g] =
        pair_place(state.weights, setup_.data.x(example), drawn.classes(t)[0], drawn.all_labels()[t]);
    pairs_.weight[g] = drawn.weights(t)[0];
    pairs_.squared_norm[g] = row.squared_norm;
    pairs_.row_weight[g] = setup_.data.weight(example);
    pairs_.u[g] = row.u;
    safe &= pairs_are_safe(row.squared_norm);
  }
  return safe;
}

void PairLane::score() {
  score_pairs(places_.data(), group_.size(), pairs_.score_drawn.data(), pairs_.score_label.data());
}

bool PairLane::solve(RunState& state, double step) {
  setup_.rule.step_pairs(pairs_, group_.size(), step);
  double growth = 0;
  for (std::size_t g = 0; g < group_.size(); ++g)
    growth += std::abs(pairs_.coefficient[g]) *
              std::max(1.0, pairs_.squared_norm[g]);  // at least max |c x|, without a square root
  if (!float_sums_hold(state.largest_weight + growth)) return false;
  state.largest_weight += growth;
  return true;
}

void PairLane::apply(RunState& state) {
  add_pairs(places_.data(), group_.size(), pairs_.coefficient.data());
  for (std::size_t g = 0; g < group_.size(); ++g)
    state.row(general_.drawn().all_examples()[group_[g]]).u = pairs_.u[g];
  state.step += group_.size();
}

}  // namespace truemax
