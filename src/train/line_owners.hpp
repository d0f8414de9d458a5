// Which thread applies the updates of which cache lines of W. A block belongs to one thread. One that so many
// rows touch that a thread would have more than its share, such as the head, may be cut by features, and
// each part belongs to a thread. So every line has one owner, who takes its updates in the order of the rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/csr.hpp"
#include "data/data_view.hpp"
#include "draw/draw.hpp"

namespace truemax {

class LineOwners {
 public:
  // `draw`: null if every row takes all classes. `cuts`: whether blocks may be cut.
  LineOwners(const DataView& data, const Draw* draw, std::size_t members, bool cuts, bool intercept);

  // Calls take(owner, x of its features, whether it has the intercept) for the parts of a block in which x
  // has features; with an intercept, always for the first, which has it.
  template <class Take>
  void visit(std::uint32_t block, const RowView& x, Take&& take) const {
    if (owner_[block] < members_) {
      take(owner_[block], x, true);
      return;
    }
    const Cut& cut = cuts_[owner_[block] - members_];
    std::size_t from = 0;
    for (std::size_t part = 0; part < cut.owner.size(); ++part) {
      const auto end =
          static_cast<std::size_t>(std::lower_bound(x.index.begin() + static_cast<std::ptrdiff_t>(from),
                                                    x.index.end(), cut.end[part]) -
                                   x.index.begin());
      if ((part == 0 && intercept_) || end > from)
        take(cut.owner[part], RowView{x.index.subspan(from, end - from), x.value.subspan(from, end - from)},
             part == 0);
      from = end;
    }
  }

  // Whether the owner of a block has no more than its share of the rows there, so that it can score them,
  // too.
  bool scores(std::uint32_t block) const { return !heavy_[block]; }

  // How many more parts than blocks a row may have.
  std::size_t most_cuts() const;

 private:
  struct Cut {
    std::vector<FeatureId> end;  // of each part
    std::vector<std::uint32_t> owner;
  };
  std::size_t members_;
  bool intercept_;
  std::vector<std::uint32_t> owner_;  // by block; members_ + i: it is cut, cuts_[i]
  std::vector<bool> heavy_;           // by block
  std::vector<Cut> cuts_;
};

}  // namespace truemax
