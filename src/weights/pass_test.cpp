// The rows x blocks pass against brute force: all scores, sorted and summed.
#include "weights/pass.hpp"

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

// log sum exp of a row as a single number.
double log_sum(const PassResult& result, std::size_t row) {
  return result.highest[row] + std::log(result.excess[row]);
}

std::vector<std::uint32_t> random_ranks(Engine& random, std::size_t classes) {
  std::vector<std::uint32_t> rank(classes);
  std::iota(rank.begin(), rank.end(), 0U);
  std::shuffle(rank.begin(), rank.end(), random);
  return rank;
}

// Weights and values from a handful of numbers, so that many scores are equal.
void make_ties(Engine& random, Weights& w, Csr& rows) {
  std::uniform_int_distribution<int> small(-1, 1);
  std::vector<float> row(w.features());
  for (ClassId k = 0; k < w.classes(); ++k) {
    for (float& v : row) v = static_cast<float>(small(random));
    w.set_class(k, row);
    if (w.has_intercept()) w.intercept()[k] = static_cast<float>(small(random));
  }
  for (float& v : rows.value) v = v > 0 ? 1.0F : 2.0F;
}

PassResult pass(const Weights& w, const Csr& rows, std::size_t top, const std::vector<std::uint32_t>& rank,
                std::size_t threads = 1, const std::atomic<bool>* stop = nullptr) {
  return softmax_pass(w, rows.view(), {.top = top, .threads = threads, .tie_rank = rank, .stop = stop});
}

void expect_right(const Weights& w, const Csr& rows, std::size_t asked,
                  const std::vector<std::uint32_t>& rank, const PassResult& result) {
  const std::size_t classes = w.classes(), top = std::min(asked, classes);
  ASSERT_TRUE(result.complete);
  ASSERT_EQ(result.top, top);
  ASSERT_EQ(result.highest.size(), rows.rows());
  ASSERT_EQ(result.excess.size(), rows.rows());
  ASSERT_EQ(result.best.size(), rows.rows() * top);
  ASSERT_EQ(result.best_score.size(), rows.rows() * top);
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    std::vector<double> z(classes);
    for (ClassId k = 0; k < classes; ++k) z[k] = score(w, rows.row(i), k);
    std::vector<ClassId> order(classes);
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](ClassId a, ClassId b) { return z[a] != z[b] ? z[a] > z[b] : rank[a] < rank[b]; });
    for (std::size_t t = 0; t < top; ++t) {
      ASSERT_EQ(result.best[i * top + t], order[t]) << "row " << i << " place " << t << " of " << classes;
      ASSERT_EQ(result.best_score[i * top + t], z[order[t]]);
    }
    const auto most = static_cast<long double>(z[order[0]]);
    long double sum = 0;
    for (const double v : z) sum += std::exp(static_cast<long double>(v) - most);
    const long double exact = most + std::log(sum);
    ASSERT_LE(std::abs(static_cast<long double>(log_sum(result, i)) - exact), 1e-14L * (1 + std::abs(exact)));
    for (const double v : z) ASSERT_GE(log_sum(result, i), v);
  }
}

TEST(SoftmaxPass, MatchesBruteForce) {
  Engine random(1);
  for (const std::size_t classes : {2U, 3U, 15U, 16U, 17U, 33U, 100U})
    for (const std::size_t count : {1U, 63U, 64U, 65U, 200U})
      for (const bool intercept : {false, true})
        for (const bool ties : {false, true}) {
          Weights w = random_weights(random, classes, 12, intercept, 0.5);
          Csr rows = random_rows(random, count, 12, 6, 0.5);
          if (ties) make_ties(random, w, rows);
          const auto rank = random_ranks(random, classes);
          for (const std::size_t top : {std::size_t{1}, std::size_t{3}, std::size_t{5}, classes, classes + 7})
            expect_right(w, rows, top, rank, pass(w, rows, top, rank));
        }
}

TEST(SoftmaxPass, AllowsNoTopEntries) {
  Engine random(2);
  const Weights w = random_weights(random, 20, 10, false, 0.5);
  const Csr rows = random_rows(random, 70, 10, 5, 0.5);
  const auto rank = random_ranks(random, 20);
  expect_right(w, rows, 0, rank, pass(w, rows, 0, rank));
}

TEST(SoftmaxPass, IsEmptyForNoRows) {
  const Weights w(20, 10, false);
  const PassResult result = pass(w, Csr(), 3, std::vector<std::uint32_t>(20));
  EXPECT_TRUE(result.complete);
  EXPECT_TRUE(result.highest.empty());
  EXPECT_TRUE(result.best.empty());
}

TEST(SoftmaxPass, UntrainedWeightsGiveUniformProbabilities) {
  Engine random(3);
  const Csr rows = random_rows(random, 10, 5, 3, 1);
  const auto rank = random_ranks(random, 1000);
  const PassResult result = pass(Weights(1000, 5, false), rows, 1000, rank);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_NEAR(log_sum(result, i), std::log(1000.0), 1e-14);
    for (std::size_t t = 0; t < 1000; ++t) ASSERT_EQ(rank[result.best[i * 1000 + t]], t);
  }
}

