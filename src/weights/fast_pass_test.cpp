// The pass in float32 against the pass in double, on every instruction set: losses within the stated bound,
// the best classes exactly the same.
#include "weights/fast_pass.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "weights/kernels.hpp"
#include "weights/test_support.hpp"

namespace truemax {
namespace {

std::vector<std::uint32_t> falling_ranks(std::size_t classes) {
  std::vector<std::uint32_t> rank(classes);
  for (std::size_t k = 0; k < classes; ++k) rank[k] = static_cast<std::uint32_t>(classes - 1 - k);
  return rank;
}

PassResult pass(const Weights& w, CsrView rows, std::size_t top, PassNumbers numbers,
                const std::vector<std::uint32_t>& rank, std::size_t threads = 1) {
  return softmax_pass(
      w, rows, {.top = top, .threads = threads, .tie_rank = rank, .stop = nullptr, .numbers = numbers});
}

double absolute_sum(RowView x) {
  double sum = 0;
  for (const float v : x.value) sum += std::abs(static_cast<double>(v));
  return sum;
}

void expect_same(const PassResult& a, const PassResult& b) {
  EXPECT_EQ(a.highest, b.highest);
  EXPECT_EQ(a.excess, b.excess);
  EXPECT_EQ(a.best, b.best);
  EXPECT_EQ(a.best_score, b.best_score);
}

// Against double: the same best classes; scores within E, losses of all classes within 2 E + 2e-6 (absolute),
// never negative; no probability above one. Returns the number of rows done in float32.
std::size_t expect_right(const Weights& w, const Csr& rows, std::size_t top, std::size_t threads = 1) {
  const auto rank = falling_ranks(w.classes());
  const PassResult fast = pass(w, rows.view(), top, PassNumbers::floats, rank, threads);
  const PassResult slow = pass(w, rows.view(), top, PassNumbers::doubles, rank);
  EXPECT_TRUE(fast.complete);
  EXPECT_EQ(fast.best, slow.best);
  FastBounds bounds = fast_bounds(w);
  if (bounds.blocks == 0) bounds.add_blocks(w, 0, w.blocks());
  std::size_t in_floats = 0;
  for (std::size_t r = 0; r < rows.rows(); ++r) {
    const RowView x = rows.row(r);
    const double error = fast_error(bounds, x.index.size(), 1.001 * absolute_sum(x));
    // If E is too large, or if all scores are intercepts, the row matches double bit for bit.
    const bool declined = !(error <= kFastError) || x.index.empty() || bounds.memory == 0;
    const double slack = declined ? 0.0 : error;
    if (fast.excess[r] != slow.excess[r]) ++in_floats;
    EXPECT_NEAR(fast.highest[r], slow.highest[r], slack) << r;
    EXPECT_GE(fast.excess[r], 1.0);
    for (ClassId k = 0; k < w.classes(); ++k) {
      const auto best = fast.best.begin() + static_cast<std::ptrdiff_t>(r * fast.top);
      const auto at =
          static_cast<std::size_t>(std::find(best, best + static_cast<std::ptrdiff_t>(fast.top), k) - best);
      const double exact = score(w, x, k);
      const double z = at < fast.top ? fast.best_score[r * fast.top + at] : exact;
      EXPECT_NEAR(z, exact, slack);
      EXPECT_GE(fast.loss(r, z), 0.0) << r << " class " << k;
      EXPECT_LE(fast.probability(r, z), 1.0);
      EXPECT_NEAR(fast.loss(r, z), slow.loss(r, exact), declined ? 0.0 : 2 * error + 2e-6)
          << r << " class " << k;
    }
    if (testing::Test::HasFailure()) return in_floats;
  }
  return in_floats;
}

void scale_some(Weights& w) {
  w.allow_scaling();
  for (ClassId k = 0; k < w.classes(); k += 2) w.scale_class(k, 0.7 / (1 + k % 5));
  w.scale_all(0.9);
}

TEST(FastPass, MatchesTheDoublePass) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet here(target);
    SCOPED_TRACE(instruction_set_name(target));
    Engine random(1);
    std::size_t in_floats = 0;
    for (const std::size_t classes : {2U, 10U, 16U, 17U, 33U, 64U, 65U, 150U})
      for (const bool intercept : {false, true})
        for (const bool scaled : {false, true})
          for (const std::size_t top : {1U, 5U, 200U}) {
            Weights w = random_weights(random, classes, 60, intercept, 0.5);
            if (scaled) scale_some(w);
            in_floats += expect_right(w, random_rows(random, 70, 60, 40, 0.5), top);
            if (testing::Test::HasFailure()) return;
          }
    EXPECT_GT(in_floats, 3000U);  // most of the 96 x 60 rows that have features
  }
}

