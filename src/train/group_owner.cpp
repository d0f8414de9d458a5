#include "train/group_owner.hpp"

#include <algorithm>

#include "weights/blocks.hpp"

namespace truemax {

// The lists come from other cores.
void GroupOwner::collect(std::span<const GroupSource> sources, OwnedUpdates& lists) {
  for (const GroupSource& source : sources) source.updates->prefetch_ends(number_);
  for (const GroupSource& source : sources) source.updates->prefetch(number_);
  // Before its own updates are those of the owners before it.
  std::size_t begin = 0;
  for (const GroupSource& source : sources) begin += source.updates->before(number_);
  std::size_t at = begin;
  const auto take = [&](const GroupSource& source, std::span<const GroupUpdate> updates) {
    for (const GroupUpdate& update : updates) {
      lists.tasks[at] = {update.index, update.value, update.count, update.block,
                         source.rows->score + std::size_t{update.place} * kLanes};
      lists.places[at++] = {source.rows, update.factor, update.place,
                            static_cast<std::uint32_t>(source.first) + update.row, update.part};
    }
  };
  for (const GroupSource& source : sources) take(source, source.updates->of_blocks(number_));
  const std::size_t blocks = at - begin;
  for (const GroupSource& source : sources) take(source, source.updates->of_parts(number_));
  const std::span tasks(lists.tasks.data() + begin, at - begin);
  const std::span places(lists.places.data() + begin, at - begin);
  blocks_ = tasks.first(blocks), parts_ = tasks.subspan(blocks);
  block_places_ = places.first(blocks), part_places_ = places.subspan(blocks);
}

void GroupOwner::score(const Weights& w, std::span<const GroupSource> sources, std::size_t buffer) {
  collect(sources, lists_[buffer]);
  score_tasks(w, blocks_, far_);
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    scores_.finish(w, blocks_[i].block, block_places_[i].factor, blocks_[i].numbers);
}

double GroupOwner::apply(Weights& w, std::size_t rows, double growth) {
  const auto take_coefficients = [](std::span<BlockTask> tasks, std::span<const UpdatePlace> places) {
    for (std::size_t i = 0; i < tasks.size(); ++i)
      tasks[i].numbers = places[i].rows->coefficient + std::size_t{places[i].place} * kLanes;
  };
  take_coefficients(blocks_, block_places_);
  take_coefficients(parts_, part_places_);
  if (cuts_ != nullptr) {
    const double of_parts = cuts_->apply(w, number_, rows, growth, parts_, part_places_);
    apply_one_by_one(w, growth);
    return std::max(of_parts, growth_.largest());
  }
  add_tasks_to_memory(w, parts_, true);
  add_tasks_to_memory(w, blocks_, false);  // their lines are at hand from the scores
  if (!w.has_intercept()) return 0;
  for (const BlockTask& task : blocks_) add_to_block_intercepts(w, {&task.block, 1}, task.numbers);
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (part_places_[i].part == 0) add_to_block_intercepts(w, {&parts_[i].block, 1}, parts_[i].numbers);
  return 0;
}

// With ridge: the updates of blocks that are not cut. Their scales and intercepts are lines that no other
// thread has.
void GroupOwner::apply_one_by_one(Weights& w, double growth) {
  constexpr std::size_t kAhead = 8;
  const auto ask_for = [&](std::size_t i) {
    if (i >= blocks_.size()) return;
    __builtin_prefetch(blocks_[i].numbers);
    w.prefetch_scales(blocks_[i].block);
  };
  growth_.start_group();
  for (std::size_t i = 0; i < kAhead; ++i) ask_for(i);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    ask_for(i + kAhead);
    apply_update(w, blocks_[i], block_places_[i].factor, growth);
  }
  later_.make(w);
}

// Where the ridge has made a scale so small that a step of the group could be a large number in memory, it is
// multiplied into memory first.
void GroupOwner::apply_update(Weights& w, const BlockTask& update, double factor, double growth) {
  const std::uint32_t b = update.block;
  double least = w.least_scale(b);
  const bool no_room = growth > most_growth_ * least;
  // The scale may be multiplied into memory now, or after the update.
  const bool may_fold = no_room || factor * least < 2 * Weights::kLeastScale;
  if (may_fold) later_.make(w);
  if (no_room) {
    w.fold_block(b);
    least = w.least_scale(b);
  }
  growth_.add(owners_.own_number(b), growth / least);
  divide_by_scales(w, b, update.numbers, later_.add(w, update.x(), b));
  if (may_fold) later_.make(w);
  add_to_block_intercepts(w, {&b, 1}, update.numbers);
  setup_.ridge.shrink(w, b, factor, least);
}

}  // namespace truemax
