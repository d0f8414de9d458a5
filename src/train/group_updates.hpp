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

// Of one row to one block, or to a part of it. Other threads read it: it is small.
struct GroupUpdate {
  const FeatureId* index;
  const float* value;
  std::uint32_t count;
  std::uint32_t block, place;  // the block, and where the row has it
  std::uint32_t row, part;

  RowView x() const { return {{index, count}, {value, count}}; }
};

class GroupUpdates {
 public:
  GroupUpdates(const LineOwners& owners, std::size_t rows, std::size_t blocks)
      : owners_(owners), updates_(most(owners.most_cuts(), rows, blocks)), end_(owners.members() + 1) {
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
    for (std::uint32_t i = 0; i < rows.count; ++i) {
      if (i + kAhead < rows.count) prefetch_row(rows.row[i + kAhead].x);
      for (std::uint32_t p = rows.row[i].begin; p < rows.row[i].end; ++p)
        owners_.visit(
            rows.block[p], rows.row[i].x, [&](std::uint32_t owner, const RowView& x, std::uint32_t part) {
              ++end_[owner + 1];
              made_.push_back({{x.index.data(), x.value.data(), static_cast<std::uint32_t>(x.index.size()),
                                rows.block[p], p, i, part},
                               owner});
            });
    }
    for (std::size_t m = 1; m < end_.size(); ++m) end_[m] += end_[m - 1];
    // end_[m] is where the next one of m goes, and at last its end.
    for (const Made& made : made_) updates_[end_[made.owner]++] = made.update;
  }
  std::span<const GroupUpdate> of(std::size_t owner) const {
    const std::size_t begin = owner == 0 ? 0 : end_[owner - 1];
    return {updates_.data() + begin, end_[owner] - begin};
  }

 private:
  struct Made {
    GroupUpdate update;
    std::uint32_t owner;
  };
  const LineOwners& owners_;
  std::vector<Made> made_;
  std::vector<GroupUpdate> updates_;
  std::vector<std::uint32_t> end_;  // by owner, and one more
};

}  // namespace truemax
