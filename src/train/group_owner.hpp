// The lines of W that one of several threads owns in a group (train/line_owners.hpp): it scores them for the
// rows that need them, but those of blocks that are cut, and applies the updates of all rows, in their order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/block_growth.hpp"
#include "train/group_cuts.hpp"
#include "train/group_rows.hpp"
#include "train/group_scores.hpp"
#include "train/group_updates.hpp"
#include "train/lane.hpp"
#include "train/line_owners.hpp"
#include "weights/later_adds.hpp"

namespace truemax {

// What the rows of one thread add to W.
struct GroupSource {
  const GroupUpdates* updates;
  GroupRows* rows;
  std::size_t first;  // row of the group
};

// Memory for the lists of all owners: every update of a group is in one of them. While some still apply those
// of one group, others collect those of the next, so there are two.
struct OwnedUpdates {
  explicit OwnedUpdates(std::size_t most) : tasks(most), places(most) {}
  // Of each update.
  static constexpr std::size_t kBytes = sizeof(BlockTask) + sizeof(UpdatePlace);

  std::vector<BlockTask> tasks;
  std::vector<UpdatePlace> places;
};

class GroupOwner {
 public:
  // `cuts`: null without ridge. `most_growth`: of a number in memory, by one row.
  GroupOwner(const LaneSetup& setup, const LineOwners& owners, const GroupScores& scores, GroupCuts* cuts,
             std::size_t number, double most_growth, std::array<OwnedUpdates, 2>& lists)
      : setup_(setup),
        owners_(owners),
        scores_(scores),
        cuts_(cuts),
        number_(number),
        most_growth_(most_growth),
        lists_(lists),
        far_(setup.weights_are_far()),
        growth_(cuts != nullptr ? owners.blocks_of(number) : 0) {}

  // Reads the updates of the next group, whose rows need not be solved yet, and scores its own lines.
  // `buffer`: the number of the lists, another one than that of the group before.
  void score(const Weights& w, std::span<const GroupSource> sources, std::size_t buffer);
  // Applies what it has read, once the rows are solved. `rows`: of the group; `growth`: of a weight, by any
  // of them. With ridge, returns by how much numbers in memory may have grown, else 0.
  double apply(Weights& w, std::size_t rows, double growth);

 private:
  void collect(std::span<const GroupSource> sources, OwnedUpdates& lists);
  void apply_one_by_one(Weights& w, double growth);
  void apply_update(Weights& w, const BlockTask& update, double factor, double growth);

  const LaneSetup& setup_;
  const LineOwners& owners_;
  GroupScores scores_;
  GroupCuts* cuts_;
  std::size_t number_;
  double most_growth_;
  std::array<OwnedUpdates, 2>& lists_;
  bool far_;  // W does not fit in the cache
  // Of blocks that are not cut, and of those that are.
  std::span<BlockTask> blocks_, parts_;
  std::span<UpdatePlace> block_places_, part_places_;
  LaterAdds later_;
  BlockGrowth growth_;  // with ridge, of blocks that are not cut
};

}  // namespace truemax
