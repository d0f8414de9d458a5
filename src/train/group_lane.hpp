// The group lane (--group): linear models on one or many ranks. The rows of a group are solved side by side,
// each as a step of one row with the whole step size, all from the W before the group; then all updates are
// applied, in the order of the rows. Every rank draws the classes of all rows and works on the blocks that it
// owns; what the rows need to know of the other ranks' blocks comes in a few messages that all rows share
// (train/group_rule.hpp). The number of ranks changes the result only by the order of sums.
//
// A group is cut into parts that take turns: while the message of one is under way, another one works, and
// the classes of the next group are drawn.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "draw/draw.hpp"
#include "train/group_rule.hpp"
#include "train/lane.hpp"

namespace truemax {

class GroupLane final : public Lane {
 public:
  explicit GroupLane(const LaneSetup& setup);

  // Whether the run has groups: it asks for them, or has several ranks.
  static bool takes(const LaneSetup& setup) { return setup.options.group > 0 || setup.share != nullptr; }
  // Why such a run is not possible and what to do about it; empty if it is.
  static std::string why_not(const DataView& data, const TrainOptions& options);
  // Rows of a group: those of the options, or a power of two up to 512 that does not overshoot. Neither the
  // number of ranks nor where they are has a say, so that runs do not depend on it.
  static std::size_t rows_of_group(const DataView& data, const TrainOptions& options, const Draw* draw);
  static std::uint64_t bytes(const DataView& data, const TrainOptions& options, const Draw* draw);

  void attach(RunState& state) override;
  bool start_epoch(RunState& state, const std::atomic<bool>& stop, const StepPlan& plan) override;
  void take(const Batch& batch, RunState& state) override;
  void tighten(RunState& state) override;
  bool takes_whole_batches() const override { return true; }

 private:
  static constexpr std::size_t kParts = Ranks::kMostStarted;
  static constexpr std::size_t kFewestRows = 128;  // of a part: fewer would not pay for their messages

  void prepare(const Batch& batch, std::size_t first, std::size_t count, GroupRows& rows);
  void add_blocks(std::size_t i, GroupRows& rows, GroupRow& row, std::uint32_t& at);
  void start(const Batch& batch, RunState& state, GroupRows& rows) const;
  void set_ridge(const Batch& batch, GroupRows& rows, GroupRow& row) const;
  void score(RunState& state, GroupRows& rows, std::size_t first, std::size_t last);
  void score_row(RunState& state, GroupRows& rows, GroupRow& row);
  // `meanwhile` is called while messages are under way.
  template <class Meanwhile>
  void solve(const Batch& batch, RunState& state, GroupRows& rows, Meanwhile&& meanwhile);
  void admit(RunState& state, const GroupRows& rows);
  double make_room(Weights& w, const GroupRows& rows, const GroupRow& row) const;
  void add_growth(RunState& state);
  void apply(RunState& state, GroupRows& rows);
  void update_norms(RunState& state, const GroupRows& rows, const GroupRow& row);
  void project(RunState& state);

  const LaneSetup& setup_;
  std::size_t most_;    // rows of a group
  std::size_t blocks_;  // of a row, here
  bool far_;            // W does not fit in the cache: prefetch its lines some rows ahead
  bool tracks_norms_;
  double most_growth_;  // of a number in memory, by one row: a batch stays within the sums of float32
  double growth_ = 0;   // of this rank's memory in the batch
  std::unique_ptr<GroupRule> rule_;
  std::array<GroupRows, 2> rows_;  // this group and the next
  std::vector<GroupPart> parts_;
  BlockBuffer drawn_;
  std::vector<ExampleId> examples_;
  std::vector<ClassId> labels_;
  std::vector<float> intercept_, now_;  // [blocks][16] of a row
};

// Throws UserError if a run that has groups, or will have them, is not possible.
void require_groups(const DataView& data, const TrainOptions& options);

}  // namespace truemax
