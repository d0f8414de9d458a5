#include "train/epoch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/random.hpp"
#include "rule/methods.hpp"
#include "train/commuting.hpp"
#include "train/visit_order.hpp"
#include "weights/kernels.hpp"
#include "weights/pairs.hpp"

namespace truemax {
namespace {

constexpr std::size_t kPrefetch = 4;         // steps between asking for a row and using it
constexpr std::uint64_t kWatchEvery = 8192;  // steps between two calls of the watch
// A weight must stay well inside float32 (largest 3.4e38), so that sums and the model file stay finite.
constexpr double kWeightLimit = 1e38, kWeightDiverged = 1e37;

template <Rule R>
class Runner final : public EpochRunner {
 public:
  Runner(const Dataset& data, const TrainOptions& options)
      : options_(options),
        rule_(options.rule),
        draw_(make_draw(options.draw, data.classes->size(), options.classes_per_step)),
        order_(options.visit, options.seed, data.size()),
        ahead_(steps_ahead(draw_->most_classes())),
        score_(draw_->most_classes() + 1),
        coefficient_(draw_->most_classes() + 1) {}

  bool run(const Dataset& data, TrainState& state, const std::atomic<bool>& stop,
           const StepWatch& watch) override {
    const std::uint64_t steps = data.size();
    const double step = options_.step_at(state.epoch);
    const CounterRandom random(options_.seed, Stream::draw, state.epoch);
    order_.start_epoch(state.epoch);
    // The bound on the weights only grows as steps are taken; the truth is cheap once an epoch.
    if (state.largest_weight > kPairWeightHigh / 2) state.largest_weight = state.weights.largest();
    std::array<RowId, kStepsAhead> rows{};
    std::array<ClassId, kStepsAhead> labels{};
    std::uint64_t watched = 0;
    while (state.step < steps) {
      if (stop.load(std::memory_order_relaxed)) return false;
      const std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(ahead_, steps - state.step));
      order_.fill(state.step, {rows.data(), count});
      for (std::size_t t = 0; t < count; ++t) {
        labels[t] = data.label[rows[t]];
        __builtin_prefetch(&data.rows.begin[data.row_of(rows[t])]);
      }
      draw_->fill(random, state.step, {labels.data(), count}, buffer_);
      if constexpr (PairRule<R>) {
        if (buffer_.capacity == 1) {
          run_groups(data, state, {rows.data(), count}, labels.data(), step);
          continue_watch(state, watch, watched);
          continue;
        }
      }
      for (std::size_t t = 0; t < count; ++t) {
        if (t + kPrefetch < count) prefetch_row(data, state, rows[t + kPrefetch]);
        one_step(data, state, rows[t], labels[t], t, step);
      }
      continue_watch(state, watch, watched);
    }
    state.step = 0;
    ++state.epoch;
    return true;
  }

 private:
  static void continue_watch(const TrainState& state, const StepWatch& watch, std::uint64_t& watched) {
    if (!watch || state.step - watched < kWatchEvery) return;
    watched = state.step;
    watch(state.step);
  }

  // Steps of one class each, in groups that can be solved side by side.
  void run_groups(const Dataset& data, TrainState& state, std::span<const RowId> rows, const ClassId* labels,
                  double step) {
    const ClassId* drawn = buffer_.classes.data();
    std::array<std::uint8_t, kPairSteps> now{}, then{};
    groups_.start(rows.size());
    std::size_t now_count = groups_.next(rows.data(), labels, drawn, now);
    while (now_count > 0) {
      const std::size_t then_count = groups_.next(rows.data(), labels, drawn, then);
      for (std::size_t g = 0; g < then_count; ++g) prefetch_row(data, state, rows[then[g]]);
      if (!pair_steps(data, state, rows, labels, {now.data(), now_count}, step))
        for (std::size_t g = 0; g < now_count; ++g)
          one_step(data, state, rows[now[g]], labels[now[g]], now[g], step);
      std::swap(now, then);
      now_count = then_count;
    }
  }

  // A group side by side; false, and nothing done, where float32 sums are not safe.
  bool pair_steps(const Dataset& data, TrainState& state, std::span<const RowId> rows, const ClassId* labels,
                  std::span<const std::uint8_t> group, double step) {
    if (state.weights.has_intercept() || state.largest_weight > kPairWeightHigh) return false;
    PairSteps pairs;
    std::array<PairPlace, kPairSteps> places;
    bool safe = true;
    for (std::size_t g = 0; g < group.size(); ++g) {
      const std::size_t t = group[g];
      const RowState& row = state.rows[rows[t]];
      places[g] = {data.x(rows[t]), state.weights.lane(buffer_.classes[t]), state.weights.lane(labels[t])};
      pairs.weight[g] = buffer_.weights[t];
      pairs.squared_norm[g] = row.squared_norm;
      pairs.row_weight[g] = static_cast<double>(data.example_weight(rows[t]));
      pairs.u[g] = row.u;
      safe &= pairs_are_safe(row.squared_norm);
    }
    if (!safe) return false;
    score_pairs(places.data(), group.size(), pairs.score_drawn.data(), pairs.score_label.data());
    rule_.step_pairs(pairs, group.size(), step);
    double growth = 0;
    for (std::size_t g = 0; g < group.size(); ++g)
      growth += std::abs(pairs.coefficient[g]) *
                std::max(1.0, pairs.squared_norm[g]);  // at least max |c x|, without a root
    if (!(state.largest_weight + growth <= kPairWeightHigh)) return false;  // also where it is no number
    state.largest_weight += growth;
    add_pairs(places.data(), group.size(), pairs.coefficient.data());
    for (std::size_t g = 0; g < group.size(); ++g) state.rows[rows[group[g]]].u = pairs.u[g];
    state.step += group.size();
    return true;
  }

