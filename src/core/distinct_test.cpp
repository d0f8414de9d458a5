#include "core/distinct.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace truemax {
namespace {

// Few, many, nearly all and all of the range; fewer after more, since the set is reused.
TEST(DrawDistinctAgain, MatchesDrawDistinct) {
  for (const std::uint64_t n : {1U, 64U, 65U, 100U, 1000U, 4000000U})
    for (const std::size_t count : {1U, 64U, 65U, 99U, 100U, 1000U, 70U}) {
      if (count > n) continue;
      std::vector<std::uint32_t> one(count), other(count);
      const CounterRandom random(n, Stream::draw, count);
      RandomWords words(random, 0), same(random, 0);
      draw_distinct(words, n, one);
      draw_distinct_again(same, n, other);
      EXPECT_EQ(one, other) << count << " of " << n;
      EXPECT_EQ(std::set<std::uint32_t>(other.begin(), other.end()).size(), count);
    }
}

}  // namespace
}  // namespace truemax
