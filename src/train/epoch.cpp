#include "train/epoch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "core/huge_pages.hpp"
#include "core/random.hpp"
#include "rule/methods.hpp"
#include "solve/implicit_batch.hpp"
#include "train/block_loop.hpp"
#include "train/commuting.hpp"
#include "train/companion.hpp"
#include "train/norms.hpp"
#include "train/problem.hpp"
#include "train/step_arrays.hpp"
#include "train/visit_order.hpp"
#include "weights/kernels.hpp"
#include "weights/pairs.hpp"
#include "weights/pass.hpp"

namespace truemax {
namespace {

constexpr std::size_t kPrefetch = 4;         // steps between asking for a row and using it
constexpr std::uint64_t kWatchEvery = 8192;  // steps between two calls of the watch
// A weight must stay well inside float32 (largest 3.4e38), so that sums and the model file stay finite.
constexpr double kWeightLimit = 1e38, kWeightDiverged = 1e37;

// Steps of so many rows and classes that are drawn at once: few where a step is long. The clock of a run with
// --seconds is looked at once for all of them, so that they must be over in a few milliseconds; it is the
// same number without a clock, so that a run can be repeated bit for bit.
std::size_t steps_ahead(const Dataset& data, bool gram, std::size_t rows, std::size_t classes) {
  constexpr double kAhead = 1 << 16, kWork = 1 << 19;
  const auto n = static_cast<double>(rows), m = static_cast<double>(classes);
  const double nonzeros = data.nonzeros_per_row();
  const double work = n * (m + 1) * (nonzeros + 1) + (gram ? n * n * (nonzeros + n * m) : 0.0);
  return static_cast<std::size_t>(
      std::clamp(std::min(kAhead / (n + m), kWork / work), 1.0, static_cast<double>(kStepsAhead)));
}

StepShape step_shape(const Dataset& data, const TrainOptions& options, const MethodInfo& info,
                     const Draw* draw) {
  const std::size_t n = options.rows_per_step, drawn = draw != nullptr ? draw->most_classes() : 0;
  const std::size_t blocks = (data.classes->size() + kLanes - 1) / kLanes;
  const std::size_t rows = std::min<std::size_t>(n, data.size());
  return {rows, drawn, info.whole_set ? blocks * kLanes : drawn + rows};
}

template <Rule R>
class Runner final : public EpochRunner {
 public:
  Runner(const Dataset& data, const TrainOptions& options)
      : options_(options),
        problem_(problem_of(data, options)),
        rule_(options.rule, problem_),
        draw_(draw_for(data, options)),
        order_(options.visit, options.seed, data.size(), options.rows_per_step),
        together_(options.rows_per_step),
        ahead_(learns() ? 1
                        : steps_ahead(data, R::kInfo.needs_gram, together_,
                                      draw_ ? draw_->most_classes() : data.classes->size())),
        rows_(ahead_ * together_),
        labels_(ahead_ * together_),
        gram_(gram_of_several() ? data.space->features : 0) {
    const StepShape shape = step_shape(data, options, R::kInfo, draw_.get());
    reserve_memory(rule_, shape);
    arrays_.reserve(shape.rows, shape.columns);
    if (gram_of_several()) arrays_.gram.reserve(shape.rows * shape.rows);
    if (R::kInfo.has_companion) arrays_.smoothed.reserve(shape.rows * shape.columns);
    if (draw_) buffer_.shape(ahead_, draw_->most_classes()), buffer_.words.reserve(draw_->words());
    if (options.ridge > 0 && !learns()) {
      beta_ = ridge_weights(data, draw_.get(), std::min(together_, data.size()));
      if (data.size() > together_ && data.size() % together_ != 0)
        last_beta_ = ridge_weights(data, draw_.get(), data.size() % together_);
    }
    if (BlockRule<R> && together_ == 1 && draw_ && draw_->whole_blocks())
      block_loop_ = std::make_unique<BlockLoop<R>>(data, options, *draw_, ahead_);
  }

