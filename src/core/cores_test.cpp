// Members of a team that share a core are moved apart, and nobody else.
#include "core/cores.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace truemax {
namespace {

using Moves = std::vector<CoreMove>;

TEST(Cores, OnlyMembersThatShareOneMove) {
  const std::vector<int> usable{0, 2, 3, 5, 7};
  EXPECT_EQ(moves_apart({}, usable), Moves{});
  EXPECT_EQ(moves_apart(std::vector{5, 0, 3, 2}, usable), Moves{});
  // The later ones go to cores that nobody has, each to another.
  EXPECT_EQ(moves_apart(std::vector{5, 0, 5, 2}, usable), (Moves{{2, 3}}));
  EXPECT_EQ(moves_apart(std::vector{3, 3, 5, 3}, usable), (Moves{{1, 0}, {3, 2}}));
  EXPECT_EQ(moves_apart(std::vector{0, 2, 0, 2}, usable), (Moves{{2, 3}, {3, 5}}));
}

TEST(Cores, MembersStayIfThereIsNoRoom) {
  EXPECT_EQ(moves_apart(std::vector{0, 1, 0}, std::vector{0, 1}), Moves{});
  EXPECT_EQ(moves_apart(std::vector{0, 0, 0}, std::vector{0, 1}), (Moves{{1, 1}}));
  EXPECT_EQ(moves_apart(std::vector{4, 4}, std::vector<int>{}), Moves{});
}

TEST(Cores, WhereAMemberIsMayBeUnknown) {
  EXPECT_EQ(moves_apart(std::vector{-1, -1, 0}, std::vector{0, 1}), Moves{});
  EXPECT_EQ(moves_apart(std::vector{-1, 0, 0}, std::vector{0, 1}), (Moves{{2, 1}}));
}

TEST(Cores, AThreadThatMovesKeepsTheCoresItMayUse) {
  std::thread([] {
    const std::vector<int> usable = usable_cores();
    ASSERT_FALSE(usable.empty());
    EXPECT_TRUE(std::find(usable.begin(), usable.end(), current_core()) != usable.end());
    for (const int core : usable) {
      go_to_core(core);
      EXPECT_EQ(usable_cores(), usable);
    }
    go_to_core(-1);
    go_to_core(1 << 20);
    EXPECT_EQ(usable_cores(), usable);
  }).join();
}

}  // namespace
}  // namespace truemax
