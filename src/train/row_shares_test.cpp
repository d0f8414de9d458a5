// Shares of a group's rows: all rows, once, and by the speed of the threads.
#include "train/row_shares.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace truemax {
namespace {

using std::chrono::nanoseconds;

// Every row belongs to one thread, none of which has more than it has memory for.
void expect_all_rows_once(const RowShares& shares, std::size_t members) {
  for (const std::size_t rows : {1U, 2U, 15U, 64U, 1000U, 65536U}) {
    std::size_t next = 0;
    for (std::size_t m = 0; m < members; ++m) {
      const RowShares::Share share = shares.of(rows, m);
      EXPECT_EQ(share.first, next);
      EXPECT_LE(share.count, RowShares::most_of_one(members, rows));
      next += share.count;
    }
    EXPECT_EQ(next, rows);
  }
}

TEST(RowShares, AreEqualAtFirst) {
  const RowShares shares(16);
  expect_all_rows_once(shares, 16);
  for (std::size_t m = 0; m < 16; ++m) EXPECT_EQ(shares.of(1024, m).count, 64U);
}

TEST(RowShares, HaveTheMemoryThatIsPlanned) {
  for (const std::size_t threads : {1U, 2U, 16U, 100U})
    for (std::size_t members = 1; members <= threads; ++members)
      for (const std::size_t rows : {1U, 60U, 64U, 1024U, 65536U})
        EXPECT_LE(members * RowShares::most_of_one(members, rows), RowShares::most_of_all(threads, rows));
}

TEST(RowShares, HaveAllRowsAfterAnyTimes) {
  std::mt19937_64 random(1);
  constexpr auto kLongest = std::numeric_limits<nanoseconds::rep>::max();
  for (const std::size_t members : {2U, 3U, 16U, 90U}) {
    RowShares shares(members);
    for (int batch = 0; batch < 200; ++batch) {
      for (std::size_t m = 0; m < members; ++m) {
        const nanoseconds times[] = {nanoseconds(0), nanoseconds(1), nanoseconds(random() % 100'000),
                                     nanoseconds(kLongest)};
        shares.solved(m, random() % 3 == 0 ? 0 : random() % 1000, times[random() % 4]);
      }
      shares.adapt();
      expect_all_rows_once(shares, members);
    }
  }
}

// Threads whose rows take 1.3 times as long end at the same time as the others.
TEST(RowShares, FollowTheSpeed) {
  constexpr std::size_t kMembers = 16, kRows = 1024;
  RowShares shares(kMembers);
  const auto time = [&](std::size_t m) {
    return nanoseconds(shares.of(kRows, m).count * (m < 4 ? 1300 : 1000));
  };
  for (int batch = 0; batch < 20; ++batch) {
    for (std::size_t m = 0; m < kMembers; ++m) shares.solved(m, shares.of(kRows, m).count, time(m));
    shares.adapt();
  }
  for (std::size_t m = 0; m < kMembers; ++m)
    EXPECT_NEAR(static_cast<double>(time(m).count()), 68'000, 3'000) << m;
}

// One that was stopped for once has nearly as many rows as before, and soon as many.
TEST(RowShares, ForgetADisturbance) {
  constexpr std::size_t kMembers = 4, kRows = 400;
  RowShares shares(kMembers);
  const auto batch = [&](std::size_t slow) {
    for (std::size_t m = 0; m < kMembers; ++m)
      shares.solved(m, 100, nanoseconds(m == slow ? 10'000'000 : 100'000));
    shares.adapt();
  };
  batch(kMembers);
  batch(1);
  EXPECT_GE(shares.of(kRows, 1).count, 90U);
  for (int i = 0; i < 40; ++i) batch(kMembers);
  EXPECT_GE(shares.of(kRows, 1).count, 99U);
}

}  // namespace
}  // namespace truemax
