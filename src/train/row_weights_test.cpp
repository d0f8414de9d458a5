// A row of weight 2 equals two copies of it: both training sets have the same optimum, and every unbiased
// method trained on one reaches that of the other.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <vector>

#include "rule/methods.hpp"
#include "train/ridge_oracle.hpp"

namespace truemax {
namespace {

// Rows that count twice: those with a wrong label, so that it matters.
bool counts_twice(std::size_t i) {
  return i % 5 == 0;
}

Dataset with_weights() {
  Dataset data = centres_data(150, 5);
  for (std::size_t i = 0; i < data.size(); ++i) data.weight.push_back(counts_twice(i) ? 2 : 1);
  return data;
}

Dataset with_copies() {
  const Dataset once = centres_data(150, 5);
  Dataset data = once;
  data.rows = {}, data.label.clear(), data.label_begin = {0}, data.label_set.clear();
  for (std::size_t i = 0; i < once.size(); ++i)
    for (int copy = 0; copy < (counts_twice(i) ? 2 : 1); ++copy) {
      const RowView x = x_of(once, i);
      data.rows.index.insert(data.rows.index.end(), x.index.begin(), x.index.end());
      data.rows.value.insert(data.rows.value.end(), x.value.begin(), x.value.end());
      data.rows.begin.push_back(data.rows.index.size());
      data.label.push_back(once.label[i]), data.label_set.push_back(once.label[i]);
      data.label_begin.push_back(data.label_set.size());
    }
  return data;
}

TEST(EveryMethod, UnbiasedOnesTreatWeightTwoAsTwoRows) {
  const Dataset weighted = with_weights(), copied = with_copies(), plain = centres_data(150, 5);
  ASSERT_EQ(copied.size(), 180U);
  for (const double mu : {0.0, 1.0}) {
    const RidgeOracle of_weighted(weighted, mu), of_copied(copied, mu);
    const std::vector<double> optimum = of_weighted.optimum();
    const double best = of_weighted.value(optimum);
    ASSERT_NEAR(of_copied.value(optimum), best, 1e-9 * best);
    ASSERT_NEAR(of_copied.value(of_copied.optimum()), best, 1e-9 * best);
    // Ignoring the weights would be noticed.
    ASSERT_GT(of_weighted.value(RidgeOracle(plain, mu).optimum()), 1.02 * best);
    double furthest = 0;
    for (const MethodInfo* info : methods()) {
      if (info->biased) continue;
      for (const std::uint64_t n : {1U, 10U}) {
        if (n > info->most_rows) continue;
        Recipe options = options_of(std::string(info->name), n == 1 ? 1 : 2, Visit::shuffle);
        options.rows_per_step = n;
        options.ridge = mu;
        options.step = (info->can_diverge ? 0.01 : 0.3) * static_cast<double>(n);
        options.decay = info->can_diverge ? 0.9985 : 0.992, options.epochs = info->can_diverge ? 3000 : 1000;
        const double on_copied = of_copied.value(run_epochs(weighted, options));
        const double on_weighted = of_weighted.value(run_epochs(copied, options));
        EXPECT_LT(on_copied, 1.01 * best) << info->name << " ridge " << mu << " rows " << n;
        EXPECT_LT(on_weighted, 1.01 * best) << info->name << " ridge " << mu << " rows " << n;
        furthest = std::max({furthest, on_copied / best - 1, on_weighted / best - 1});
      }
    }
    std::cout << "ridge " << mu << ": at most " << furthest << " above the optimum\n";
  }
}

}  // namespace
}  // namespace truemax
