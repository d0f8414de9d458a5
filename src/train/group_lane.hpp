// The group lane (--group): linear models on one or many ranks. The rows of a group are solved side by side,
// each as a step of one row with the whole step size, all from the W before the group; then all updates are
// applied, in the order of the rows. Every rank draws the classes of all rows and works on the blocks that it
// owns; what the rows need to know of the other ranks' blocks comes in a few messages that all rows share
// (train/group_rule.hpp). The number of ranks changes the result only by the order of sums.
//
// Several threads share a group. Each owns lines of W (train/line_owners.hpp): it scores them for the rows
// that need them, but those of blocks that are cut, and applies the updates, those of all rows in their
// order. So lines stay in the cache of one core, and only scores and coefficients go from core to core. In
// between, each solves some of the rows (train/group_member.hpp). They wait for each other twice a group, and
// the result has the bits of one thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/parallel.hpp"
#include "core/team.hpp"
#include "draw/draw.hpp"
#include "train/block_growth.hpp"
#include "train/group_cuts.hpp"
#include "train/group_member.hpp"
#include "train/group_owner.hpp"
#include "train/group_updates.hpp"
#include "train/lane.hpp"
#include "train/line_owners.hpp"
#include "train/row_shares.hpp"

namespace truemax {

class GroupLane final : public Lane {
 public:
  // On at most so many threads: they wait for each other, with more than cores for the scheduler.
  explicit GroupLane(const LaneSetup& setup, std::size_t most_threads = available_threads());

  // Why such a run is not possible and what to do about it; empty if it is.
  static std::string why_not(const Facts& facts);
  // Rows of a group: those of the options, or a power of two up to 512 that does not overshoot. Neither the
  // number of ranks nor where they are has a say, so that runs do not depend on it.
  static std::size_t rows_of_group(const Facts& facts);
  static std::size_t steps_ahead(const Facts& facts);  // of a batch
  static std::uint64_t bytes(const Facts& facts);

  void attach(RunState& state) override;
  bool start_epoch(RunState& state, const std::atomic<bool>& stop, const StepSchedule& plan) override;
  void take(const Batch& batch, RunState& state) override;
  void tighten(RunState& state) override;
  bool takes_whole_batches() const override { return true; }
  bool makes_order(VisitOrder& order) override;
  std::size_t threads() const { return members_.size(); }

 private:
  // A thread's part of the group.
  struct Member {
    Member(const LaneSetup& setup, Ranks& ranks, std::size_t most_rows, std::size_t most_blocks)
        : solver(setup, ranks, most_rows, most_blocks) {}
    GroupMember solver;
    std::vector<GroupUpdates> updates;  // of both buffers; none with one thread
    std::vector<GroupSource> sources;   // of all members, for the owner
    std::unique_ptr<GroupOwner> owner;
    // The first of its rows, counted in the group, that would overflow float32.
    struct Refused {
      std::size_t row;
      double growth;
    };
    std::optional<Refused> refused;
    double growth = 0;          // of a weight, by any of its rows
    std::vector<double> grown;  // with ridge, by group of the batch: numbers in memory that it owns
  };
  using Share = RowShares::Share;
  static std::size_t useful_members(const LaneSetup& setup, std::size_t rows, std::size_t most_threads);

  void take_alone(const Batch& batch, RunState& state);
  void take_together(const Batch& batch, RunState& state);
  void run_member(const Batch& batch, RunState& state, std::size_t number);
  bool wait(std::size_t number);
  void prepare(const Batch& batch, std::size_t first, std::size_t number, std::size_t buffer);
  Share share_of(const Batch& batch, std::size_t group, std::size_t number) const;
  void look_over(Member& member, GroupRows& rows, const Share& share, std::size_t first);
  void score_own(const Weights& w, const Batch& batch, std::size_t group, std::size_t number,
                 std::size_t buffer);
  void write_u(RunState& state, std::size_t number, std::size_t buffer) const;
  bool admits(const GroupRow& row) const;
  void admit(RunState& state, const GroupRows& rows);
  void make_room(Weights& w, std::uint32_t block, double growth);
  void sum_growth(std::size_t first, std::size_t count);
  void add_growth(RunState& state);
  void apply(RunState& state, GroupRows& rows);
  void update_norms(RunState& state, const GroupRows& rows, const GroupRow& row);
  void project(RunState& state);

  const LaneSetup& setup_;
  std::size_t most_;  // rows of a group
  bool far_;          // W does not fit in the cache: prefetch its lines some rows ahead
  bool tracks_norms_;
  double most_growth_;  // of a number in memory, by one row: a batch stays within the sums of float32
  double growth_ = 0;   // of this rank's memory in the batch
  std::vector<double> growth_of_;  // without ridge: of a weight, by row of the batch
  std::vector<float> now_;         // [blocks][16] of a row
  BlockGrowth growth_of_block_;    // with ridge and one thread
  OneRank no_others_;
  std::vector<std::unique_ptr<Member>> members_;
  // With several threads:
  std::unique_ptr<Team> team_;
  std::unique_ptr<Meeting> meeting_;
  VisitOrder* order_ = nullptr;  // whose next epoch the last member makes while it waits
  std::unique_ptr<RowShares> shares_;
  std::unique_ptr<LineOwners> owners_;
  std::unique_ptr<GroupCuts> cuts_;  // with ridge
  std::unique_ptr<std::array<OwnedUpdates, 2>> lists_;
  std::atomic<bool> refused_{false};
};

// For the user, if so many rows of a group may overshoot on these data; else empty.
std::string warn_of_groups(const Facts& facts);

}  // namespace truemax
