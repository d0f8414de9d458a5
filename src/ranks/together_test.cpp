#include "ranks/together.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/error.hpp"
#include "ranks/thread_ranks.hpp"

namespace truemax {
namespace {

TEST(Together, TheErrorOfTheFirstRankThatHasOneIsThrownOnAll) {
  for (const std::size_t failing : {0, 1, 2})
    run_thread_ranks(3, [&](Ranks& ranks) {
      std::string error;
      try {
        together(ranks, [&] {
          if (ranks.rank() >= failing) throw UserError("rank " + std::to_string(ranks.rank()));
        });
      } catch (const UserError& thrown) {
        error = thrown.what();
      }
      EXPECT_EQ(error, "rank " + std::to_string(failing));
      EXPECT_EQ(ranks.sum_of(1), 3);  // all are still there
    });
}

TEST(Together, WithoutAnErrorAllGoOn) {
  run_thread_ranks(3, [&](Ranks& ranks) {
    int done = 0;
    together(ranks, [&] { done = 1; });
    EXPECT_EQ(done, 1);
  });
}

}  // namespace
}  // namespace truemax
