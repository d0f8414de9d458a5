#include "train/group_lane.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.hpp"
#include "core/text.hpp"
#include "rule/methods.hpp"
#include "train/norms.hpp"
#include "train/problem.hpp"
#include "train/step_hook.hpp"
#include "train/steps_beside.hpp"
#include "weights/blocks.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

std::size_t blocks_for(std::size_t classes) {
  return (classes + kLanes - 1) / kLanes;
}

// Blocks of a row that a rank may have.
std::size_t most_blocks(const DataView& data, const BlockShare* share, const Draw* draw) {
  const std::size_t own = share != nullptr ? share->blocks() : blocks_for(data.classes->size());
  return draw == nullptr ? own : std::min(own, draw->most_blocks());
}

}  // namespace

std::string GroupLane::why_not(const DataView& data, const TrainOptions& options) {
  const std::string method = options.method_used();
  if (!has_group_rule(method))
    return fmt::format("the method {} has no groups of rows: give --method prox, scent, umax or exact",
                       method);
  if (options.rows_per_step != 1)
    return "the rows of a group are steps of one row each: leave --rows-per-step out";
  if (options.newton > 0) return "Newton's method is for one process: leave --newton out";
  if (options.lock_free) return "the rows of a group do not see each other anyway: leave --lock-free out";
  bool safe = true;
  data.each_x([&](ExampleId /*i*/, const RowView& x) {
    const double square = squared_norm(x, false);
    safe &= square == 0 || pairs_are_safe(square);
  });
  if (!safe)
    return "the features of a row are too large or too small for sums in float32: give --normalize l2";
  if (method == "umax" && options.rule.double_sum_alpha != 0)
    return "umax has alpha 0 there: leave --double-sum-alpha out";
  if (options.draws.rivals > 0) return "rows of a group remember no blocks: leave --rivals out";
  if (method != "exact" && !options.open.shape && !find_draw(options.draw).whole_blocks)
    return fmt::format("classes are drawn in whole blocks: give --draw blocks or head-blocks instead of {}",
                       options.draw);
  return {};
}

void require_groups(const DataView& data, const TrainOptions& options) {
  const bool always = ranks().in_groups();
  if ((options.group == 0 && !always) || options.learnt()) return;
  const std::string why = GroupLane::why_not(data, options);
  if (why.empty()) return;
  throw UserError(fmt::format(
      "{}: {}{}", always ? counted(ranks().size(), "rank") : fmt::format("--group {}", options.group), why,
      always ? ", or use truemax on one machine" : ", or leave --group out"));
}

std::size_t GroupLane::rows_of_group(const DataView& data, const TrainOptions& options, const Draw* draw) {
  // More rows wait less for messages, fewer stay in caches: on one machine 128 to 512 are equally fast.
  constexpr std::size_t kMost = 512;
  if (options.group > 0) return std::min<std::size_t>(options.group, std::max<std::size_t>(data.size(), 1));
  const double beside = std::min(steps_beside(data, options.intercept, draw), static_cast<double>(kMost));
  return std::bit_floor(static_cast<std::size_t>(beside));
}

std::uint64_t GroupLane::bytes(const DataView& data, const TrainOptions& options, const Draw* draw) {
  const std::size_t own = blocks_for(BlockShare::most_classes(data.classes->size(), ranks().size()));
  const std::size_t blocks = draw == nullptr ? own : std::min(own, draw->most_blocks());
  return 2 * GroupRows::bytes(rows_of_group(data, options, draw), blocks, options.ridge > 0);
}

GroupLane::GroupLane(const LaneSetup& setup)
    : setup_(setup),
      most_(rows_of_group(setup.data, setup.options, setup.draw)),
      blocks_(most_blocks(setup.data, setup.share.get(), setup.draw)),
      tracks_norms_(tracks_norms(setup)),
      most_growth_(kMostBatchGrowth / static_cast<double>(setup.most_steps)),
      rule_(make_group_rule(setup, most_)),
      rows_{GroupRows(most_, blocks_, setup.ridge.on()), GroupRows(most_, blocks_, setup.ridge.on())},
      examples_(most_),
      labels_(most_),
      intercept_(blocks_ * kLanes),
      now_(blocks_ * kLanes) {
  require_groups(setup.data, setup.options);
  constexpr std::uint64_t kNear = std::uint64_t{2} << 20;
  const std::size_t classes = setup.share ? setup.share->classes() : setup.data.classes->size();
  far_ = Weights::bytes_needed(classes, setup.data.space->features) > kNear;
  for (std::size_t p = 0; p < kParts; ++p)
    parts_.emplace_back(std::max(kFewestRows, (most_ + kParts - 1) / kParts));
  if (setup.draw != nullptr) drawn_.shape(most_, setup.draw->most_blocks());
}

