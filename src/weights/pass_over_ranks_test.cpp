#include "weights/pass_over_ranks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "ranks/thread_ranks.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

struct Problem {
  Weights whole;
  std::vector<double> counts;
  Csr rows;
};

// Some classes are equal, so that there are ties.
Problem problem_of(std::size_t classes, bool intercept) {
  constexpr std::size_t kFeatures = 7, kRows = 50;
  std::mt19937_64 random(classes);
  std::uniform_real_distribution<float> sym(-2, 2);
  Problem p{Weights(classes, kFeatures, intercept), std::vector<double>(classes), {}};
  std::vector<float> w(kFeatures);
  for (ClassId k = 0; k < classes; ++k) {
    if (k % 5 != 4)
      for (float& v : w) v = sym(random);
    p.whole.set_class(k, w);
    if (intercept) p.whole.intercept()[k] = static_cast<float>(k % 5 == 4 ? k - 1 : k) / 100;
    p.counts[k] = 1.0 / (k + 1);
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    for (FeatureId f = 0; f < kFeatures; ++f)
      if ((r + f) % 3 != 0) p.rows.index.push_back(f), p.rows.value.push_back(sym(random));
    p.rows.begin.push_back(p.rows.index.size());
  }
  return p;
}

Weights part_of(const Problem& p, const Ranks& ranks) {
  const auto share = std::make_shared<const BlockShare>(p.counts, ranks.rank(), ranks.size());
  Weights own(share->classes(), p.whole.features(), p.whole.has_intercept());
  std::vector<float> w(p.whole.features());
  for (ClassId k = 0; k < own.classes(); ++k) {
    p.whole.copy_class(share->global_class(k), w);
    own.set_class(k, w);
    if (own.has_intercept()) own.intercept()[k] = p.whole.intercept()[share->global_class(k)];
  }
  own.set_share(share);
  return own;
}

class PassOverRanks : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, PassOverRanks, testing::Values(1, 2, 3, 4));

TEST_P(PassOverRanks, EqualsThePassOverTheWholeModel) {
  for (const std::size_t classes : {3, 16, 40, 161})
    for (const bool intercept : {false, true}) {
      const Problem p = problem_of(classes, intercept);
      std::vector<std::uint32_t> tie_rank(classes);
      std::iota(tie_rank.rbegin(), tie_rank.rend(), 0U);
      PassOptions options{.top = 5, .tie_rank = tie_rank};
      const PassResult expected = softmax_pass(p.whole, p.rows.view(), options);
      run_thread_ranks(GetParam(), [&](Ranks& ranks) {
        const Weights own = part_of(p, ranks);
        PassResult result;
        pass_over_ranks(ranks, own, p.rows.view(), options, result);
        ASSERT_TRUE(result.complete);
        EXPECT_EQ(result.best, expected.best);
        EXPECT_EQ(result.best_score, expected.best_score);
        EXPECT_EQ(result.highest, expected.highest);
        for (std::size_t r = 0; r < expected.excess.size(); ++r)
          EXPECT_NEAR(result.excess[r], expected.excess[r], 1e-12 * expected.excess[r]);
      });
    }
}

TEST_P(PassOverRanks, ScoresOfLabelsHaveTheBitsOfTheirOwner) {
  const Problem p = problem_of(100, true);
  const std::vector<std::uint32_t> row{0, 3, 3, 49};
  const std::vector<ClassId> label{99, 0, 50, 17};
  run_thread_ranks(GetParam(), [&](Ranks& ranks) {
    const std::vector<double> scores = scores_over_ranks(ranks, part_of(p, ranks), p.rows.view(), row, label);
    for (std::size_t i = 0; i < row.size(); ++i)
      EXPECT_EQ(scores[i], score(p.whole, p.rows.view().row(row[i]), label[i]));
  });
}

TEST(PassOverRanksStop, AStopOfOneRankIsAStopOfAll) {
  const Problem p = problem_of(100, false);
  run_thread_ranks(2, [&](Ranks& ranks) {
    const std::atomic<bool> stop = ranks.rank() == 1;
    PassResult result;
    pass_over_ranks(ranks, part_of(p, ranks), p.rows.view(), {.tie_rank = {}, .stop = &stop}, result);
    EXPECT_FALSE(result.complete);
  });
}

}  // namespace
}  // namespace truemax
