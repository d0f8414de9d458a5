// Which thread applies the updates of which cache lines of W. A block belongs to one thread. One that so many
// rows touch that a thread would have more than its share, such as the head, is cut by features, and each
// part belongs to a thread. So every line has one owner, who takes its updates in the order of the rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "data/data_view.hpp"
#include "draw/draw.hpp"

namespace truemax {

class LineOwners {
 public:
  using PartId = std::uint8_t;
  static constexpr std::size_t kMostParts = std::numeric_limits<PartId>::max();  // of a block

  // `draw`: null if every row takes all classes.
  LineOwners(const DataView& data, const Draw* draw, std::size_t members, bool intercept, bool ridge);

  // What a row of a block that is cut costs, in units of what others cost: those are scored and then written
  // by the same core, but lines of a cut come from cores that have scored them, and several parts read a
  // row's coefficients. With ridge, the scales of others change with every row, those of a cut once a group.
  static constexpr double cost_of_cut(bool ridge) { return ridge ? 0.9 : 1.25; }

  std::size_t members() const { return members_; }
  // At most, for so many threads.
  static std::uint64_t bytes(std::size_t blocks, std::size_t features, std::size_t members) {
    const std::uint64_t cuts = std::min(blocks, members);
    return 2 * blocks * sizeof(std::uint32_t) +
           features * (cuts * sizeof(PartId) + 2 * sizeof(double));  // and two sums while they are cut
  }

  // Calls take(owner, x of its features, part) for the parts of a block in which x has features; with an
  // intercept, always for part 0, which has it. A block that is not cut is one part.
  template <class Take>
  void visit(std::uint32_t block, const RowView& x, Take&& take) const {
    if (!is_cut(block)) {
      take(owner_[block], x, std::uint32_t{0});
      return;
    }
    const Cut& cut = cuts_[cut_of(block)];
    const std::size_t count = x.index.size();
    if (count == 0) {
      if (intercept_) take(cut.owner[0], RowView{}, std::uint32_t{0});
      return;
    }
    // Where the part changes is not to be foreseen, so there is no branch on it.
    std::array<PartId, kMostParts> part;
    std::array<std::uint32_t, kMostParts> end;
    std::size_t parts = 0;
    PartId last = part[0] = cut.part[x.index[0]];
    for (std::size_t i = 1; i < count; ++i) {
      const PartId next = cut.part[x.index[i]];
      end[parts] = static_cast<std::uint32_t>(i);
      parts += next != last ? 1 : 0;
      part[parts] = last = next;
    }
    end[parts++] = static_cast<std::uint32_t>(count);
    if (intercept_ && part[0] != 0) take(cut.owner[0], RowView{}, std::uint32_t{0});
    for (std::size_t p = 0, from = 0; p < parts; from = end[p++])
      take(cut.owner[part[p]],
           RowView{x.index.subspan(from, end[p] - from), x.value.subspan(from, end[p] - from)},
           std::uint32_t{part[p]});
  }

  // The owner of a block that is not cut also scores it.
  bool is_cut(std::uint32_t block) const { return owner_[block] >= members_; }
  std::size_t cut_of(std::uint32_t block) const { return owner_[block] - members_; }
  // The blocks that are not cut, of one thread: how many, and the number of one of them.
  std::size_t blocks_of(std::size_t member) const { return blocks_of_[member]; }
  std::uint32_t own_number(std::uint32_t block) const { return own_number_[block]; }

  struct Cut {
    std::uint32_t block;
    std::vector<FeatureId> end;  // of each part; of the last one, no feature is as large
    std::vector<PartId> part;    // by feature
    std::vector<std::uint32_t> owner;
  };
  std::span<const Cut> cuts() const { return cuts_; }
  // How many more parts than blocks a row may have.
  std::size_t most_cuts() const;
  // At most: a block has one part, and one more for each fair share of a thread.
  static std::size_t most_cuts(std::size_t members) { return members; }

 private:
  std::size_t members_;
  bool intercept_;
  std::vector<std::uint32_t> owner_;  // by block; members_ + i: it is cut, cuts_[i]
  std::vector<Cut> cuts_;
  std::vector<std::uint32_t> blocks_of_, own_number_;
};

}  // namespace truemax