bool GroupLane::start_epoch(RunState& state, const std::atomic<bool>& /*stop*/, const StepPlan& /*plan*/) {
  if (tracks_norms_) Norms::recompute(state.norms, state.weights);
  return true;
}

void GroupLane::tighten(RunState& state) {
  if (state.largest_weight <= kPairWeightHigh / 2) return;
  state.largest_weight = setup_.ranks.max_of(state.weights.largest());
}

void GroupLane::attach(RunState& state) {
  if (!setup_.ridge.on()) state.weights.fold_all();
}

void GroupLane::take(const Batch& batch, RunState& state) {
  if (!float_batch_holds(state.largest_weight)) {
    state.largest_weight = setup_.ranks.max_of(state.weights.largest());
    if (!float_batch_holds(state.largest_weight))
      setup_.guard.diverged(state, state.step, state.largest_weight);
  }
  std::size_t now = 0;
  prepare(batch, 0, std::min(most_, batch.count), rows_[now]);
  for (std::size_t first = 0; first < batch.count; first += most_) {
    GroupRows& rows = rows_[now];
    const std::size_t next = first + most_;
    solve(batch, state, rows, [&] {
      if (next < batch.count) prepare(batch, next, std::min(most_, batch.count - next), rows_[1 - now]);
    });
    admit(state, rows);
    apply(state, rows);
    state.step += rows.count;
    now = 1 - now;
  }
  add_growth(state);
}

// Rows and classes, which do not depend on W and u.
void GroupLane::prepare(const Batch& batch, std::size_t first, std::size_t count, GroupRows& rows) {
  const DataView& data = setup_.data;
  rows.count = count, rows.lines = 0;
  batch.order.fill(batch.first + first, {examples_.data(), count});
  for (std::size_t i = 0; i < count; ++i) {
    labels_[i] = data.label(examples_[i]);
    data.prefetch(examples_[i]);
  }
  if (setup_.draw != nullptr)
    setup_.draw->fill_blocks(batch.random, batch.first + first, count, {labels_.data(), count}, {}, drawn_);
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    GroupRow& row = rows.row[i];
    row.example = examples_[i], row.label = labels_[i];
    row.x = data.x(row.example);
    row.begin = at;
    add_blocks(i, rows, row, at);
    row.end = at;
    rows.lines += row.x.index.size() * (row.end - row.begin);
  }
}

void GroupLane::add_blocks(std::size_t i, GroupRows& rows, GroupRow& row, std::uint32_t& at) {
  const BlockShare* const share = setup_.share.get();
  const auto own = static_cast<std::uint32_t>(row.label / kLanes);
  row.label_at = GroupRow::kElsewhere;
  row.least_weight = 1;
  const auto add = [&](std::uint32_t block, double weight) {
    row.least_weight = std::min(row.least_weight, weight);
    if (share != nullptr && !share->owns(block)) return;
    if (block == own) row.label_at = static_cast<std::uint32_t>(at * kLanes + row.label % kLanes);
    rows.block[at] = share == nullptr ? block : static_cast<std::uint32_t>(share->local(block));
    rows.weight[at++] = weight;
  };
  if (setup_.draw == nullptr) {
    for (std::uint32_t b = 0; b < blocks_; ++b)
      add(share == nullptr ? b : static_cast<std::uint32_t>(share->global(b)), 1);
    return;
  }
  const std::size_t from = i * drawn_.capacity;
  for (std::size_t b = 0; b < drawn_.count[i]; ++b) add(drawn_.blocks[from + b], drawn_.weights[from + b]);
}

// What depends on the state before the group.
void GroupLane::start(const Batch& batch, RunState& state, GroupRows& rows) const {
  constexpr std::size_t kAhead = 8;
  for (std::size_t i = 0; i < std::min(kAhead, rows.count); ++i)
    __builtin_prefetch(&state.row(rows.row[i].example));
  for (std::size_t i = 0; i < rows.count; ++i) {
    if (i + kAhead < rows.count) __builtin_prefetch(&state.row(rows.row[i + kAhead].example), 1);
    GroupRow& row = rows.row[i];
    const RowState& of_row = state.row(row.example);
    row.e = batch.step * setup_.data.weight(row.example);
    row.u = of_row.u, row.squared_norm = of_row.squared_norm;
    row.label_score = row.label_coefficient = 0;
    row.label_norm = row.squared_norm;
    if (setup_.ridge.on())
      set_ridge(batch, rows, row);
    else
      std::fill(rows.norm.begin() + row.begin, rows.norm.begin() + row.end, row.squared_norm);
  }
}

