// Members of a team that share a core are moved apart, and nobody else.
#include "core/cores.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace truemax {
namespace {

constexpr int kStay = -1;

std::vector<int> moved(const std::vector<int>& core_of, const std::vector<int>& usable) {
  std::vector<int> go_to(core_of.size(), kStay);
  const std::size_t moves = move_apart(core_of, usable, go_to);
  EXPECT_EQ(moves, go_to.size() - static_cast<std::size_t>(std::count(go_to.begin(), go_to.end(), kStay)));
  return go_to;
}

TEST(Cores, OnlyMembersThatShareOneMove) {
  const std::vector<int> usable{0, 2, 3, 5, 7};
  EXPECT_EQ(moved({}, usable), std::vector<int>{});
  EXPECT_EQ(moved({5, 0, 3, 2}, usable), (std::vector{kStay, kStay, kStay, kStay}));
  // The later ones go to cores that nobody has, each to another, the next after its own.
  EXPECT_EQ(moved({5, 0, 5, 2}, usable), (std::vector{kStay, kStay, 7, kStay}));
  EXPECT_EQ(moved({3, 3, 5, 3}, usable), (std::vector{kStay, 7, kStay, 0}));
  EXPECT_EQ(moved({7, 7, 0, 2}, usable), (std::vector{kStay, 3, kStay, kStay}));
}

TEST(Cores, MembersStayIfThereIsNoRoom) {
  EXPECT_EQ(moved({0, 1, 0}, {0, 1}), (std::vector{kStay, kStay, kStay}));
  EXPECT_EQ(moved({0, 0, 0}, {0, 1}), (std::vector{kStay, 1, kStay}));
  EXPECT_EQ(moved({4, 4}, {}), (std::vector{kStay, kStay}));
}

TEST(Cores, WhereAMemberIsMayBeUnknown) {
  EXPECT_EQ(moved({-1, -1, 0}, {0, 1}), (std::vector{kStay, kStay, kStay}));
  EXPECT_EQ(moved({-1, 0, 0}, {0, 1}), (std::vector{kStay, kStay, 1}));
  EXPECT_EQ(moved({1 << 20, 1 << 20}, {0, 1}), (std::vector{kStay, kStay}));
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
