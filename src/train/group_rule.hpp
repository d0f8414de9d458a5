// The methods of a group: what is known of a row's blocks here becomes numbers that are combined over all
// ranks, until the coefficients and u of every row are known. All rows of a part of the group move in
// lockstep, so that they share each message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ranks/ranks.hpp"
#include "train/group_rows.hpp"
#include "train/lane.hpp"

namespace truemax {

// Some rows of a group, and the message that they share.
struct GroupPart {
  explicit GroupPart(std::size_t most_rows) : message(2 * most_rows) { open.reserve(most_rows); }

  std::size_t first = 0, last = 0;
  int phase = 0;
  std::vector<float> message;
  std::size_t size = 0;  // of the message
  Combine how = Combine::sum;
  std::vector<std::uint32_t> open;  // rows that still send
  Ranks::Ticket ticket = 0;

  std::span<float> numbers() { return {message.data(), size}; }
};

class GroupRule {
 public:
  GroupRule() = default;
  virtual ~GroupRule() = default;
  GroupRule(const GroupRule&) = delete;
  GroupRule& operator=(const GroupRule&) = delete;

  // Before a group whose steps have this share of the first step.
  virtual void start(double decayed) = 0;
  // Makes the next message from the scores (phase 0) and from what the last message brought. False: the
  // coefficients and u of these rows are known.
  virtual bool next(GroupRows& rows, GroupPart& part) = 0;
  // Rows that float32 cannot solve, and what solves one of them from fresh scores: messages of its own.
  virtual std::span<const std::uint32_t> declined() const { return {}; }
  virtual void solve_alone(GroupRows& /*rows*/, GroupRow& /*row*/, Ranks& /*ranks*/) {}
  // Scores are those of the weights after the ridge.
  virtual bool wants_shrunken() const { return false; }
};

// Null if the method has no groups.
std::unique_ptr<GroupRule> make_group_rule(const LaneSetup& setup, std::size_t most_rows);
bool has_group_rule(std::string_view method);

}  // namespace truemax
