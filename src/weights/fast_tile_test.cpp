// The vectorised pieces of the pass in float32, on every instruction set of this machine.
#include "weights/fast_tile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "weights/kernels.hpp"
#include "weights/test_support.hpp"

namespace truemax {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(FastTile, MatchesDouble) {
  constexpr std::size_t kClasses = 120, kFeatures = 50, kRows = 40;
  for (const int kind : {0, 1, 2, 3}) {
    Engine random(1);
    Weights w = random_weights(random, kClasses, kFeatures, kind % 2 == 1, 0.3);
    if (kind >= 2) {
      w.allow_scaling();
      for (ClassId k = 0; k < kClasses; ++k) w.scale_class(k, 1.0 / (1 + k % 3));
    }
    const Csr rows = random_rows(random, kRows, kFeatures, 30, 0.3);
    for (const std::int64_t target : instruction_sets()) {
      const OnInstructionSet here(target);
      SCOPED_TRACE(instruction_set_name(target));
      std::vector<float> highest(kRows, kLowest), threshold(kRows, kLowest), absolute(kRows);
      std::vector<double> sum(kRows);
      std::vector<long double> total(kRows);
      std::vector<double> most(kRows, -1e300);
      // Blocks 0-3 together, 4 and 5, 6, and 7, half of which is padding.
      for (const auto& [first, count] :
           {std::pair(0U, 4U), std::pair(4U, 2U), std::pair(6U, 1U), std::pair(7U, 1U)}) {
        alignas(64) std::array<float, kRows * kFastBlocks * kLanes> z;
        std::array<std::uint32_t, kRows> hit{};
        std::array<std::uint64_t, kRows> lanes{};
        FastHits hits{.count = 0, .row = hit.data(), .lanes = lanes.data()};
        const std::vector<float> before = threshold;
        fast_tile(rows.view(), 0, kRows, w.block(first), count, kFeatures, FastStart(w, first, count),
                  z.data(), absolute.data(), highest.data(), sum.data(), threshold.data(), hits);
        std::size_t expected_hits = 0;
        for (std::size_t r = 0; r < kRows; ++r) {
          double size = 0, best = -1e300;
          std::uint64_t above = 0;
          for (const float v : rows.row(r).value) size += std::abs(static_cast<double>(v));
          EXPECT_NEAR(static_cast<double>(absolute[r]), size, 1e-5 * size);
          for (std::size_t lane = 0; lane < count * kLanes; ++lane) {
            const std::size_t k = first * kLanes + lane;
            const float found = z[r * count * kLanes + lane];
            if (k >= kClasses) {
              EXPECT_EQ(found, -kInfinity);
              continue;
            }
            const double exact = score(w, rows.row(r), static_cast<ClassId>(k));
            EXPECT_NEAR(static_cast<double>(found), exact, 1e-6 * (2 + 2 * size));
            best = std::max(best, static_cast<double>(found));
            if (found > before[r]) above |= std::uint64_t{1} << lane;
            total[r] += std::exp(static_cast<long double>(exact));
          }
          most[r] = std::max(most[r], best);
          EXPECT_EQ(static_cast<double>(highest[r]), most[r]);
          const auto all = static_cast<double>(std::log(total[r]));
          EXPECT_NEAR(most[r] + std::log(sum[r]), all, 1e-6 * (2 + 2 * size));
          if (above == 0) continue;
          ASSERT_LT(expected_hits, hits.count);
          EXPECT_EQ(hit[expected_hits], r);
          EXPECT_EQ(lanes[expected_hits++], above);
        }
        EXPECT_EQ(expected_hits, hits.count);
        for (std::size_t r = 0; r < kRows; ++r) threshold[r] = highest[r] - (r % 2 == 0 ? 0.5F : 0.0F);
      }
    }
  }
}

TEST(FastTile, SumsAndOrdersFewClassesByTheGap) {
  constexpr std::size_t kFeatures = 50;
  Engine random(4);
  for (const std::size_t classes : {1U, 2U, 5U, 6U, 10U, 16U})
    for (const std::size_t count : {1U, 17U, 32U}) {
      const Weights w = random_weights(random, classes, kFeatures, true, 0.3);
      const Csr rows = random_rows(random, count + 1, kFeatures, 30, 0.3);
      const std::size_t top = std::min(classes, kFastFewTop);
      for (const std::int64_t target : instruction_sets()) {
        const OnInstructionSet here(target);
        SCOPED_TRACE(instruction_set_name(target));
        FastFew few;
        fast_few(rows.view(), 1, count, w.block(0), kFeatures, FastStart(w, 0, 1), classes, top, few);
        std::size_t sure = 0;
        for (std::size_t r = 0; r < count; ++r) {
          double size = 0, sum = 0, gap = 1e300;
          for (const float v : rows.row(r + 1).value) size += std::abs(static_cast<double>(v));
          EXPECT_NEAR(static_cast<double>(few.absolute[r]), size, 1e-5 * size);
          std::vector<double> z(classes);
          for (std::size_t k = 0; k < classes; ++k) {
            z[k] = static_cast<double>(few.z[r * kLanes + k]);
            EXPECT_NEAR(z[k], score(w, rows.row(r + 1), static_cast<ClassId>(k)), 1e-6 * (2 + 2 * size));
          }
          std::vector<std::size_t> order(classes);
          std::iota(order.begin(), order.end(), std::size_t{0});
          std::stable_sort(order.begin(), order.end(),
                           [&](std::size_t a, std::size_t b) { return z[a] > z[b]; });
          double bound = 0;
          for (const double v : z) sum += std::exp(v - z[order[0]]), bound = std::max(bound, std::abs(v));
          EXPECT_NEAR(static_cast<double>(few.sum[r]), sum, 1e-6 * sum);
          for (std::size_t t = 0; t < top && t + 1 < classes; ++t)
            gap = std::min(gap, z[order[t]] - z[order[t + 1]]);
          const double cut = kFastFewCut * bound;
          if (gap < 1e300) {
            EXPECT_NEAR(static_cast<double>(few.gap[r]), gap, 2 * cut);
          }
          if (!(static_cast<double>(few.gap[r]) > cut)) continue;
          ++sure;
          for (std::size_t t = 0; t < top; ++t)
            EXPECT_EQ(static_cast<std::size_t>(few.best[t * kFastFewRows + r]), order[t]);
        }
        EXPECT_GT(2 * sure, count);  // the order is certain for most rows
      }
    }
}

TEST(FastTile, ExpIsWithinItsStatedError) {
  std::vector<float> x{0.0F, -0.0F, -1e-30F, -86.0F, -86.59F, -87.0F, -1e3F, -1e30F, -kInfinity};
  for (float v = -1e-7F; v > -86; v = v * 1.0003F - 1e-4F) x.push_back(v);
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet here(target);
    std::vector<float> e(x.size());
    fast_exp(x.data(), x.size(), e.data());
    EXPECT_EQ(e[0], 1.0F);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i])), found = static_cast<double>(e[i]);
      if (x[i] >= -86)
        EXPECT_NEAR(found / exact, 1, 3e-7 + 8e-8 * std::abs(static_cast<double>(x[i])))
            << instruction_set_name(target) << " exp(" << x[i] << ")";
      else
        EXPECT_TRUE(found >= 0 && found <= 1e-37) << instruction_set_name(target) << " exp(" << x[i] << ")";
    }
  }
}

