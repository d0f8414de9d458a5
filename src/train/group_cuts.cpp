#include "train/group_cuts.hpp"

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
      of_owner_[cut.owner[p]].push_back(parts_.size());
      const std::size_t from = p == 0 ? 0 : cut.end[p - 1];
      parts_.push_back({BlockPart(cut.block, from, cut.end[p]), c, p});
    }
  }
}

void GroupCuts::start(const Weights& w) {
  for (Part& part : parts_) part.of.start(w);
}

void GroupCuts::note(GroupRows& rows, const GroupRow& row, std::size_t number) {
  for (std::size_t c = 0; c < owners_.cuts().size(); ++c) steps_[c * rows_ + number] = {};
  for (std::uint32_t p = row.begin; p < row.end; ++p)
    if (owners_.is_cut(rows.block[p]))
      steps_[owners_.cut_of(rows.block[p]) * rows_ + number] = {row.growth(), 1 / rows.ridge[p],
                                                                &rows.growth[p]};
}

void GroupCuts::make_room(Weights& w, Part& part, const Step& step) const {
  if (step.growth > most_growth_ * part.of.least_scale(w)) part.of.fold(w);
  if (part.number == 0 && step.in_memory != nullptr) *step.in_memory = step.growth / part.of.least_scale(w);
}

void GroupCuts::shrink(Weights& w, Part& part, double factor) const {
  part.of.scale(w, factor);
  if (part.number == 0 && ridge_.includes_intercept()) w.scale_block_intercept(part.of.block(), factor);
}

// Through the rows before this one.
void GroupCuts::follow(Weights& w, Part& part, std::size_t row) const {
  for (; part.next < row; ++part.next) {
    const Step& step = steps_[part.cut * rows_ + part.next];
    if (step.in_memory == nullptr) continue;
    make_room(w, part, step);
    shrink(w, part, step.factor);
  }
}

void GroupCuts::apply(Weights& w, const GroupUpdate& update, const GroupRows& rows, std::size_t number) {
  Part& part = parts_[first_[owners_.cut_of(update.block)] + update.part];
  follow(w, part, number);
  const Step& step = steps_[part.cut * rows_ + number];
  const float* const c = rows.coefficient + std::size_t{update.place} * kLanes;
  make_room(w, part, step);
  part.of.add(w, update.x(), c);
  if (part.number == 0) add_to_block_intercepts(w, {&update.block, 1}, c);
  shrink(w, part, step.factor);
  part.next = number + 1;
}

void GroupCuts::end_group(Weights& w, std::size_t owner, std::size_t rows) {
  for (const std::size_t p : of_owner_[owner]) {
    Part& part = parts_[p];
    follow(w, part, rows);
    part.next = 0;
    if (part.number == 0) part.of.finish(w);
  }
}

}  // namespace truemax
