// Blocks that several threads share (LineOwners::Cut), with ridge: every row of a group that has the block
// multiplies its scales, so each part follows the scales through all rows of the group, those that have no
// feature in it, too.
#pragma once

#include <cstddef>
#include <vector>

#include "train/group_rows.hpp"
#include "train/group_updates.hpp"
#include "train/line_owners.hpp"
#include "train/ridge.hpp"
#include "weights/block_part.hpp"

namespace truemax {

class GroupCuts {
 public:
  // For groups of up to so many rows; `most_growth`: of a number in memory, by one row.
  GroupCuts(const LineOwners& owners, const Ridge& ridge, std::size_t rows, double most_growth);

  // Before a batch.
  void start(const Weights& w);
  // A row of the group is solved. `number`: in the group.
  void note(GroupRows& rows, const GroupRow& row, std::size_t number);
  // An update of a part, in the order of the rows.
  void apply(Weights& w, const GroupUpdate& update, const GroupRows& rows, std::size_t number);
  // All updates of an owner are applied.
  void end_group(Weights& w, std::size_t owner, std::size_t rows);

 private:
  // What a row does to the scales of a block.
  struct Step {
    double growth = 0, factor = 1;
    // Where the growth of the numbers in memory goes; null: the row does not have the block.
    double* in_memory = nullptr;
  };
  // In cache lines of its own: different threads follow the parts.
  struct alignas(64) Part {
    BlockPart of;
    std::size_t cut, number;  // of the block, and among its parts
    std::size_t next = 0;     // row of the group
  };

  void make_room(Weights& w, Part& part, const Step& step) const;
  void shrink(Weights& w, Part& part, double factor) const;
  void follow(Weights& w, Part& part, std::size_t row) const;

  const LineOwners& owners_;
  const Ridge& ridge_;
  std::size_t rows_;
  double most_growth_;
  std::vector<Step> steps_;         // [cuts][rows]
  std::vector<std::size_t> first_;  // by cut: its parts
  std::vector<Part> parts_;
  std::vector<std::vector<std::size_t>> of_owner_;  // its parts
};

}  // namespace truemax
