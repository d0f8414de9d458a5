// Sums kept apart from W: scores and, once they are added up, weights are those of steps on W itself.
#include "weights/blocks_apart.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "weights/blocks.hpp"
#include "weights/test_support.hpp"

namespace truemax {
namespace {

constexpr std::size_t kApartClasses = 60, kApartFeatures = 80, kApartHead = 2;

struct ApartCase {
  bool scaled, intercept;
  std::vector<FeatureId> apart;
};

void compare_apart(const ApartCase& of) {
  Engine random(7);
  Weights direct = random_weights(random, kApartClasses, kApartFeatures, of.intercept, 1);
  const Csr rows = random_rows(random, 40, kApartFeatures, 30, 1);
  if (of.scaled) {
    direct.allow_scaling();
    for (ClassId k = 0; k < kApartClasses; ++k) direct.scale_class(k, 1.0 / (1 + k));
  }
  Weights w(kApartClasses, kApartFeatures, of.intercept);
  std::copy(direct.memory().begin(), direct.memory().end(), w.memory().begin());
  std::copy(direct.intercept().begin(), direct.intercept().end(), w.intercept().begin());
  w.set_scales(direct.scales());
  BlocksApart apart(kApartHead * kLanes, std::make_shared<SomeFeatures>(of.apart, kApartFeatures),
                    of.intercept);
  ASSERT_EQ(apart.blocks(), kApartHead);
  const std::vector<std::uint32_t> head{0, 1};
  std::vector<float> expected(kApartHead * kLanes), z(kApartHead * kLanes), b(kApartHead * kLanes),
      b_direct(kApartHead * kLanes);
  std::vector<float> c(kApartHead * kLanes);
  double largest = 0;
  SplitRows split;
  for (std::size_t t = 0; t < rows.rows(); ++t) {
    const RowView x = rows.row(t);
    score_blocks(direct, x, head, expected.data());
    copy_block_intercepts(direct, head, b_direct.data());
    for (std::size_t k = 0; k < z.size(); ++k) expected[k] += b_direct[k];
    split.clear();
    split.add(x, apart.features());
    if (t % 7 == 0) apart.start(w);
    apart.score(w, split.row(0), z.data(), b.data());
    for (std::size_t k = 0; k < z.size(); ++k) {
      EXPECT_NEAR(static_cast<double>(z[k]), static_cast<double>(expected[k]), 1e-4) << t << ' ' << k;
      EXPECT_NEAR(static_cast<double>(b[k]), static_cast<double>(b_direct[k]), 1e-5) << t << ' ' << k;
      c[k] = static_cast<float>(std::sin(static_cast<double>(t * 31 + k)));
    }
    add_to_blocks(direct, x, head, c.data());
    add_to_block_intercepts(direct, head, c.data());
    apart.add(w, split.row(0), c.data());
    if (t % 7 != 6 && t + 1 != rows.rows()) continue;
    apart.add_up(w);
    for (std::size_t i = 0; i < w.memory().size(); ++i) {
      const auto is = static_cast<double>(w.memory()[i]), should = static_cast<double>(direct.memory()[i]);
      EXPECT_NEAR(is, should, 1e-5 * (1 + std::abs(should))) << t << ' ' << i;
      largest = std::max(largest, std::abs(should));
    }
    for (std::size_t i = 0; i < w.intercept().size(); ++i)
      EXPECT_NEAR(static_cast<double>(w.intercept()[i]), static_cast<double>(direct.intercept()[i]), 1e-5);
  }
  EXPECT_GT(largest, 1);
}

TEST(BlocksApart, ScoresAndWeightsAreThoseOfW) {
  std::vector<FeatureId> all(kApartFeatures);
  for (std::size_t f = 0; f < kApartFeatures; ++f) all[f] = static_cast<FeatureId>(kApartFeatures - 1 - f);
  for (const bool scaled : {false, true})
    for (const bool intercept : {false, true})
      for (const std::vector<FeatureId>& some :
           {std::vector<FeatureId>{}, std::vector<FeatureId>{3}, std::vector<FeatureId>{70, 2, 41}, all})
        compare_apart({scaled, intercept, some});
}

// Until they are added up, W has only the rest.
TEST(BlocksApart, KeepsCommonFeaturesOutOfW) {
  Weights w(16, 3, true);
  const std::vector<FeatureId> common{1};
  BlocksApart apart(16, std::make_shared<SomeFeatures>(common, 3), true);
  const std::vector<FeatureId> index{0, 1};
  const std::vector<float> value{1, 2}, c(16, 0.5F);
  std::vector<float> z(16), b(16);
  SplitRows split;
  split.add({index, value}, apart.features());
  apart.start(w);
  apart.add(w, split.row(0), c.data());
  EXPECT_EQ(w.lane(5)[0], 0.5F);
  EXPECT_EQ(w.lane(5)[kLanes], 0);
  EXPECT_EQ(w.intercept()[5], 0);
  apart.add_up(w);
  apart.add_up(w);  // nothing is left
  EXPECT_EQ(w.lane(5)[kLanes], 1);
  EXPECT_EQ(w.intercept()[5], 0.5F);
}

// What another thread adds to W is seen from the next start on, and not lost; its own adds are seen at once.
TEST(BlocksApart, SeesOthersWhenItStarts) {
  Weights w(16, 2, false);
  const std::vector<FeatureId> common{1}, index{1};
  const std::vector<float> value{1}, one(16, 1.0F);
  BlocksApart apart(16, std::make_shared<SomeFeatures>(common, 2), false, 0);
  SplitRows split;
  split.add({index, value}, apart.features());
  std::vector<float> z(16), b(16);
  const auto score = [&] {
    apart.score(w, split.row(0), z.data(), b.data());
    return z[3];
  };
  apart.start(w);
  const std::vector<std::uint32_t> block{0};
  add_to_blocks(w, {index, value}, block, one.data());  // another thread
  EXPECT_EQ(score(), 0);
  apart.add(w, split.row(0), one.data());
  EXPECT_EQ(score(), 1);
  apart.add_up(w);
  EXPECT_EQ(w.lane(3)[kLanes], 2);
  apart.start(w);
  EXPECT_EQ(score(), 2);
}

}  // namespace
}  // namespace truemax
