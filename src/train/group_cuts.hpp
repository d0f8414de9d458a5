// Blocks that several threads share (LineOwners::Cut), with ridge: every row of a group that has the block
// multiplies its scales, so each part follows the scales through all rows of the group, those that have no
// feature in it, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/group_rows.hpp"
#include "train/line_owners.hpp"
#include "train/ridge.hpp"
#include "weights/block_part.hpp"

namespace truemax {

// Where an update of W comes from.
struct UpdatePlace {
  GroupRows* rows = nullptr;
  double factor = 1;         // of its ridge
  std::uint32_t place = 0;   // where the rows have the block
  std::uint32_t number = 0;  // of the row in the group
  std::uint32_t part = 0;    // of the block
};

class GroupCuts {
 public:
  // For groups of up to so many rows; `most_growth`: of a number in memory, by one row.
  GroupCuts(const LineOwners& owners, const Ridge& ridge, std::size_t rows, double most_growth);

  // At most, for so many threads.
  static std::uint64_t bytes(std::size_t members, std::size_t rows) {
    // As many cuts as threads, with twice as many parts.
    return members *
           (rows * sizeof(Step) + 2 * (rows * 2 * sizeof(double) + sizeof(Part) + sizeof(LaterAdds)));
  }

  // Before a batch.
  void start(const Weights& w);
  // A row of the group is solved. `number`: in the group.
  void note(const GroupRows& rows, const GroupRow& row, std::size_t number);
  // All updates of an owner in a group of so many rows, in the order of the rows. `growth`: of a weight, by
  // any of them. Returns by how much numbers in memory may have grown, for the owner of a block's first part.
  double apply(Weights& w, std::size_t owner, std::size_t rows, double growth,
               std::span<const BlockTask> updates, std::span<const UpdatePlace> places);

 private:
  // What a row does to the scales of a block; nothing if it does not have it.
  struct Step {
    double factor = 1;
    bool there = false;
  };
  // In cache lines of its own: different threads follow the parts.
  struct alignas(64) Part {
    BlockPart of;
    std::size_t cut, number;    // of the block, and among its parts
    std::vector<double> scale;  // by row of the group, before its update; valid if followed
    bool followed = false;      // the scale was followed through the whole group, before its updates
    std::size_t next = 0;       // if not: the row up to which it was
    double growth = 0;          // of numbers in memory, in this group
  };

  const Step& step(const Part& part, std::size_t row) const { return steps_[part.cut * rows_ + row]; }
  Part& part_of(const BlockTask& update, const UpdatePlace& place) {
    return parts_[first_[owners_.cut_of(update.block)] + place.part];
  }
  bool follow_all(const Weights& w, Part& part, std::size_t rows, double growth);
  void apply_one_by_one(Weights& w, std::size_t owner, std::size_t rows, double growth,
                        std::span<const BlockTask> updates, std::span<const UpdatePlace> places);
  void make_room(Weights& w, Part& part, std::size_t row, double growth);
  void shrink(Weights& w, Part& part, double factor) const;
  void follow(Weights& w, Part& part, std::size_t row, double growth);

  const LineOwners& owners_;
  const Ridge& ridge_;
  std::size_t rows_;
  double most_growth_;
  std::vector<Step> steps_;         // [cuts][rows]
  std::vector<std::size_t> first_;  // by cut: its parts
  std::vector<Part> parts_;
  struct alignas(64) Owner {
    std::vector<std::size_t> parts;
    std::vector<double> scales;  // by update
  };
  std::vector<Owner> of_owner_;
};

}  // namespace truemax