void GroupLane::set_ridge(const Batch& batch, GroupRows& rows, GroupRow& row) const {
  const double strength = setup_.ridge.strength(batch.step, setup_.data.weight(row.example));
  const std::vector<double>& beta = setup_.ridge.beta(1);  // equal within a block
  const bool free = setup_.ridge.leaves_intercept();
  const BlockShare* const share = setup_.share.get();
  for (std::uint32_t b = row.begin; b < row.end; ++b) {
    const std::size_t block = share == nullptr ? rows.block[b] : share->global(rows.block[b]);
    rows.ridge[b] = ridge_factor(strength, beta[block * kLanes]);
    rows.norm[b] = shrunk_norm(row.squared_norm, rows.ridge[b], free);
  }
  row.label_norm =
      shrunk_norm(row.squared_norm, ridge_factor(strength, beta[row.label / kLanes * kLanes]), free);
}

void GroupLane::score(RunState& state, GroupRows& rows, std::size_t first, std::size_t last) {
  constexpr std::size_t kRowsAhead = 8, kLinesAhead = 4;
  for (std::size_t i = first; i < last; ++i) {
    if (const std::size_t p = i + kRowsAhead; p < rows.count) prefetch_row(rows.row[p].x);
    if (const std::size_t p = i + kLinesAhead; far_ && p < rows.count)
      LinesAhead(state.weights, rows.row[p].x, rows.blocks_of(rows.row[p])).ask(1);
    score_row(state, rows, rows.row[i]);
  }
}

// The label and the padding of the last block get kNoScore.
void GroupLane::score_row(RunState& state, GroupRows& rows, GroupRow& row) {
  Weights& w = state.weights;
  const std::span<const std::uint32_t> blocks = rows.blocks_of(row);
  float* const z = rows.score + std::size_t{row.begin} * kLanes;
  if (tracks_norms_)
    for (const std::uint32_t b : blocks)
      for (std::size_t k = b * kLanes; k < std::min(w.classes(), (b + 1) * kLanes); ++k)
        w.settle(static_cast<ClassId>(k));
  score_blocks(w, row.x, blocks, z);
  if (w.has_intercept()) {
    copy_block_intercepts(w, blocks, intercept_.data());
    for (std::size_t k = 0; k < blocks.size() * kLanes; ++k) z[k] += intercept_[k];
  }
  if (setup_.ridge.on() && rule_->wants_shrunken()) {
    const bool free = setup_.ridge.leaves_intercept();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto inverse = static_cast<float>(1 / rows.ridge[row.begin + i]);
      for (std::size_t k = i * kLanes; k < (i + 1) * kLanes; ++k)
        z[k] = free ? shrunk_score(z[k], inverse, intercept_[k]) : shrunk_score(z[k], inverse);
    }
  }
  if (row.has_label()) {
    row.label_score = static_cast<double>(rows.score[row.label_at]);
    rows.score[row.label_at] = kNoScore;
  }
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (std::size_t k = (blocks[i] + 1) * kLanes; k > w.classes(); --k)
      z[i * kLanes + k - 1 - blocks[i] * kLanes] = kNoScore;
}

template <class Meanwhile>
void GroupLane::solve(const Batch& batch, RunState& state, GroupRows& rows, Meanwhile&& meanwhile) {
  Ranks& ranks = setup_.ranks;
  start(batch, state, rows);
  rule_->start(batch.decayed);
  std::array<bool, kParts> open{};
  const std::size_t each = std::max(kFewestRows, (rows.count + kParts - 1) / kParts);
  const auto go_on = [&](std::size_t p) {
    GroupPart& part = parts_[p];
    open[p] = rule_->next(rows, part);
    if (open[p]) part.ticket = ranks.start(part.how, part.numbers());
  };
  for (std::size_t p = 0; p < kParts; ++p) {
    GroupPart& part = parts_[p];
    part.first = std::min(rows.count, p * each), part.last = std::min(rows.count, part.first + each);
    part.phase = 0;
    if (part.first == part.last) continue;
    score(state, rows, part.first, part.last);
    go_on(p);
  }
  meanwhile();
  while (std::find(open.begin(), open.end(), true) != open.end())
    for (std::size_t p = 0; p < kParts; ++p) {
      if (!open[p]) continue;
      ranks.wait(parts_[p].ticket);
      go_on(p);
    }
  for (const std::uint32_t i : rule_->declined()) {
    GroupRow& row = rows.row[i];
    const double label_score = row.label_score;
    score_row(state, rows, row);
    row.label_score = label_score;
    rule_->solve_alone(rows, row, ranks);
  }
}