  bool run(const Dataset& data, TrainState& state, const std::atomic<bool>& stop, const StepWatch& watch,
           StepPlan* given_plan) override {
    const std::uint64_t steps = steps_per_epoch(data.size(), options_);
    StepPlan own_plan(options_, steps);
    StepPlan& plan = given_plan != nullptr ? *given_plan : own_plan;
    const CounterRandom random(options_.seed, Stream::draw, state.epoch);
    order_.start_epoch(state.epoch);
    if (learns()) draw_->attach(state.draw_memory);
    // The bound on the weights only grows as steps are taken; the truth is cheap once an epoch.
    if (state.step == 0 && state.largest_weight > kPairWeightHigh / 2)
      state.largest_weight = state.weights.largest();
    if (state.step == 0 && !start_epoch(data, state, stop, plan)) return false;
    std::uint64_t watched = state.step;
    while (state.step < steps) {
      if (stop.load(std::memory_order_relaxed)) return false;
      const StepPlan::Leg leg = plan.next(state.epoch, state.step);
      if (leg.steps == 0) return false;
      step_ = leg.step;
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>({ahead(state), steps - state.step, leg.steps}));
      if constexpr (BlockRule<R>) {
        // Beyond this every step would be declined; one after the other, they may look at all of W.
        if (block_loop_ && state.largest_weight <= kBatchWeightHigh) {
          run_blocks(data, state, random, count);
          continue_watch(state, watch, watched);
          continue;
        }
      }
      const std::uint64_t first = state.step * together_;
      const std::size_t visited = std::min<std::uint64_t>(count * together_, data.size() - first);
      order_.fill(first, {rows_.data(), visited});
      for (std::size_t t = 0; t < visited; ++t) {
        labels_[t] = data.label[rows_[t]];
        __builtin_prefetch(&data.rows.store().begin[data.row_of(rows_[t])]);
      }
      if (draw_)
        draw_->fill(random, state.step, count, {labels_.data(), visited}, {rows_.data(), visited}, buffer_);
      if constexpr (PairRule<R>) {
        if (together_ == 1 && buffer_.capacity == 1 && draw_->always_full() && options_.ridge == 0 &&
            rule_.takes_pairs()) {
          run_groups(data, state, {rows_.data(), count}, labels_.data(), step_);
          continue_watch(state, watch, watched);
          continue;
        }
      }
      for (std::size_t t = 0, from = 0; t < count; ++t, from += together_) {
        for (std::size_t p = from + kPrefetch; p < std::min(from + kPrefetch + together_, visited); ++p)
          prefetch_row(data, state, rows_[p]);
        one_step(data, state, {&rows_[from], std::min(together_, visited - from)}, t);
        ++state.step;
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

  bool learns() const { return draw_ && draw_->learns(); }
  // The first touch of a huge page clears it, which takes as long as a hundred steps.
  std::size_t ahead(const TrainState& state) const {
    constexpr std::size_t kFreshSteps = 8;
    const std::size_t pages = state.weights.memory().size_bytes() / detail::kHugePage;
    return state.epoch == 0 && state.step < pages ? std::min(ahead_, kFreshSteps) : ahead_;
  }

  bool gram_of_several() const { return R::kInfo.needs_gram || tracks_norms(); }
  bool tracks_norms() const { return R::kInfo.projects && std::isfinite(problem_.weight_bound()); }

  // What a method wants at the beginning of an epoch; false where `stop` was raised or the time is over.
  bool start_epoch(const Dataset& data, TrainState& state, const std::atomic<bool>& stop,
                   const StepPlan& plan) {
    if (tracks_norms()) Norms::recompute(state.norms, state.weights);
    if (R::kInfo.refreshes && state.epoch % options_.rule.refresh == 0)
      return refresh(data, state, stop, plan);
    return true;
  }

  // u of every row becomes its exact log(sum_k exp(z_k)).
  bool refresh(const Dataset& data, TrainState& state, const std::atomic<bool>& stop,
               const StepPlan& plan) const {
    // A slice in which the clock can wait.
    const std::size_t slice =
        plan.has_clock() ? steps_ahead(data, false, 1, data.classes->size()) * kLanes : std::size_t{1} << 16;
    const PassOptions pass{.top = 0,
                           .threads = options_.thread_count(),
                           .tie_rank = {},
                           .stop = &stop,
                           .numbers = PassNumbers::doubles};
    const CsrView all = data.rows.view();
    std::size_t example = 0;
    for (std::size_t first = 0; first < all.rows(); first += slice) {
      if (plan.out_of_time()) return false;
      const std::size_t count = std::min(slice, all.rows() - first);
      const PassResult result = softmax_pass(state.weights, all.slice(first, count), pass);
      if (!result.complete) return false;
      for (; example < data.size() && data.row_of(example) < first + count; ++example) {
        const std::size_t r = data.row_of(example) - first;
        state.rows[example].u = result.highest[r] + std::log(result.excess[r]);
      }
    }
    return true;
  }

  // Steps over whole blocks; those that float32 cannot hold go the general way.
  void run_blocks(const Dataset& data, TrainState& state, const CounterRandom& random, std::size_t count) {
    const BlockSteps::Terms terms{.step = step_,
                                  .decayed = step_ / options_.step_at(0),
                                  .complete = draw_->complete(),
                                  .beta = beta_.empty() ? nullptr : beta_.data(),
                                  .ridge_factor = step_ * options_.ridge / problem_.total_weight,
                                  .ridge_intercept = options_.ridge_intercept};
    std::optional<Refused> refused;  // the first one
    const auto general = [&](std::uint64_t step, RowId row, double bound) -> std::optional<double> {
      const ClassId label = data.label[row];
      draw_->fill(random, step, 1, {&label, 1}, {&row, 1}, buffer_);
      const Growth growth = prepare_step(data, state, {&row, 1}, 0);
      if (growth.finite && bound + growth.memory <= kWeightLimit) {
        finish_step(data, state, {&row, 1});
        return growth.memory;
      }
      if (!refused || step < refused->step) refused = {step, growth.update};
      return {};
    };
    block_loop_->run(data, state, order_, random, state.step, count, rule_, terms, std::ref(general));
    // Only now: threads that are faster or slower have taken the same steps, so that W is the same.
    if (refused) diverged(state, refused->step, refused->update);
    state.step += count;
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
        for (std::size_t g = 0; g < now_count; ++g, ++state.step)
          one_step(data, state, {&rows[now[g]], 1}, now[g]);
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
      pairs.row_weight[g] = data.example_weight(rows[t]);
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

  // How far a step may move weights.
  struct Growth {
    double memory = 0, update = 0;  // numbers in memory, and the weights themselves
    bool finite = true;
  };
  struct Refused {
    std::uint64_t step;
    double update;
  };

  void one_step(const Dataset& data, TrainState& state, std::span<const RowId> rows, std::size_t t) {
    guard(state, prepare_step(data, state, rows, t));
    finish_step(data, state, rows);
  }

  // All of step t up to the coefficients; nothing of the state is changed that a step not taken would miss.
  Growth prepare_step(const Dataset& data, TrainState& state, std::span<const RowId> rows, std::size_t t) {
    StepArrays& a = arrays_;
    if (R::kInfo.whole_set)
      take_all_classes(data, state, rows);
    else
      take_classes(data, state, rows, t);
    const std::size_t n = rows.size(), columns = a.score.size() / n;
    for (std::size_t i = 0; i < n; ++i) {
      a.row_weight[i] = data.example_weight(rows[i]);
      a.u[i] = state.rows[rows[i]].u;
    }
    StepView& view = view_;
    view = {};
    view.rows = n;
    view.columns = columns;
    view.score = a.score.data();
    view.weight = a.weight.data();
    view.label = a.label.data();
    view.gram = gram_of(data, state, rows);
    view.row_weight = a.row_weight.data();
    view.log_q = a.log_q.data();
    view.step = step_ / static_cast<double>(together_);
    view.decayed = step_ / options_.step_at(0);
    view.complete = draw_ && draw_->complete();
    if (options_.ridge > 0) set_ridge(state, view);
    if (R::kInfo.has_companion) view.smoothed = smoothed_scores(data, state, rows);
    StepResult result{a.coefficient.data(), a.u.data()};
    rule_.step(view, result);
    return growth_of(state, rows, columns);
  }

  void finish_step(const Dataset& data, TrainState& state, std::span<const RowId> rows) {
    StepArrays& a = arrays_;
    const StepView& view = view_;
    if (tracks_norms()) Norms::update(state.norms, view, a, state.weights);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      state.rows[rows[i]].u = a.u[i];
      apply(data, state, rows[i], i, view.columns);
    }
    if (options_.ridge > 0) apply_ridge(state);
    if (tracks_norms()) Norms::project(state.norms, state.weights, problem_.weight_bound());
    if constexpr (R::kInfo.has_companion) Companion::decay(state.companion, rule_.smoothing(view));
    if (learns()) draw_->learn(rows[0], {a.classes.data(), a.drawn}, a.score.data());
  }

  // The columns of step t, and the scores that the rule may look at: of the drawn classes and of each row's
  // label.
  void take_classes(const Dataset& data, TrainState& state, std::span<const RowId> rows, std::size_t t) {
    StepArrays& a = arrays_;
    const ClassId* drawn = buffer_.classes.data() + t * buffer_.capacity;
    const double* weight = buffer_.weights.data() + t * buffer_.capacity;
    a.take_drawn(drawn, buffer_.count[t]);
    if (together_ == 1) {  // a step of several rows may have one that is left: its label may be drawn
      a.classes.push_back(data.label[rows[0]]);
      a.shape(1, a.drawn + 1);
      a.label[0] = static_cast<std::uint32_t>(a.drawn);
      settle(state);
      scores(state.weights, data.x(rows[0]), a.classes, a.score.data());
    } else {
      a.add_labels({&labels_[t * together_], rows.size()});
      settle(state);
      const std::size_t columns = a.classes.size();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        double* z = &a.score[i * columns];
        const std::size_t y = a.label[i];
        scores(state.weights, data.x(rows[i]), {a.classes.data(), a.drawn}, z);
        if (y >= a.drawn) z[y] = scores<1>(state.weights, data.x(rows[i]), {a.classes[y]})[0];
      }
    }
    const std::size_t columns = a.classes.size();
    a.weight.assign(rows.size() * columns, 0.0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(weight, a.drawn, &a.weight[i * columns]);
      a.weight[i * columns + a.label[i]] = 0;
    }
    if (!R::kInfo.needs_log_q) return;
    a.log_q.resize(columns);
    for (std::size_t c = 0; c < columns; ++c) a.log_q[c] = std::log(draw_->mean_count(a.classes[c]));
  }

  // A projection makes all scales smaller at once.
  void settle(TrainState& state) const {
    if (!tracks_norms()) return;
    for (const ClassId k : arrays_.classes) state.weights.settle(k);
  }

  // Column k is class k; the padding of the last block has no probability.
  void take_all_classes(const Dataset& data, const TrainState& state, std::span<const RowId> rows) {
    StepArrays& a = arrays_;
    const Weights& w = state.weights;
    const std::size_t columns = w.blocks() * kLanes;
    if (a.classes.size() != w.classes()) {
      a.classes.resize(w.classes());
      std::iota(a.classes.begin(), a.classes.end(), ClassId{0});
    }
    a.drawn = w.classes();
    a.shape(rows.size(), columns);
    for (std::size_t i = 0; i < rows.size(); ++i) a.label[i] = data.label[rows[i]];
    scores_of_all(w, data.rows.view(), feature_rows(data, rows), a.score.data());
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::fill(a.score.data() + i * columns + w.classes(), a.score.data() + (i + 1) * columns,
                -std::numeric_limits<double>::infinity());
  }

  const double* gram_of(const Dataset& data, const TrainState& state, std::span<const RowId> rows) {
    if (rows.size() == 1) return &state.rows[rows[0]].squared_norm;
    if (!gram_of_several()) return nullptr;
    arrays_.gram.resize(rows.size() * rows.size());
    gram_.fill(data.rows.view(), feature_rows(data, rows), options_.intercept, arrays_.gram.data());
    return arrays_.gram.data();
  }

  // Examples may share the features of a row.
  std::span<const RowId> feature_rows(const Dataset& data, std::span<const RowId> rows) {
    arrays_.feature_rows.resize(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      arrays_.feature_rows[i] = static_cast<RowId>(data.row_of(rows[i]));
    return arrays_.feature_rows;
  }

  // A step's ridge is that of its rows: their share of all row weight. The rows of an epoch then have all of
  // it, also where its last step has fewer rows, and what is minimised is the mean over rows of
  // w_i (loss_i + mu/(2 sum w) |W|^2). An equal ridge for every row would have the same optimum, but there,
  // where the two gradients cancel in the mean, they would cancel less well in a row that weighs more.
  void set_ridge(const TrainState& state, StepView& view) {
    StepArrays& a = arrays_;
    double weight = 0;
    for (std::size_t i = 0; i < view.rows; ++i) weight += view.row_weight[i];
    const double factor =
        step_ * options_.ridge / problem_.total_weight * (weight / static_cast<double>(together_));
    const std::vector<double>& by_class = view.rows < together_ && !last_beta_.empty() ? last_beta_ : beta_;
    const std::size_t columns = view.columns;
    a.ridge.assign(columns, 1.0);
    for (std::size_t c = 0; c < a.classes.size(); ++c) {
      const double beta = !learns() ? by_class[a.classes[c]] : c < a.drawn ? a.weight[c] : 1;
      a.ridge[c] = 1 + factor * beta;
    }
    view.ridge = a.ridge.data();
    if (!problem_.free_intercept) return;
    a.intercept.assign(columns, 0.0);
    for (std::size_t c = 0; c < a.classes.size(); ++c)
      a.intercept[c] = static_cast<double>(state.weights.intercept()[a.classes[c]]);
    view.free_intercept = a.intercept.data();
  }

  const double* smoothed_scores(const Dataset& data, TrainState& state, std::span<const RowId> rows) {
    StepArrays& a = arrays_;
    const std::size_t columns = a.classes.size();
    for (const ClassId k : a.classes) Companion::touch(state.companion, data, k);
    a.smoothed.resize(rows.size() * columns);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      scores(state.companion.difference, data.x(rows[i]), a.classes, &a.smoothed[i * columns]);
      for (std::size_t c = 0; c < columns; ++c) a.smoothed[i * columns + c] += a.score[i * columns + c];
    }
    return a.smoothed.data();
  }

  void apply(const Dataset& data, TrainState& state, RowId row, std::size_t i, std::size_t columns) {
    StepArrays& a = arrays_;
    double* c = &a.coefficient[i * columns];
    if (R::kInfo.whole_set) return add_to_all(state.weights, data.x(row), c);
    // Contiguous for one row; for several, the drawn classes and the label.
    const std::size_t y = a.label[i];
    const std::size_t first = a.label.size() == 1 ? columns : a.drawn;
    add(state.weights, data.x(row), {a.classes.data(), first}, c);
    if (y >= first) add<1>(state.weights, data.x(row), {a.classes[y]}, {c[y]});
    if (!R::kInfo.has_companion) return;
    for (std::size_t k = 0; k < columns; ++k) c[k] = -c[k];
    Companion::add(state.companion, data, row, {a.classes.data(), first}, c);
    if (y >= first) Companion::add(state.companion, data, row, {&a.classes[y], 1}, &c[y]);
  }

  void apply_ridge(TrainState& state) {
    for (std::size_t c = 0; c < arrays_.classes.size(); ++c) {
      const ClassId k = arrays_.classes[c];
      const double factor = 1 / arrays_.ridge[c];
      state.weights.scale_class(k, factor);
      if (options_.ridge_intercept) state.weights.scale_intercept(k, factor);
      if (R::kInfo.has_companion) Companion::shrink(state.companion, k, factor, options_.ridge_intercept);
    }
    // Folding a scale into memory makes the numbers there smaller, so that the bound holds.
  }

  Growth growth_of(const TrainState& state, std::span<const RowId> rows, std::size_t columns) const {
    const StepArrays& a = arrays_;
    Growth growth;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      double most = 0, largest = 0;
      for (std::size_t c = 0; c < a.classes.size(); ++c) {
        const double v = std::abs(a.coefficient[i * columns + c]);
        largest = std::max(largest, v);
        most = std::max(most, v / state.weights.scale(a.classes[c]));
        growth.finite &= std::isfinite(v);
      }
      growth.finite &= std::isfinite(a.u[i]) && std::isfinite(most);
      const double length = std::max(1.0, std::sqrt(state.rows[rows[i]].squared_norm));
      growth.memory += most * length;  // at least max |c x|
      growth.update += largest * length;
    }
    return growth;
  }

