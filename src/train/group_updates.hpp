// What the rows of one thread add to W, sorted by the threads that own the lines (train/line_owners.hpp) and
// for each of them in the order of the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/group_rows.hpp"
#include "train/lane.hpp"
#include "train/line_owners.hpp"

namespace truemax {

// Of one row to one block, or to some features of it.
struct GroupUpdate {
  RowView x;
  std::uint32_t block, place;  // the block, and where the row has it
  std::uint32_t row;
  bool first;  // has the intercept
};

class GroupUpdates {
 public:
  GroupUpdates(const LineOwners& owners, std::size_t members, std::size_t rows, std::size_t blocks)
      : owners_(owners), updates_(most(owners.most_cuts(), rows, blocks)), end_(members + 1) {}

  static std::size_t most(std::size_t cuts, std::size_t rows, std::size_t blocks) {
    return rows * (blocks + cuts);
  }

  void deal(const GroupRows& rows) {
    end_.assign(end_.size(), 0);
    each(rows, [&](std::size_t owner, const GroupUpdate& /*update*/) { ++end_[owner + 1]; });
    for (std::size_t m = 1; m < end_.size(); ++m) end_[m] += end_[m - 1];
    // end_[m] is where the next one of m goes, and at last its end.
    each(rows, [&](std::size_t owner, const GroupUpdate& update) { updates_[end_[owner]++] = update; });
  }
  std::span<const GroupUpdate> of(std::size_t owner) const {
    const std::size_t begin = owner == 0 ? 0 : end_[owner - 1];
    return {updates_.data() + begin, end_[owner] - begin};
  }

 private:
  template <class Take>
  void each(const GroupRows& rows, Take&& take) const {
    constexpr std::uint32_t kAhead = 8;
    for (std::uint32_t i = 0; i < rows.count; ++i) {
      if (i + kAhead < rows.count) prefetch_row(rows.row[i + kAhead].x);
      for (std::uint32_t p = rows.row[i].begin; p < rows.row[i].end; ++p)
        owners_.visit(rows.block[p], rows.row[i].x, [&](std::size_t owner, const RowView& x, bool first) {
          take(owner, GroupUpdate{x, rows.block[p], p, i, first});
        });
    }
  }

  const LineOwners& owners_;
  std::vector<GroupUpdate> updates_;
  std::vector<std::size_t> end_;  // by owner, and one more
};

}  // namespace truemax
