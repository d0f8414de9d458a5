// Persistent threads: one call per member and round, exceptions are rethrown, rounds can follow each other.
#include "core/team.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace truemax {
namespace {

TEST(Team, CallsEveryMemberOncePerRound) {
  for (const std::size_t members : {1U, 2U, 3U, 7U}) {
    Team team(members);
    ASSERT_EQ(team.size(), members);
    std::vector<std::atomic<int>> calls(members);
    for (int round = 1; round <= 200; ++round) {
      team.run([&](std::size_t member) { ++calls[member]; });
      for (const std::atomic<int>& c : calls) ASSERT_EQ(c.load(), round);
    }
  }
}

TEST(Team, RethrowsAndStaysUsable) {
  Team team(3);
  for (const std::size_t thrower : {0U, 2U})
    EXPECT_THROW(team.run([&](std::size_t member) {
      if (member == thrower) throw std::runtime_error("no");
    }),
                 std::runtime_error);
  std::atomic<int> calls{0};
  team.run([&](std::size_t) { ++calls; });
  EXPECT_EQ(calls.load(), 3);
}

TEST(Team, HasAtLeastTheCaller) {
  Team team(0);
  EXPECT_EQ(team.size(), 1U);
}

}  // namespace
}  // namespace truemax