TEST(FastTile, LanesAreSortedByFallingScore) {
  Engine random(2);
  std::uniform_int_distribution<int> few(-3, 3);
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet here(target);
    for (const std::size_t real : {1U, 2U, 9U, 15U, 16U})
      for (int round = 0; round < 200; ++round) {
        std::array<float, kLanes> z;
        z.fill(-kInfinity);
        for (std::size_t i = 0; i < real; ++i)  // every other round has ties
          z[i] = round % 2 == 0 ? wide(random, 3) : static_cast<float>(few(random));
        std::array<std::uint8_t, kLanes> found{};
        order_lanes(z.data(), real, found.data());
        std::vector<std::uint8_t> wanted(real);
        std::iota(wanted.begin(), wanted.end(), std::uint8_t{0});
        std::stable_sort(wanted.begin(), wanted.end(),
                         [&](std::uint8_t a, std::uint8_t b) { return z[a] > z[b]; });
        ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), found.begin())) << instruction_set_name(target);
      }
  }
}

TEST(FastTile, LargestAbsoluteSeesEveryLaneAndNonFinites) {
  Engine random(3);
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet here(target);
    EXPECT_EQ(largest_absolute(nullptr, 0), 0.0F);
    for (const std::size_t count : {1U, 15U, 16U, 40U, 77U})
      for (std::size_t at = 0; at < count; ++at)
        for (const float v : {-7.0F, 3e38F, -1e-40F, kInfinity, -std::numeric_limits<float>::quiet_NaN()}) {
          std::vector<float> numbers(count, std::abs(v) < 1 ? 0.0F : -1.0F);
          numbers[at] = v;
          EXPECT_EQ(largest_absolute(numbers.data(), count), std::isfinite(v) ? std::abs(v) : kInfinity)
              << instruction_set_name(target) << " " << v;
        }
  }
}

}  // namespace
}  // namespace truemax
