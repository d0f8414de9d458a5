#include "train/general_lane.hpp"

#include <algorithm>
#include <cmath>

namespace truemax {

GeneralLane::GeneralLane(const LaneSetup& setup)
    : setup_(setup),
      drawn_(setup),
      work_(setup, setup.plan.shape),
      hooks_(make_hooks(setup, setup.plan.shape)),
      gram_of_several_(setup.rule.info().needs_gram || tracks_norms(setup)) {
  if (gram_of_several_) {
    const std::size_t rows = setup.plan.shape.rows;
    work_.a.gram.reserve(rows * rows);
  }
}

void GeneralLane::attach(RunState& state) {
  if (setup_.draw_learns() || setup_.has_rivals()) setup_.draw->attach(state.draw_memory);
  if (setup_.has_rivals()) setup_.ridge.follow(setup_.data, *setup_.draw);
}

bool GeneralLane::start_epoch(RunState& state, const std::atomic<bool>& stop, const StepSchedule& plan) {
  return std::all_of(hooks_.begin(), hooks_.end(),
                     [&](const auto& hook) { return hook->start_epoch(state, stop, plan); });
}

void GeneralLane::take(const Batch& batch, RunState& state) {
  prepare(batch);
  for (std::size_t t = 0; t < batch.count; ++t) {
    drawn_.prefetch_after(t, state);
    step(state, batch, t);
    ++state.step;
  }
}

void GeneralLane::prepare(const Batch& batch) {
  drawn_.fill(batch);
}

void GeneralLane::step(RunState& state, const Batch& batch, std::size_t t) {
  score(state, batch, t);
  setup_.guard.admit(state, solve(state));
  apply(state);
}

void GeneralLane::score(RunState& state, const Batch& batch, std::size_t t) {
  work_.start(drawn_.examples(t));
  take_classes(state, t);
  fill_weights(t);
  work_.fill_view(state, batch, gram_of_several_);
  for (const auto& hook : hooks_) hook->before_solve(state, work_);
}

// The scores that the rule may look at: of the drawn classes and of each row's label.
void GeneralLane::take_classes(RunState& state, std::size_t t) {
  StepArrays& a = work_.a;
  a.take_drawn(drawn_.classes(t));
  const std::span<const ClassId> labels = drawn_.labels(t);
  const bool alone = setup_.recipe.rows_per_step == 1;
  if (alone)  // its label is never drawn; a step of several rows may have one row left, whose label may be
    a.add_label(labels[0]);
  else
    a.add_labels(labels);
  for (const auto& hook : hooks_) hook->before_scores(state, work_);
  const std::size_t columns = a.classes.size();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    double* z = &a.score[i * columns];
    const std::size_t y = a.label[i];
    scores(state.weights, a.x[i], {a.classes.data(), alone ? columns : a.drawn}, z);
    if (!alone && y >= a.drawn) z[y] = scores<1>(state.weights, a.x[i], {a.classes[y]})[0];
  }
}

void GeneralLane::fill_weights(std::size_t t) {
  StepArrays& a = work_.a;
  const std::size_t columns = a.classes.size(), rows = a.label.size();
  a.weight.assign(rows * columns, 0.0);
  for (std::size_t i = 0; i < rows; ++i) {
    std::copy_n(drawn_.weights(t), a.drawn, &a.weight[i * columns]);
    a.weight[i * columns + a.label[i]] = 0;
  }
  if (!setup_.rule.info().needs_log_q) return;
  a.log_q.resize(columns);
  for (std::size_t c = 0; c < columns; ++c) a.log_q[c] = std::log(setup_.draw->mean_count(a.classes[c]));
}

void GeneralLane::apply(RunState& state) {
  const StepArrays& a = work_.a;
  for (const auto& hook : hooks_) hook->before_apply(state, work_);
  work_.apply_u(state);
  const std::size_t rows = a.label.size();
  // Contiguous for one row; for several, the drawn classes and the label.
  const std::size_t first = rows == 1 ? a.classes.size() : a.drawn;
  for (std::size_t i = 0; i < rows; ++i) {
    const double* c = work_.coefficients(i).data();
    const std::size_t y = a.label[i];
    add(state.weights, a.x[i], {a.classes.data(), first}, c);
    if (y >= first) add<1>(state.weights, a.x[i], {a.classes[y]}, {c[y]});
  }
  work_.apply_ridge(state);
  for (const auto& hook : hooks_) hook->after_apply(state, work_);
  if (setup_.draw_learns())
    setup_.draw->learn(work_.examples()[0], {a.classes.data(), a.drawn}, a.score.data());
}

}  // namespace truemax