  // Keeps an upper bound on the numbers in memory; stops before the step that could leave float32, with W as
  // it was. Where no other thread writes: it may look at all of W.
  void guard(TrainState& state, const Growth& growth) const {
    if (!growth.finite || !(state.largest_weight + growth.memory <= kWeightLimit)) {
      state.largest_weight = state.weights.largest();
      if (!growth.finite || !(state.largest_weight <= kWeightDiverged) ||
          !(state.largest_weight + growth.memory <= kWeightLimit))
        diverged(state, state.step, growth.update);
    }
    state.largest_weight += growth.memory;
  }

  [[noreturn]] void diverged(const TrainState& state, std::uint64_t step, double update) const {
    throw DivergenceError(fmt::format(
        "{} diverged at step {} of epoch {}: the next update would leave the range of the weights (largest "
        "weight {:.2g}, update {:.2g}). Try --step {:.3g}",
        R::kInfo.name, step + 1, state.epoch + 1, state.weights.largest_weight(), update,
        options_.step / 100));
  }

  TrainOptions options_;
  ProblemInfo problem_;
  R rule_;
  std::unique_ptr<Draw> draw_;
  VisitOrder order_;
  std::size_t together_;  // rows of a step
  std::size_t ahead_;     // steps drawn at once
  std::vector<RowId> rows_;
  std::vector<ClassId> labels_;
  DrawBuffer buffer_;
  std::unique_ptr<BlockLoop<R>> block_loop_;  // null: steps do not go over whole blocks
  CommutingGroups groups_;
  StepArrays arrays_;
  StepView view_;  // of the step under way, into arrays_
  GramKernel gram_;
  std::vector<double> beta_;       // by class; empty without ridge, and where the draw learns
  std::vector<double> last_beta_;  // of the last step of an epoch where it has fewer rows; else empty
  double step_ = 0;                // eta N of the epoch under way
};

}  // namespace

std::uint64_t step_bytes(const Dataset& data, const TrainOptions& options) {
  const MethodInfo& info = find_method(options.method);
  const std::uint64_t classes = data.classes->size(), n = options.rows_per_step;
  const std::unique_ptr<Draw> draw = draw_for(data, options);
  const std::uint64_t drawn = draw ? draw->most_classes() : classes;
  const std::uint64_t columns = info.whole_set ? classes + kLanes : drawn + n, number = sizeof(double);
  std::uint64_t bytes =
      n * columns * 4 * number + n * n * number;  // scores, weights, coefficients, smoothed scores
  if (info.needs_gram && n > 1) bytes += ImplicitBatchSolver::bytes(n, columns, drawn);
  if (draw)
    bytes += steps_ahead(data, info.needs_gram, n, drawn) *
                 (drawn * (sizeof(ClassId) + number) + n * (sizeof(RowId) + sizeof(ClassId))) +
             draw->words() * sizeof(std::uint64_t) + draw->memory_bytes();
  if (options.ridge != 0) bytes += classes * (data.size() % n == 0 ? 3 : 4) * number;  // beta, scales, norms
  if (info.has_companion) bytes += classes * (Companion::journal_limit(data) * sizeof(RowId) + 5 * number);
  return bytes;
}

std::uint64_t steps_per_epoch(std::uint64_t rows, const TrainOptions& options) {
  return (rows + options.rows_per_step - 1) / options.rows_per_step;
}

std::unique_ptr<EpochRunner> make_epoch_runner(const Dataset& data, const TrainOptions& options) {
  options.check();
  TrainOptions of_rule = options;
  of_rule.rule = rule_options(options.method, options.rule);
  std::unique_ptr<EpochRunner> runner;
  for_each_method([&]<class R>() {
    if (&R::kInfo == &find_method(options.method)) runner = std::make_unique<Runner<R>>(data, of_rule);
  });
  return runner;
}

}  // namespace truemax
