// What the rows of one thread add to W, sorted by the threads that own the lines (train/line_owners.hpp), for
// each of them those of whole blocks before those of parts, and these in the order of the rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "train/group_rows.hpp"
#include "train/lane.hpp"
#include "train/line_owners.hpp"

namespace truemax {

// Of one row to one block, or to a part of it. Other threads read it: it is small.
struct GroupUpdate {
  const FeatureId* index;
  const float* value;
  double factor;  // by which the row's ridge multiplies the weights of the block
  std::uint32_t count;
  std::uint32_t block, place;  // the block, and where the row has it
  std::uint16_t row, part;
};
static_assert(kMostGroup - 1 <= std::numeric_limits<std::uint16_t>::max());  // numbers of rows

class GroupUpdates {
 public:
  GroupUpdates(const LineOwners& owners, std::size_t rows, std::size_t blocks)
      : owners_(owners), updates_(most(owners.most_cuts(), rows, blocks)), end_(2 * owners.members() + 1) {
    made_.reserve(updates_.size());
  }

  static std::size_t most(std::size_t cuts, std::size_t rows, std::size_t blocks) {
    return rows * (blocks + cuts);
  }
  // Of one that could be made.
  static constexpr std::size_t kBytes = 2 * sizeof(GroupUpdate) + sizeof(std::uint64_t);

  void deal(const GroupRows& rows) {
    constexpr std::uint32_t kAhead = 8;
    made_.clear();
    end_.assign(end_.size(), 0);
    for (std::uint32_t i = 0; i < std::min<std::size_t>(kAhead, rows.count); ++i) prefetch_row(rows.row[i].x);
    for (std::uint32_t i = 0; i < rows.count; ++i) {
      if (i + kAhead < rows.count) prefetch_row(rows.row[i + kAhead].x);
      for (std::uint32_t p = rows.row[i].begin; p < rows.row[i].end; ++p)
        owners_.visit(rows.block[p], rows.row[i].x,
                      [&](std::uint32_t owner, const RowView& x, std::uint32_t part) {
                        const std::uint32_t list = 2 * owner + (owners_.is_cut(rows.block[p]) ? 1 : 0);
                        ++end_[list + 1];
                        made_.push_back({{x.index.data(), x.value.data(), rows.factor(p),
                                          static_cast<std::uint32_t>(x.index.size()), rows.block[p], p,
                                          static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(part)},
                                         list});
                      });
    }
    for (std::size_t m = 1; m < end_.size(); ++m) end_[m] += end_[m - 1];
    // end_[l] is where the next one of list l goes, and at last its end.
    for (const Made& made : made_) updates_[end_[made.list]++] = made.update;
  }
  std::span<const GroupUpdate> of_blocks(std::size_t owner) const { return list(2 * owner); }
  std::span<const GroupUpdate> of_parts(std::size_t owner) const { return list(2 * owner + 1); }
  // The updates of the owners before this one.
  std::size_t before(std::size_t owner) const { return begin(2 * owner); }
  // For a thread that will ask for the lists of an owner.
  void prefetch_ends(std::size_t owner) const { __builtin_prefetch(&end_[2 * owner]); }
  void prefetch(std::size_t owner) const {
    constexpr std::size_t kLine = 64;
    const char* const start = reinterpret_cast<const char*>(updates_.data() + before(owner));
    const char* const end = reinterpret_cast<const char*>(updates_.data() + end_[2 * owner + 1]);
    for (const char* at = start; at < end; at += kLine) __builtin_prefetch(at);
  }

 private:
  struct Made {
    GroupUpdate update;
    std::uint32_t list;
  };
  std::size_t begin(std::size_t list) const { return list == 0 ? 0 : end_[list - 1]; }
  std::span<const GroupUpdate> list(std::size_t number) const {
    return {updates_.data() + begin(number), end_[number] - begin(number)};
  }
  const LineOwners& owners_;
  std::vector<Made> made_;
  std::vector<GroupUpdate> updates_;
  std::vector<std::uint32_t> end_;  // two of each owner, and one more
};

}  // namespace truemax
