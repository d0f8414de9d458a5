#include "train/group_member.hpp"

#include <algorithm>

#include "train/step_hook.hpp"
#include "weights/blocks.hpp"

namespace truemax {

std::size_t GroupMember::most_blocks(std::size_t classes, const BlockShare* share, const Draw* draw) {
  const std::size_t own = share != nullptr ? share->blocks() : (classes + kLanes - 1) / kLanes;
  return draw == nullptr ? own : std::min(own, draw->most_blocks());
}

GroupMember::GroupMember(const LaneSetup& setup, Ranks& ranks, std::size_t most_rows, std::size_t blocks)
    : buffers{GroupRows(most_rows, blocks, setup.ridge.on()), GroupRows(most_rows, blocks, setup.ridge.on())},
      setup_(setup),
      ranks_(ranks),
      blocks_(blocks),
      far_(setup.weights_are_far()),
      tracks_norms_(tracks_norms(setup)),
      rule_(make_group_rule(setup, most_rows)),
      examples_(most_rows),
      labels_(most_rows),
      scores_(setup, *rule_) {
  for (std::size_t p = 0; p < kParts; ++p)
    parts_.emplace_back(std::max(kFewestRows, (most_rows + kParts - 1) / kParts));
  if (setup.draw == nullptr) return;
  drawn_.shape(most_rows, setup.draw->most_blocks());
  drawn_.words.reserve(most_rows * setup.draw->words());
}

void GroupMember::prepare(const Batch& batch, std::size_t first, std::size_t count, GroupRows& rows) {
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
    if (setup_.ridge.on()) set_ridge(batch, rows, row);
    rows.lines += row.x.index.size() * (row.end - row.begin);
  }
}

void GroupMember::add_blocks(std::size_t i, GroupRows& rows, GroupRow& row, std::uint32_t& at) {
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
void GroupMember::read_state(const Batch& batch, RunState& state, GroupRows& rows) const {
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
    if (!setup_.ridge.on()) {
      std::fill(rows.norm.begin() + row.begin, rows.norm.begin() + row.end, row.squared_norm);
      continue;
    }
    const bool free = setup_.ridge.leaves_intercept();
    for (std::uint32_t b = row.begin; b < row.end; ++b)
      rows.norm[b] = shrunk_norm(row.squared_norm, rows.ridge[b], free);
    row.label_norm = shrunk_norm(row.squared_norm, row.label_ridge, free);
  }
}

void GroupMember::set_ridge(const Batch& batch, GroupRows& rows, GroupRow& row) const {
  const double strength = setup_.ridge.strength(batch.step, setup_.data.weight(row.example));
  const std::vector<double>& beta = setup_.ridge.beta(1);  // equal within a block
  const BlockShare* const share = setup_.share.get();
  for (std::uint32_t b = row.begin; b < row.end; ++b) {
    const std::size_t block = share == nullptr ? rows.block[b] : share->global(rows.block[b]);
    rows.ridge[b] = ridge_factor(strength, beta[block * kLanes]);
  }
  row.label_ridge = ridge_factor(strength, beta[row.label / kLanes * kLanes]);
}

// Calls take(first, count) for the blocks of a row that this thread scores, those side by side together.
template <class Take>
void GroupMember::each_own(const GroupRows& rows, const GroupRow& row, Take&& take) const {
  if (owners_ == nullptr) {
    take(row.begin, row.end - row.begin);
    return;
  }
  for (std::uint32_t b = row.begin, end = b; b < row.end; b = end) {
    while (end < row.end && owners_->is_cut(rows.block[end])) ++end;
    if (end > b) take(b, end - b);
    while (end < row.end && !owners_->is_cut(rows.block[end])) ++end;
  }
}

void GroupMember::score(RunState& state, GroupRows& rows, std::size_t first, std::size_t last) {
  constexpr std::size_t kRowsAhead = 8, kLinesAhead = 4;
  for (std::size_t i = first; i < last; ++i) {
    if (const std::size_t p = i + kRowsAhead; p < rows.count) prefetch_row(rows.row[p].x);
    if (const std::size_t p = i + kLinesAhead; owners_ != nullptr && p < rows.count)  // others wrote them
      for (std::size_t b = rows.row[p].begin; b < rows.row[p].end; ++b)
        __builtin_prefetch(rows.score + b * kLanes, 1);
    if (const std::size_t p = i + kLinesAhead; far_ && p < rows.count)
      each_own(rows, rows.row[p], [&](std::uint32_t first_block, std::uint32_t count) {
        LinesAhead(state.weights, rows.row[p].x, {rows.block.data() + first_block, count}).ask(1);
      });
    score_row(state, rows, rows.row[i], false);
  }
}

// The label and the padding of the last block get kNoScore. `all`: also of the blocks that owners score.
void GroupMember::score_row(RunState& state, GroupRows& rows, GroupRow& row, bool all) {
  Weights& w = state.weights;
  const std::span<const std::uint32_t> blocks = rows.blocks_of(row);
  float* const z = rows.score + std::size_t{row.begin} * kLanes;
  if (tracks_norms_)
    for (const std::uint32_t b : blocks)
      for (std::size_t k = b * kLanes; k < std::min(w.classes(), (b + 1) * kLanes); ++k)
        w.settle(static_cast<ClassId>(k));
  const auto score = [&](std::uint32_t first, std::uint32_t count) {
    float* const of_blocks = rows.score + std::size_t{first} * kLanes;
    score_each_block(w, row.x, {rows.block.data() + first, count}, of_blocks);
    for (std::uint32_t i = 0; i < count; ++i)
      scores_.finish(w, rows.block[first + i], rows.factor(first + i), of_blocks + i * kLanes);
  };
  if (all)
    score(row.begin, row.end - row.begin);
  else
    each_own(rows, row, score);
  if (row.has_label()) {
    row.label_score = static_cast<double>(rows.score[row.label_at]);
    rows.score[row.label_at] = kNoScore;
  }
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (std::size_t k = (blocks[i] + 1) * kLanes; k > w.classes(); --k)
      z[i * kLanes + k - 1 - blocks[i] * kLanes] = kNoScore;
}

void GroupMember::go_on(std::size_t p, GroupRows& rows) {
  GroupPart& part = parts_[p];
  open_[p] = rule_->next(rows, part);
  if (open_[p]) part.ticket = ranks_.start(part.how, part.numbers());
}

void GroupMember::begin(const Batch& batch, RunState& state, GroupRows& rows) {
  read_state(batch, state, rows);
  rule_->start(batch.decayed);
  const std::size_t each = std::max(kFewestRows, (rows.count + kParts - 1) / kParts);
  for (std::size_t p = 0; p < kParts; ++p) {
    GroupPart& part = parts_[p];
    part.first = std::min(rows.count, p * each), part.last = std::min(rows.count, part.first + each);
    part.phase = 0;
    if (part.first == part.last) continue;
    score(state, rows, part.first, part.last);
    go_on(p, rows);
  }
}

void GroupMember::finish(RunState& state, GroupRows& rows) {
  while (std::find(open_.begin(), open_.end(), true) != open_.end())
    for (std::size_t p = 0; p < kParts; ++p) {
      if (!open_[p]) continue;
      ranks_.wait(parts_[p].ticket);
      go_on(p, rows);
    }
  for (const std::uint32_t i : rule_->declined()) {
    GroupRow& row = rows.row[i];
    const double label_score = row.label_score;
    score_row(state, rows, row, true);
    row.label_score = label_score;
    rule_->solve_alone(rows, row, ranks_);
  }
}

}  // namespace truemax
