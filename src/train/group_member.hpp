// The rows of a group that one thread solves, from the W before the group: it draws their classes, scores
// them, and lets the rule find coefficients and u. The rows are cut into parts that take turns: while the
// message of one is under way, another one works.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "draw/draw.hpp"
#include "train/group_rule.hpp"
#include "train/group_scores.hpp"
#include "train/lane.hpp"
#include "train/line_owners.hpp"

namespace truemax {

class GroupMember {
 public:
  // For up to so many rows and blocks of a row. `ranks`: those that share the blocks of a row.
  GroupMember(const LaneSetup& setup, Ranks& ranks, std::size_t most_rows, std::size_t blocks);

  // Blocks of a row that a rank may have.
  static std::size_t most_blocks(std::size_t classes, const BlockShare* share, const Draw* draw);

  const GroupScores& scores() const { return scores_; }
  // From now on the owners of lines score the blocks that are not cut.
  void leave_to(const LineOwners& owners) { owners_ = &owners; }

  // Rows and classes, which do not depend on W and u.
  void prepare(const Batch& batch, std::size_t first, std::size_t count, GroupRows& rows);
  // Scores the rows and sends the first messages; between the two the caller may prepare other rows.
  void begin(const Batch& batch, RunState& state, GroupRows& rows);
  void finish(RunState& state, GroupRows& rows);

  std::array<GroupRows, 2> buffers;  // of this group and the next

 private:
  static constexpr std::size_t kParts = Ranks::kMostStarted;
  static constexpr std::size_t kFewestRows = 128;  // of a part: fewer would not pay for their messages

  void add_blocks(std::size_t i, GroupRows& rows, GroupRow& row, std::uint32_t& at);
  void read_state(const Batch& batch, RunState& state, GroupRows& rows) const;
  void set_ridge(const Batch& batch, GroupRows& rows, GroupRow& row) const;
  void score(RunState& state, GroupRows& rows, std::size_t first, std::size_t last);
  template <class Take>
  void each_own(const GroupRows& rows, const GroupRow& row, Take&& take) const;
  void score_row(RunState& state, GroupRows& rows, GroupRow& row, bool all);
  void go_on(std::size_t part, GroupRows& rows);

  const LaneSetup& setup_;
  Ranks& ranks_;
  std::size_t blocks_;  // of a row, here
  bool far_;            // W does not fit in the cache: prefetch its lines some rows ahead
  bool tracks_norms_;
  const LineOwners* owners_ = nullptr;
  std::unique_ptr<GroupRule> rule_;
  std::vector<GroupPart> parts_;
  std::array<bool, kParts> open_{};
  BlockBuffer drawn_;
  std::vector<ExampleId> examples_;
  std::vector<ClassId> labels_;
  GroupScores scores_;
};

}  // namespace truemax