TEST(SoftmaxPass, HandlesTheWholeRangeOfFloat) {
  Engine random(4);
  for (const double decades : {10.0, 37.0})
    for (const bool intercept : {false, true}) {
      const Weights w = random_weights(random, 37, 20, intercept, decades);
      const Csr rows = random_rows(random, 150, 20, 10, decades);
      const auto rank = random_ranks(random, 37);
      const PassResult result = pass(w, rows, 37, rank, 2);
      expect_right(w, rows, 37, rank, result);
      for (std::size_t r = 0; r < result.highest.size(); ++r) ASSERT_TRUE(std::isfinite(log_sum(result, r)));
    }
}

TEST(SoftmaxPass, IsIndependentOfThreads) {
  Engine random(5);
  for (const std::size_t count : {1U, 65U, 1000U, 5000U}) {
    Weights w = random_weights(random, 35, 15, true, 1);
    Csr rows = random_rows(random, count, 15, 8, 0.5);
    if (count == 1000) make_ties(random, w, rows);
    const auto rank = random_ranks(random, 35);
    const PassResult one = pass(w, rows, 5, rank, 1);
    expect_right(w, rows, 5, rank, one);
    for (const std::size_t threads : {2U, 3U, 4U, 5U, 64U}) {
      const PassResult many = pass(w, rows, 5, rank, threads);
      EXPECT_EQ(many.highest, one.highest) << threads;
      EXPECT_EQ(many.excess, one.excess) << threads;
      EXPECT_EQ(many.best, one.best) << threads;
      EXPECT_EQ(many.best_score, one.best_score) << threads;
    }
  }
}

TEST(SoftmaxPass, RowsAreIndependent) {
  Engine random(6);
  const Weights w = random_weights(random, 50, 15, true, 1);
  const Csr rows = random_rows(random, 300, 15, 8, 0.5);
  const auto rank = random_ranks(random, 50);
  const PassResult whole = pass(w, rows, 4, rank);
  const CsrView view = rows.view();
  for (const std::size_t first : {0U, 1U, 63U, 150U}) {
    const std::size_t count = 100;
    const PassResult part = softmax_pass(w, {view.begin.subspan(first, count + 1), view.index, view.value},
                                         {.top = 4, .threads = 1, .tie_rank = rank, .stop = nullptr});
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(log_sum(part, i), log_sum(whole, first + i));
      for (std::size_t t = 0; t < 4; ++t) EXPECT_EQ(part.best[i * 4 + t], whole.best[(first + i) * 4 + t]);
    }
  }
}

TEST(SoftmaxPass, IsIncompleteOnlyIfStopped) {
  Engine random(7);
  const Weights w = random_weights(random, 40, 10, false, 1);
  const Csr rows = random_rows(random, 500, 10, 5, 1);
  const auto rank = random_ranks(random, 40);
  for (const std::size_t threads : {1U, 3U}) {
    std::atomic<bool> stop{false};
    expect_right(w, rows, 2, rank, pass(w, rows, 2, rank, threads, &stop));
    stop = true;
    EXPECT_FALSE(pass(w, rows, 2, rank, threads, &stop).complete);
  }
}

// The stop arrives during or after the first group of rows: later groups are not started.
TEST(SoftmaxPass, StopsQuickly) {
  Engine random(8);
  const Weights w = random_weights(random, 200, 30, false, 1);
  const Csr rows = random_rows(random, 50000, 30, 5, 1);
  const auto rank = random_ranks(random, 200);
  for (const PassNumbers numbers : {PassNumbers::doubles, PassNumbers::floats})
    for (const std::size_t threads : {1U, 2U}) {
      std::atomic<bool> stop{false};
      std::size_t most = 0, calls = 0;
      PassOptions options{.top = 1, .threads = threads, .tie_rank = rank, .numbers = numbers};
      options.watch = [&](std::size_t done) { most = std::max(most, done), ++calls; };
      EXPECT_TRUE(softmax_pass(w, rows.view(), options).complete);
      ASSERT_EQ(most, rows.view().rows());
      const std::size_t groups = calls;
      ASSERT_GT(groups, threads) << "nothing would be left to stop";
      calls = 0, options.stop = &stop;
      options.watch = [&](std::size_t) { stop = true, ++calls; };
      EXPECT_FALSE(softmax_pass(w, rows.view(), options).complete);
      EXPECT_LE(calls, threads) << "one group per thread was under way";
    }
}

// Equal scores share the probability however large they are, and nothing is lost beside the highest.
TEST(SoftmaxPass, ProbabilitiesSumToOneForHugeScores) {
  for (const float v : {1.0F, 1e10F, 1e16F, 1e20F, 3e37F}) {
    Weights weights(3, 1, false);
    for (ClassId k = 0; k < 3; ++k) weights.set_class(k, std::vector<float>{v});
    Csr rows;
    rows.begin = {0, 1};
    rows.index = {0};
    rows.value = {1.0F};
    const std::vector<std::uint32_t> rank{0, 1, 2};
    const PassResult result =
        softmax_pass(weights, rows.view(), {.top = 3, .threads = 1, .tie_rank = rank, .stop = nullptr});
    double sum = 0;
    for (const double score : result.best_score) sum += result.probability(0, score);
    EXPECT_NEAR(sum, 1.0, 1e-14) << v;
    EXPECT_NEAR(result.loss(0, static_cast<double>(v)), std::log(3.0), 1e-14) << v;
  }
}

}  // namespace
}  // namespace truemax