  void one_step(const Dataset& data, TrainState& state, RowId i, ClassId y, std::size_t t, double step) {
    const RowView x = data.x(i);
    const ClassId* drawn = &buffer_.classes[t * buffer_.capacity];
    const double* weight = &buffer_.weights[t * buffer_.capacity];
    const std::size_t m = buffer_.count[t];
    RowState& row = state.rows[i];
    const double row_weight = static_cast<double>(data.example_weight(i));
    StepView view;
    view.drawn = m;
    view.weight = weight;
    view.gram = &row.squared_norm;
    view.row_weight = &row_weight;
    view.step = step;
    StepResult result;
    double u = row.u;
    result.u = &u;
    if (m == 1) {  // the paper's step: both classes in one sweep over the row
      const std::array<ClassId, 2> k{drawn[0], y};
      const std::array<double, 2> z = scores<2>(state.weights, x, k);
      std::array<double, 2> c;
      view.score = z.data();
      result.coefficient = c.data();
      rule_.step(view, result);
      guard(state, c, row.squared_norm);
      row.u = u;
      add<2>(state.weights, x, k, c);
      ++state.step;
      return;
    }
    for (std::size_t j = 0; j < m; ++j) score_[j] = scores<1>(state.weights, x, {drawn[j]})[0];
    score_[m] = scores<1>(state.weights, x, {y})[0];
    view.score = score_.data();
    result.coefficient = coefficient_.data();
    rule_.step(view, result);
    guard(state, std::span(coefficient_).first(m + 1), row.squared_norm);
    row.u = u;
    for (std::size_t j = 0; j < m; ++j) add<1>(state.weights, x, {drawn[j]}, {coefficient_[j]});
    add<1>(state.weights, x, {y}, {coefficient_[m]});
    ++state.step;
  }

  // Keeps an upper bound on |w|; stops before the step that could leave float32, with W as it was.
  void guard(TrainState& state, std::span<const double> c, double squared_norm) const {
    double most = 0;
    bool finite = true;
    for (const double v : c) {
      most = std::max(most, std::abs(v));
      finite &= std::isfinite(v);
    }
    const double growth = most * std::max(1.0, std::sqrt(squared_norm));  // at least max |c x|
    if (finite && state.largest_weight + growth <= kWeightLimit) {
      state.largest_weight += growth;
      return;
    }
    state.largest_weight = state.weights.largest();
    if (finite && state.largest_weight <= kWeightDiverged && state.largest_weight + growth <= kWeightLimit) {
      state.largest_weight += growth;
      return;
    }
    throw DivergenceError(fmt::format(
        "{} diverged at step {} of epoch {}: the next update would leave the range of the weights (largest "
        "weight {:.2g}, update {:.2g}); the model before it is kept. Try --step {:.3g}",
        R::kInfo.name, state.step + 1, state.epoch + 1, state.largest_weight, growth, options_.step / 100));
  }

  TrainOptions options_;
  R rule_;
  std::unique_ptr<Draw> draw_;
  VisitOrder order_;
  std::size_t ahead_;  // steps drawn at once
  DrawBuffer buffer_;
  CommutingGroups groups_;
  std::vector<double> score_, coefficient_;
};

}  // namespace

std::size_t steps_ahead(std::size_t classes_per_step) {
  constexpr std::size_t kClassesAhead = 1 << 16;
  return std::clamp<std::size_t>(kClassesAhead / std::max<std::size_t>(classes_per_step, 1), 1, kStepsAhead);
}

TrainState make_state(const Dataset& data, const TrainOptions& options) {
  TrainState state;
  state.weights = Weights(data.classes->size(), data.space->features, options.intercept);
  state.rows.resize(data.size());
  for (std::size_t i = 0; i < data.size(); ++i)
    state.rows[i].squared_norm = squared_norm(data.x(i), options.intercept);
  return state;
}

std::unique_ptr<EpochRunner> make_epoch_runner(const Dataset& data, const TrainOptions& options) {
  options.check();
  std::unique_ptr<EpochRunner> runner;
  for_each_method([&]<class R>() {
    if (R::kInfo.name == options.method) runner = std::make_unique<Runner<R>>(data, options);
  });
  return runner;
}

}  // namespace truemax
