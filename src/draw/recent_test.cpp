#include "draw/recent.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "core/error.hpp"

namespace truemax {
namespace {

struct Kept {
  Kept(std::size_t classes, std::size_t size) : ring(size), count(classes) {}
  RecentLabels labels() { return {ring, count, seen}; }
  void add(ClassId y) {
    RecentLabels all = labels();
    all.add(y);
    seen = all.seen;
  }
  std::vector<std::int32_t> ring, count;
  std::uint64_t seen = 0;
};

std::uint64_t word_in(long double place) {
  return static_cast<std::uint64_t>(std::ldexp(place, 64));
}

TEST(RecentLabels, CountsAreThoseOfTheLastLabels) {
  constexpr std::size_t kClasses = 7, kSize = 10;
  Kept kept(kClasses, kSize);
  std::vector<ClassId> all;
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    all.push_back(static_cast<ClassId>(random() % kClasses));
    kept.add(all.back());
    std::vector<std::int32_t> wanted(kClasses);
    for (std::size_t j = all.size() - std::min(all.size(), kSize); j < all.size(); ++j) ++wanted[all[j]];
    ASSERT_EQ(kept.count, wanted);
  }
}

// Over all outcomes of the words: each class has mean weight 1, before and after the ring is full.
TEST(RecentLabels, ExpectedWeightIsOneByEnumeration) {
  constexpr std::size_t kClasses = 3;
  constexpr double kShare = 0.25;
  for (const std::size_t labels : {0U, 1U, 4U, 6U})
    for (const std::size_t draws : {1U, 2U}) {
      Kept kept(kClasses, 4);
      for (std::size_t i = 0; i < labels; ++i) kept.add(i % 3 == 0 ? 2 : 0);
      const std::size_t places = 12;  // a multiple of the classes and of every number of held labels
      std::vector<double> weight(kClasses);
      const std::size_t each = 2 * places, outcomes = draws == 1 ? each : each * each;
      double total = 0;
      for (std::size_t o = 0; o < outcomes; ++o) {
        std::vector<std::uint64_t> words;
        double probability = 1;
        for (std::size_t j = 0, rest = o; j < draws; ++j, rest /= each) {
          const bool uniform = rest % 2 == 0;
          words.push_back(word_in(uniform ? kShare / 2 : (1 + kShare) / 2));
          words.push_back(word_in((static_cast<long double>(rest / 2 % places) + 0.5L) / places));
          probability *= (uniform ? kShare : 1 - kShare) / static_cast<double>(places);
        }
        std::vector<ClassId> classes(draws);
        std::vector<double> weights(draws);
        const std::size_t count = kept.labels().draw(words, kShare, classes.data(), weights.data());
        ASSERT_LE(count, draws);
        total += probability;
        std::set<ClassId> seen;
        for (std::size_t j = 0; j < count; ++j) {
          ASSERT_TRUE(seen.insert(classes[j]).second);
          weight.at(classes[j]) += probability * weights[j];
        }
      }
      EXPECT_NEAR(total, 1, 1e-12);
      for (const double w : weight) EXPECT_NEAR(w, 1, 1e-12) << labels << " labels, " << draws << " draws";
    }
}

TEST(RecentLabels, RefusesARingThatDoesNotFitItsCounts) {
  Kept kept(3, 4);
  for (int i = 0; i < 4; ++i) kept.add(1);
  std::vector<ClassId> classes(1);
  std::vector<double> weights(1);
  for (const std::int32_t wrong : {-1, 3, std::numeric_limits<std::int32_t>::max(), 2}) {
    kept.ring.assign(4, wrong);
    std::vector<std::uint64_t> words{word_in(0.9L), word_in(0.5L)};
    EXPECT_THROW(kept.labels().draw(words, 0.1, classes.data(), weights.data()), UserError);
  }
}

}  // namespace
}  // namespace truemax
