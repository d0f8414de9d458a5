#include "train/group_cuts.hpp"

#include <algorithm>

#include "weights/blocks.hpp"

namespace truemax {

GroupCuts::GroupCuts(const LineOwners& owners, const Ridge& ridge, std::size_t rows, double most_growth)
    : owners_(owners),
      ridge_(ridge),
      rows_(rows),
      most_growth_(most_growth),
      steps_(owners.cuts().size() * rows),
      of_owner_(owners.members()) {
  for (std::size_t c = 0; c < owners.cuts().size(); ++c) {
    const LineOwners::Cut& cut = owners.cuts()[c];
    first_.push_back(parts_.size());
    for (std::size_t p = 0; p < cut.end.size(); ++p) {
      Owner& owner = of_owner_[cut.owner[p]];
      owner.parts.push_back(parts_.size());
      owner.scales.reserve(owner.parts.size() * rows);
      const std::size_t from = p == 0 ? 0 : cut.end[p - 1];
      parts_.push_back({BlockPart(cut.block, from, cut.end[p]), c, p, std::vector<double>(rows)});
    }
  }
}

void GroupCuts::start(const Weights& w) {
  for (Part& part : parts_) part.of.start(w);
}

void GroupCuts::note(const GroupRows& rows, const GroupRow& row, std::size_t number) {
  for (std::size_t c = 0; c < owners_.cuts().size(); ++c) steps_[c * rows_ + number] = {};
  for (std::uint32_t p = row.begin; p < row.end; ++p)
    if (owners_.is_cut(rows.block[p]))
      steps_[owners_.cut_of(rows.block[p]) * rows_ + number] = {rows.factor(p), true};
}

// The usual group needs only the scale before each row: all lanes have the same one, it is not multiplied
// into memory, and the ridge leaves the intercept alone. False: this one is not like that, and nothing has
// changed.
bool GroupCuts::follow_all(const Weights& w, Part& part, std::size_t rows, double growth) {
  if (!part.of.alike() || ridge_.includes_intercept()) return false;
  const double common = w.common_scale();
  double scale = part.of.own_scale();
  for (std::size_t i = 0; i < rows; ++i) {
    part.scale[i] = common * scale;
    scale *= step(part, i).factor;
  }
  // It only falls.
  if (growth > most_growth_ * (common * scale) || common * scale < Weights::kLeastScale) return false;
  part.of.set_own_scale(scale);
  if (part.number > 0) return true;
  for (std::size_t i = 0; i < rows; ++i)
    if (step(part, i).there) part.growth += growth / part.scale[i];
  return true;
}

double GroupCuts::apply(Weights& w, std::size_t owner, std::size_t rows, double growth,
                        std::span<const BlockTask> updates, std::span<const UpdatePlace> places) {
  Owner& own = of_owner_[owner];
  bool usual = true;
  for (const std::size_t p : own.parts) {
    parts_[p].growth = 0;
    parts_[p].followed = follow_all(w, parts_[p], rows, growth);
    usual &= parts_[p].followed;
  }
  if (usual) {
    own.scales.clear();
    for (std::size_t i = 0; i < updates.size(); ++i)
      own.scales.push_back(part_of(updates[i], places[i]).scale[places[i].number]);
    add_tasks_to_memory(w, updates, own.scales, true);
    for (std::size_t i = 0; i < updates.size(); ++i)
      if (places[i].part == 0) add_to_block_intercepts(w, {&updates[i].block, 1}, updates[i].numbers);
  } else {
    apply_one_by_one(w, owner, rows, growth, updates, places);
  }
  double largest = 0;
  for (const std::size_t p : own.parts) {
    if (parts_[p].number == 0) parts_[p].of.finish(w);
    largest = std::max(largest, parts_[p].growth);
  }
  return largest;
}

void GroupCuts::make_room(Weights& w, Part& part, std::size_t row, double growth) {
  if (!step(part, row).there) return;
  if (growth > most_growth_ * part.of.least_scale(w)) part.of.fold(w);
  if (part.number == 0) part.growth += growth / part.of.least_scale(w);
}

void GroupCuts::shrink(Weights& w, Part& part, double factor) const {
  part.of.scale(w, factor);
  if (part.number == 0 && ridge_.includes_intercept()) w.scale_block_intercept(part.of.block(), factor);
}

// Through the rows before this one.
void GroupCuts::follow(Weights& w, Part& part, std::size_t row, double growth) {
  for (; part.next < row; ++part.next) {
    make_room(w, part, part.next, growth);
    shrink(w, part, step(part, part.next).factor);
  }
}

void GroupCuts::apply_one_by_one(Weights& w, std::size_t owner, std::size_t rows, double growth,
                                 std::span<const BlockTask> updates, std::span<const UpdatePlace> places) {
  for (std::size_t i = 0; i < updates.size(); ++i) {
    Part& part = part_of(updates[i], places[i]);
    const std::size_t row = places[i].number;
    // With an intercept, part 0 has every row that has the block, so there is nothing to follow before.
    if (part.number == 0) add_to_block_intercepts(w, {&updates[i].block, 1}, updates[i].numbers);
    if (part.followed) {
      add_tasks_to_memory(w, {&updates[i], 1}, {&part.scale[row], 1}, true);
      continue;
    }
    follow(w, part, row, growth);
    make_room(w, part, row, growth);
    part.of.add(w, updates[i].x(), updates[i].numbers);
    shrink(w, part, step(part, row).factor);
    part.next = row + 1;
  }
  for (const std::size_t p : of_owner_[owner].parts) {
    Part& part = parts_[p];
    if (part.followed) continue;
    follow(w, part, rows, growth);
    part.of.make_adds(w);
    part.next = 0;
  }
}

}  // namespace truemax
