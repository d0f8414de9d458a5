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

// More members than cores: some come too late for a round, whose tasks the others have done by then.
TEST(Team, SharesEveryTaskOnceAmongThoseWhoCome) {
  Team team(9);
  std::vector<std::atomic<int>> done(20);
  std::atomic<int> calls{0};
  for (int round = 1; round <= 3000; ++round) {
    team.share(done.size(), [&](std::size_t member, std::size_t task) {
      ASSERT_LT(member, 9U);
      ++done[task];
    });
    for (const std::atomic<int>& d : done) ASSERT_EQ(d.load(), round);
    if (round % 100 != 0) continue;
    team.run([&](std::size_t) { ++calls; });
    ASSERT_EQ(calls.load(), 9 * round / 100);
  }
  EXPECT_THROW(team.share(5,
                          [](std::size_t, std::size_t task) {
                            if (task == 3) throw std::runtime_error("no");
                          }),
               std::runtime_error);
}

TEST(Team, SharesEveryTaskOnceNearItsMember) {
  for (const std::size_t members : {1U, 2U, 5U, 9U}) {
    Team team(members);
    for (const std::size_t tasks : {0U, 1U, 4U, 9U, 100U}) {
      std::vector<std::atomic<int>> done(tasks);
      for (int round = 1; round <= 50; ++round) {
        team.share_near(tasks, [&](std::size_t member, std::size_t task) {
          ASSERT_LT(member, members);
          ++done[task];
        });
        for (const std::atomic<int>& d : done) ASSERT_EQ(d.load(), round);
      }
    }
  }
}

// The owner of the first tasks is held up in one of them until the others have done all the rest.
TEST(Team, TakesTasksOfMembersThatAreLate) {
  Team team(2);
  Patience patience(2);
  std::atomic<int> left{7};
  team.share_near(8, [&](std::size_t, std::size_t task) {
    if (task != 0)
      --left;
    else
      for (std::size_t looks = 0; left.load() > 0; ++looks) patience.pause(0, looks);
  });
  EXPECT_EQ(left.load(), 0);
}

TEST(Team, RethrowsFromATaskNearItsMember) {
  Team team(3);
  for (const std::size_t thrower : {0U, 3U, 5U})
    EXPECT_THROW(team.share_near(6,
                                 [&](std::size_t, std::size_t task) {
                                   if (task == thrower) throw std::runtime_error("no");
                                 }),
                 std::runtime_error);
  std::atomic<int> calls{0};
  team.share_near(6, [&](std::size_t, std::size_t) { ++calls; });
  EXPECT_EQ(calls.load(), 6);
}

TEST(Team, HasAtLeastTheCaller) {
  Team team(0);
  EXPECT_EQ(team.size(), 1U);
}

// What a member wrote before a meeting is what all others read after it. The numbers are not atomic.
TEST(Meeting, AllSeeWhatAllWroteBefore) {
  for (const std::size_t members : {1U, 2U, 3U, 5U, 8U}) {
    Team team(members);
    Meeting meeting(team.size());
    std::vector<int> written(team.size(), 0);
    std::atomic<int> wrong{0};
    for (int run = 0; run < 5; ++run) {
      meeting.start();
      team.run([&](std::size_t member) {
        for (int round = 1; round <= 100; ++round) {
          written[member] = run * 1000 + round;
          if (!meeting.wait(member)) ++wrong;
          for (const int w : written) wrong += w == run * 1000 + round ? 0 : 1;
          if (!meeting.wait(member)) ++wrong;
        }
      });
    }
    EXPECT_EQ(wrong.load(), 0) << members;
  }
}

TEST(Meeting, EndsIfOneGivesUp) {
  Team team(3);
  Meeting meeting(3);
  meeting.start();
  EXPECT_THROW(team.run([&](std::size_t member) {
    if (member == 1) {
      meeting.give_up();
      throw std::runtime_error("no");
    }
    EXPECT_FALSE(meeting.wait(member));
  }),
               std::runtime_error);
}

}  // namespace
}  // namespace truemax
