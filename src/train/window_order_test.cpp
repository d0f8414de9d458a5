#include "train/window_order.hpp"

#include <gmock/gmock.h>

#include <numeric>
#include <set>

namespace truemax {
namespace {

std::vector<std::uint32_t> begins(std::uint32_t blocks, std::uint32_t per_block) {
  std::vector<std::uint32_t> begin{0};
  // Some blocks are empty, as if all their rows were set aside.
  for (std::uint32_t b = 0; b < blocks; ++b)
    begin.push_back(begin.back() + (b % 5 == 3 ? 0 : per_block + b % 3));
  return begin;
}

// All examples of an epoch, step by step, as the step loop takes them.
std::vector<ExampleId> epoch_of(WindowOrder& order, std::uint64_t epoch, std::uint64_t examples,
                                std::size_t together) {
  order.start_epoch(epoch);
  std::vector<ExampleId> all(examples);
  for (std::uint64_t first = 0; first < examples; first += together) {
    order.enter(order.window_at(first));
    order.fill(first, std::span(all).subspan(first, std::min<std::uint64_t>(together, examples - first)));
  }
  return all;
}

TEST(WindowOrder, ShuffleVisitsEveryExampleOnce) {
  for (const std::uint32_t blocks : {1U, 2U, 7U, 40U})
    for (const std::size_t window : {1U, 3U, 100U})
      for (const std::size_t together : {1U, 4U, 37U}) {
        const std::vector<std::uint32_t> begin = begins(blocks, 11);
        if (begin.back() < together) continue;
        WindowOrder order(Visit::shuffle, 5, begin, window, together);
        std::vector<ExampleId> all = epoch_of(order, 3, begin.back(), together);
        std::sort(all.begin(), all.end());
        for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(number_of(all[i]), i);
      }
}

TEST(WindowOrder, DependsOnlyOnSeedEpochAndPosition) {
  const std::vector<std::uint32_t> begin = begins(30, 20);
  for (const Visit visit : {Visit::shuffle, Visit::random, Visit::file}) {
    WindowOrder order(visit, 7, begin, 4, 8), resumed(visit, 7, begin, 4, 8), other(visit, 8, begin, 4, 8);
    const std::vector<ExampleId> epoch = epoch_of(order, 2, begin.back(), 8);
    // From the middle, without the steps before.
    for (const std::uint64_t first : {std::uint64_t{8}, std::uint64_t{200}, std::uint64_t{160}}) {
      resumed.start_epoch(2);
      resumed.enter(resumed.window_at(first));
      std::vector<ExampleId> step(8);
      resumed.fill(first, step);
      EXPECT_EQ(step, std::vector<ExampleId>(epoch.begin() + static_cast<std::ptrdiff_t>(first),
                                             epoch.begin() + static_cast<std::ptrdiff_t>(first + 8)));
    }
    const bool mixes = visit != Visit::file;
    EXPECT_EQ(epoch_of(order, 3, begin.back(), 8) != epoch, mixes);
    EXPECT_EQ(epoch_of(other, 2, begin.back(), 8) != epoch, mixes);
  }
}

TEST(WindowOrder, StepsStayInTheirWindowOrReachIntoTheNext) {
  const std::vector<std::uint32_t> begin = begins(30, 20);
  for (const Visit visit : {Visit::shuffle, Visit::random}) {
    WindowOrder order(visit, 7, begin, 4, 8);
    const std::vector<ExampleId> all = epoch_of(order, 0, begin.back(), 8);
    for (std::size_t first = 0; first < all.size(); first += 8) {
      const std::size_t window = order.window_at(first);
      std::set<std::uint32_t> blocks;
      for (const std::size_t w : {window, window + 1})
        for (const std::uint32_t b : order.blocks_of(w)) blocks.insert(b);
      for (std::size_t t = first; t < std::min(all.size(), first + 8); ++t) {
        const auto after = std::upper_bound(begin.begin(), begin.end(), number_of(all[t]));
        ASSERT_TRUE(blocks.contains(static_cast<std::uint32_t>(after - begin.begin() - 1)));
      }
      const std::set<ExampleId> distinct(
          all.begin() + static_cast<std::ptrdiff_t>(first),
          all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), first + 8)));
      ASSERT_EQ(distinct.size(), std::min<std::size_t>(8, all.size() - first));
    }
  }
}

TEST(WindowOrder, EveryWindowHasEnoughExamplesForAStep) {
  const std::vector<std::uint32_t> begin = begins(17, 5);
  WindowOrder order(Visit::shuffle, 1, begin, 1, 30);
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    order.start_epoch(epoch);
    std::uint64_t from = 0;
    for (std::size_t w = 0; w < order.windows(); ++w) {
      EXPECT_GE(order.end_of(w) - from, 30U);
      from = order.end_of(w);
    }
    EXPECT_EQ(from, begin.back());
  }
}

TEST(WindowOrder, FileKeepsTheOrderOfTheRows) {
  const std::vector<std::uint32_t> begin = begins(9, 4);
  WindowOrder order(Visit::file, 1, begin, 2, 1);
  const std::vector<ExampleId> all = epoch_of(order, 4, begin.back(), 1);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(number_of(all[i]), i);
}

}  // namespace
}  // namespace truemax
