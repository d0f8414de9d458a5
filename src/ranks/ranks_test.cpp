#include "ranks/ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <vector>

#include "core/error.hpp"
#include "ranks/thread_ranks.hpp"

namespace truemax {
namespace {

using testing::ElementsAre;

class OverRanks : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, OverRanks, testing::Values(1, 2, 3, 4));

TEST_P(OverRanks, CombineGivesTheSameSumAndMaximumEverywhere) {
  run_thread_ranks(GetParam(), [](Ranks& ranks) {
    const auto r = static_cast<double>(ranks.rank()), p = static_cast<double>(ranks.size());
    std::vector<double> numbers{r, 1, -r};
    ranks.sum(numbers);
    EXPECT_THAT(numbers, ElementsAre(p * (p - 1) / 2, p, -p * (p - 1) / 2));
    std::array<float, 2> most{static_cast<float>(r), static_cast<float>(-r)};
    ranks.max(most);
    EXPECT_THAT(most, ElementsAre(static_cast<float>(p - 1), 0.0F));
    EXPECT_EQ(ranks.sum_of(2), 2 * p);
  });
}

// The order of a sum of float32 matters: all ranks must use the same one.
TEST_P(OverRanks, SumsHaveTheSameBitsEverywhere) {
  run_thread_ranks(GetParam(), [](Ranks& ranks) {
    std::vector<float> numbers(1000);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = 1 / static_cast<float>(1 + i * 7 + ranks.rank() * 1013);
    ranks.sum(numbers);
    const std::vector<float> own = numbers;
    ranks.broadcast(std::as_writable_bytes(std::span(numbers)), ranks.size() - 1);
    EXPECT_EQ(numbers, own);
  });
}

TEST_P(OverRanks, StartedSumsFinishInTheirOrder) {
  run_thread_ranks(GetParam(), [](Ranks& ranks) {
    std::array<double, 2> first{1, 2}, second{10, 20};
    const Ranks::Ticket a = ranks.start(Combine::sum, std::span<double>(first));
    const Ranks::Ticket b = ranks.start(Combine::sum, std::span<double>(second));
    const auto p = static_cast<double>(ranks.size());
    ranks.wait(a);
    ranks.wait(b);
    EXPECT_THAT(first, ElementsAre(p, 2 * p));
    EXPECT_THAT(second, ElementsAre(10 * p, 20 * p));
  });
}

TEST_P(OverRanks, BroadcastGivesEveryoneTheValueOfOneRank) {
  run_thread_ranks(GetParam(), [](Ranks& ranks) {
    EXPECT_EQ(ranks.broadcast_value(100 + ranks.rank()), 100);
    EXPECT_EQ(ranks.broadcast_value(100 + ranks.rank(), ranks.size() - 1), 99 + ranks.size());
    EXPECT_EQ(ranks.broadcast_text(std::string(1 + ranks.rank(), 'x')), "x");
  });
}

TEST_P(OverRanks, GatherKeepsTheOrderOfRanks) {
  run_thread_ranks(GetParam(), [](Ranks& ranks) {
    const std::array<std::uint32_t, 2> own{static_cast<std::uint32_t>(ranks.rank()), 7};
    std::vector<std::uint32_t> all(2 * ranks.size());
    ranks.gather_everywhere(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      EXPECT_EQ(all[2 * r], r);
      EXPECT_EQ(all[2 * r + 1], 7U);
    }
  });
}

TEST_P(OverRanks, MessagesArriveInOrder) {
  run_thread_ranks(GetParam(), [](Ranks& ranks) {
    const auto bytes_of = [](std::uint64_t& value) { return std::as_writable_bytes(std::span(&value, 1)); };
    for (std::uint64_t i = 0; i < 3; ++i) {
      std::uint64_t value = 10 * ranks.rank() + i;
      if (!ranks.first()) ranks.send(bytes_of(value), 0);
    }
    if (ranks.first())
      for (std::size_t from = 1; from < ranks.size(); ++from)
        for (std::uint64_t i = 0; i < 3; ++i) {
          std::uint64_t value = 0;
          ranks.receive(bytes_of(value), from);
          EXPECT_EQ(value, 10 * from + i);
        }
    ranks.barrier();
  });
}

TEST(Ranks, SayWhatTheyDoNotHaveInCommon) {
  const auto said = [](std::size_t size, const std::vector<Named>& others) {
    std::string error;
    run_thread_ranks(size, [&](Ranks& ranks) {
      std::vector<Named> own{{"--step", "7"}, {"--ridge", ""}};
      if (ranks.rank() == size - 1) own = others;
      try {
        ranks.require_same("options", own);
      } catch (const UserError& thrown) {
        if (ranks.first()) error = thrown.what();
        return;
      }
      EXPECT_EQ(ranks.sum_of(1), static_cast<double>(size));
    });
    return error;
  };
  const std::string todo = "; start every rank with the same program, options and files";
  for (const std::size_t size : {1, 2, 3}) EXPECT_EQ(said(size, {{"--step", "7"}, {"--ridge", ""}}), "");
  EXPECT_EQ(
      said(2, {{"--step", "7"}, {"--ridge", "1", "file"}}),
      "all ranks must have the same options, but --ridge is missing on rank 0 and 1 on rank 1 (file)" + todo);
  EXPECT_EQ(
      said(3, {{"--step", "8"}, {"--ridge", "1"}}),
      "all ranks must have the same options, but --step is 7 on rank 0 and 8 on rank 2, --ridge is missing "
      "on rank 0 and 1 on rank 2" +
          todo);
  EXPECT_EQ(said(2, {{"--other", "7"}}), "all ranks must have the same options, but --other" + todo);
}

TEST(ThreadRanks, AFailedRankLeavesNobodyWaiting) {
  std::atomic<int> lost = 0;
  const auto run = [&](Ranks& ranks) {
    if (ranks.rank() == 1) throw std::invalid_argument("one");
    try {
      ranks.barrier();
    } catch (const LostRanks&) {
      ++lost;
      throw;
    }
  };
  EXPECT_THROW(run_thread_ranks(3, run), std::invalid_argument);
  EXPECT_EQ(lost, 2);
}

TEST(Ranks, AThreadIsAloneUnlessItUsesRanks) {
  EXPECT_TRUE(ranks().alone());
  run_thread_ranks(2, [](Ranks& own) { EXPECT_EQ(&ranks(), &own); });
  EXPECT_TRUE(ranks().alone());
}

}  // namespace
}  // namespace truemax