// More than 2 MB: rows are reordered and lines are prefetched.
TEST(FastPass, AcceptsRowsInAnyOrder) {
  Engine random(2);
  for (const bool scaled : {false, true}) {
    Weights w = random_weights(random, 530, 1100, true, 0.3);
    ASSERT_GT(w.memory().size_bytes(), std::size_t{2} << 20);
    if (scaled) scale_some(w);
    EXPECT_GT(expect_right(w, random_rows(random, 150, 1100, 30, 0.3), 5, 3), 100U);
  }
}

// Bounds that are known beforehand change nothing, also where a pass would find them on its way (more than 2
// MB), and where rows are declined.
TEST(FastPass, KnownBoundsGiveTheSameResult) {
  Engine random(9);
  for (const std::size_t classes : {10U, 50U, 530U})
    for (const double decades : {0.3, 12.0}) {
      Weights w = random_weights(random, classes, 1100, true, decades);
      scale_some(w);
      const Csr rows = random_rows(random, 90, 1100, 30, decades);
      const FastBounds bounds = whole_bounds(w);
      EXPECT_EQ(bounds.blocks, w.blocks());
      PassOptions options;
      options.top = 5, options.threads = 2, options.numbers = PassNumbers::floats, options.refine = true;
      const PassResult found = softmax_pass(w, rows.view(), options);
      options.bounds = &bounds;
      const PassResult known = softmax_pass(w, rows.view(), options);
      EXPECT_EQ(known.best, found.best);
      EXPECT_EQ(known.best_score, found.best_score);
    }
}

TEST(FastPass, DeclinesRowsBeyondFloatRange) {
  Engine random(3);
  for (const double decades : {3.0, 10.0, 37.0})
    for (const bool intercept : {false, true}) {
      const Weights w = random_weights(random, 37, 20, intercept, decades);
      expect_right(w, random_rows(random, 150, 20, 10, decades), 5, 2);
    }
  // Rows that overflow float32, or whose scores all become the same float, beside one that does neither.
  Weights w(40, 2, false);
  for (ClassId k = 0; k < 40; ++k)
    w.set_class(k, std::vector<float>{1.0F + 0.01F * static_cast<float>(k), 0.5F});
  Csr rows;
  for (const float v : {1.0F, 3e38F, -3e38F, 1e-45F}) {
    rows.index.push_back(0);
    rows.value.push_back(v);
    rows.begin.push_back(rows.index.size());
  }
  EXPECT_EQ(expect_right(w, rows, 3), 1U);
}

// Few distinct numbers, so that many scores are equal or nearly so.
TEST(FastPass, OrdersNearTiesLikeDouble) {
  Engine random(4);
  std::uniform_int_distribution<int> small(-1, 1);
  for (const float nudge : {0.0F, 1e-7F, 1e-6F, 1e-4F}) {
    Weights w(120, 12, true);
    std::vector<float> row(12);
    for (ClassId k = 0; k < 120; ++k) {
      for (float& v : row)
        v = 0.37F * static_cast<float>(small(random)) + nudge * static_cast<float>(small(random));
      w.set_class(k, row);
      w.intercept()[k] = static_cast<float>(small(random));
    }
    Csr rows = random_rows(random, 200, 12, 6, 0.3);
    for (float& v : rows.value) v = v > 0 ? 1.0F : 2.0F;
    for (const std::size_t top : {1U, 5U, 119U, 120U, 130U}) expect_right(w, rows, top);
  }
}

// If the best have nearly all of the probability, the remainder keeps its digits.
TEST(FastPass, RefinedScoresMatchDoubleBitForBit) {
  Engine random(9);
  Weights w = random_weights(random, 200, 60, true, 0.6);
  const Csr rows = random_rows(random, 300, 60, 40, 0.6);
  const auto rank = falling_ranks(200);
  const PassResult slow = pass(w, rows.view(), 5, PassNumbers::doubles, rank);
  const PassResult plain = pass(w, rows.view(), 5, PassNumbers::floats, rank);
  const PassResult fine = softmax_pass(w, rows.view(),
                                       {.top = 5,
                                        .threads = 1,
                                        .tie_rank = rank,
                                        .stop = nullptr,
                                        .numbers = PassNumbers::floats,
                                        .refine = true});
  EXPECT_EQ(fine.best, slow.best);
  EXPECT_EQ(fine.best_score, slow.best_score);
  EXPECT_EQ(fine.highest, slow.highest);
  EXPECT_NE(plain.best_score, slow.best_score);
  FastBounds bounds = fast_bounds(w);
  if (bounds.blocks == 0) bounds.add_blocks(w, 0, w.blocks());
  for (std::size_t r = 0; r < rows.rows(); ++r) {
    const RowView x = rows.row(r);
    double rest = 1;  // probability of the other classes
    for (std::size_t i = 0; i < 5; ++i) rest -= slow.probability(r, slow.best_score[r * 5 + i]);
    const double error = fast_error(bounds, x.index.size(), 1.001 * absolute_sum(x));
    EXPECT_NEAR(fine.excess[r] / slow.excess[r], 1, 2 * error * rest + 1e-6) << r;
    EXPECT_GE(fine.excess[r], 1.0);
  }
}