// All ranks take the same decision, before the group changes W.
void GroupLane::admit(RunState& state, const GroupRows& rows) {
  for (std::size_t i = 0; i < rows.count; ++i) {
    const GroupRow& row = rows.row[i];
    if (row.growth() <= most_growth_ && std::isfinite(row.u)) continue;
    add_growth(state);
    setup_.guard.diverged(state, state.step + i, row.growth());
  }
}

// Where the ridge has made a scale so small that the step would be a large number in memory, it is multiplied
// into memory first.
double GroupLane::make_room(Weights& w, const GroupRows& rows, const GroupRow& row) const {
  double least_scale = 1;
  for (const std::uint32_t b : rows.blocks_of(row)) {
    if (row.growth() > most_growth_ * w.least_scale(b)) w.fold_block(b);
    least_scale = std::min(least_scale, w.least_scale(b));
  }
  return row.growth() / least_scale;
}

// Without scales all ranks have the same growth.
void GroupLane::add_growth(RunState& state) {
  state.largest_weight += setup_.ridge.on() ? setup_.ranks.max_of(growth_) : growth_;
  growth_ = 0;
}

void GroupLane::apply(RunState& state, GroupRows& rows) {
  constexpr std::size_t kLinesAhead = 4;
  // So many lines are still at hand from their scores: prefetching them would cost more than it saves.
  constexpr std::size_t kNearLines = 3000;
  Weights& w = state.weights;
  for (std::size_t i = 0; i < rows.count; ++i) {
    if (const std::size_t p = i + kLinesAhead; rows.lines > kNearLines && far_ && p < rows.count)
      LinesAhead(w, rows.row[p].x, rows.blocks_of(rows.row[p])).ask(1);
    const GroupRow& row = rows.row[i];
    state.row(row.example).u = row.u;
    const std::span<const std::uint32_t> blocks = rows.blocks_of(row);
    if (blocks.empty() && setup_.ridge.on()) continue;
    float* const c = rows.coefficient + std::size_t{row.begin} * kLanes;
    if (row.has_label()) rows.coefficient[row.label_at] = static_cast<float>(row.label_coefficient);
    growth_ += setup_.ridge.on() ? make_room(w, rows, row) : row.growth();
    if (tracks_norms_) update_norms(state, rows, row);
    add_to_blocks(w, row.x, blocks, c);
    add_to_block_intercepts(w, blocks, c);
    if (!setup_.ridge.on()) continue;
    for (std::uint32_t b = row.begin; b < row.end; ++b) {
      w.scale_block(rows.block[b], 1 / rows.ridge[b]);
      if (setup_.ridge.includes_intercept()) w.scale_block_intercept(rows.block[b], 1 / rows.ridge[b]);
    }
  }
  if (tracks_norms_) project(state);
}

// |w_k|^2 after the update that follows; scores are those of now, after the earlier rows of the group.
void GroupLane::update_norms(RunState& state, const GroupRows& rows, const GroupRow& row) {
  NormState& norms = state.norms;
  const Weights& w = state.weights;
  const double square = row.squared_norm - (w.has_intercept() ? 1 : 0);
  const std::span<const std::uint32_t> blocks = rows.blocks_of(row);
  score_blocks(w, row.x, blocks, now_.data());
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (std::size_t k = blocks[i] * kLanes; k < std::min(w.classes(), (blocks[i] + 1) * kLanes); ++k) {
      const std::size_t lane = k % kLanes;
      const auto c = static_cast<double>(rows.coefficient[(row.begin + i) * kLanes + lane]);
      const double r = rows.ridge[row.begin + i], before = norms.of_class[k];
      const double change = c * (2 * static_cast<double>(now_[i * kLanes + lane]) + c * square);
      norms.of_class[k] = std::max(before + change / norms.common, 0.0) / (r * r);
      norms.total = std::max(norms.total + norms.of_class[k] - before, 0.0);
    }
}

void GroupLane::project(RunState& state) {
  NormState& norms = state.norms;
  if (!std::isfinite(setup_.ranks.sum_of(norms.common * norms.total)))
    Norms::recompute(norms, state.weights);  // products overflowed
  Norms::project(norms, state.weights, setup_.problem.weight_bound(),
                 setup_.ranks.sum_of(norms.common * norms.total));
}

}  // namespace truemax
