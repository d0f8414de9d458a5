// Which thread applies the updates of which cache lines of W. A block belongs to one thread. One that so many
// rows touch that a thread would have more than its share, such as the head, is cut by features, and each
// part belongs to a thread. So every line has one owner, who takes its updates in the order of the rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "data/data_view.hpp"
#include "draw/draw.hpp"

namespace truemax {

class LineOwners {
 public:
  // `draw`: null if every row takes all classes.
  LineOwners(const DataView& data, const Draw* draw, std::size_t members, bool intercept, bool ridge);

  // What a row of a block that is cut costs, in units of what others cost: those are scored and then written
  // by the same core, but lines of a cut come from cores that have scored them, and several parts read a
  // row's coefficients. With ridge, the scales of others change with every row, those of a cut once a group.
  static constexpr double cost_of_cut(bool ridge) { return ridge ? 0.9 : 1.25; }

  std::size_t members() const { return members_; }
  static std::uint64_t bytes(std::size_t blocks) { return 2 * blocks * sizeof(std::uint32_t); }

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
    if (intercept_ && (count == 0 || x.index[0] >= cut.end[0]))
      take(cut.owner[0], RowView{}, std::uint32_t{0});
    for (std::size_t from = 0, end = 0; from < count; from = end) {
      const auto part = static_cast<std::size_t>(
          std::upper_bound(cut.end.begin(), cut.end.end() - 1, x.index[from]) - cut.end.begin());
      for (end = from + 1; end < count && x.index[end] < cut.end[part]; ++end) {
      }
      take(cut.owner[part], RowView{x.index.subspan(from, end - from), x.value.subspan(from, end - from)},
           static_cast<std::uint32_t>(part));
    }
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