TEST(FastPass, MatchesDoubleOnUntrainedWeights) {
  Engine random(5);
  const Csr rows = random_rows(random, 100, 5, 3, 1);
  const Weights w(1000, 5, true);
  const auto rank = falling_ranks(1000);
  expect_same(pass(w, rows.view(), 5, PassNumbers::floats, rank, 2),
              pass(w, rows.view(), 5, PassNumbers::doubles, rank));
}

TEST(FastPass, IsIndependentOfThreadsAndOtherRows) {
  Engine random(6);
  for (const std::size_t features : {15U, 1100U}) {  // the second does not fit in the caches
    const Weights w = random_weights(random, 500, features, true, 0.5);
    const Csr rows = random_rows(random, 3000, static_cast<FeatureId>(features), 8, 0.5);
    const auto rank = falling_ranks(500);
    const PassResult one = pass(w, rows.view(), 5, PassNumbers::floats, rank);
    for (const std::size_t threads : {2U, 3U, 64U})
      expect_same(pass(w, rows.view(), 5, PassNumbers::floats, rank, threads), one);
    for (const std::size_t first : {1U, 33U, 2000U}) {
      const PassResult part = pass(w, rows.view().slice(first, 500), 5, PassNumbers::floats, rank);
      for (std::size_t i = 0; i < 500; ++i) {
        ASSERT_EQ(part.highest[i], one.highest[first + i]);
        ASSERT_EQ(part.excess[i], one.excess[first + i]);
      }
    }
  }
}

TEST(FastPass, SmallInputsUseDouble) {
  Engine random(7);
  const Weights w = random_weights(random, 20, 30, false, 0.5);
  const auto rank = falling_ranks(20);
  const Csr few = random_rows(random, 100, 30, 20, 0.5), many = random_rows(random, 100000, 30, 20, 0.5);
  for (const auto& [rows, numbers] :
       {std::pair(&few, PassNumbers::doubles), std::pair(&many, PassNumbers::floats)})
    expect_same(pass(w, rows->view(), 5, PassNumbers::automatic, rank),
                pass(w, rows->view(), 5, numbers, rank));
}

TEST(FastPass, IsIncompleteOnlyIfStopped) {
  Engine random(8);
  const Weights w = random_weights(random, 40, 10, false, 1);
  const Csr rows = random_rows(random, 500, 10, 5, 1);
  for (const bool raised : {false, true}) {
    const std::atomic<bool> stop{raised};
    std::size_t seen = 0;
    const PassResult result = softmax_pass(w, rows.view(),
                                           {.top = 1,
                                            .threads = 2,
                                            .tie_rank = {},
                                            .stop = &stop,
                                            .watch = [&](std::size_t done) { seen = done; },
                                            .numbers = PassNumbers::floats});
    EXPECT_EQ(result.complete, !raised);
    EXPECT_EQ(seen, raised ? 0U : 500U);
  }
}

// An achievable worst case: all products alike, so that roundings add up.
TEST(FastPass, ErrorsStayWithinTheBoundOnLongRows) {
  for (const std::size_t nonzeros : {10U, 1000U, 20000U}) {
    Weights w(70, nonzeros, false);
    Csr rows;
    for (std::size_t f = 0; f < nonzeros; ++f) rows.index.push_back(static_cast<FeatureId>(f));
    rows.value.assign(nonzeros, 1.0F / static_cast<float>(nonzeros));
    rows.begin.push_back(nonzeros);
    for (ClassId k = 0; k < 70; ++k)
      w.set_class(k, std::vector<float>(nonzeros, 0.1F + 0.013F * static_cast<float>(k)));
    EXPECT_EQ(expect_right(w, rows, 5), 1U);
  }
}

}  // namespace
}  // namespace truemax
