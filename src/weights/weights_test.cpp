// W's layout: every weight has its own cell, padding is never written, memory is aligned and lazy.
#include "weights/weights.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "weights/kernels.hpp"
#include "weights/pairs.hpp"
#include "weights/test_support.hpp"

namespace truemax {
namespace {

constexpr std::size_t kClassCounts[] = {1, 2, 15, 16, 17, 33, 64};
constexpr std::size_t kFeatureCounts[] = {1, 3, 40};

// A number that identifies class and feature.
float mark(std::size_t k, std::size_t f) {
  return static_cast<float>(1 + k * 1000 + f);
}

Weights marked(std::size_t classes, std::size_t features) {
  Weights w(classes, features, true);
  std::vector<float> row(features);
  for (ClassId k = 0; k < classes; ++k) {
    for (std::size_t f = 0; f < features; ++f) row[f] = mark(k, f);
    w.set_class(k, row);
  }
  return w;
}

TEST(Weights, SettingABlockSetsItsClasses) {
  Engine random(11);
  for (const std::size_t classes : {1U, 16U, 21U}) {
    const Weights wanted = random_weights(random, classes, 7, false, 2);
    Weights w(classes, 7, false);
    for (std::size_t b = 0; b < w.blocks(); ++b) {
      std::vector<float> rows(kLanes * 7, 99.0F);  // values of padding classes must be ignored
      for (std::size_t lane = 0; lane < kLanes && b * kLanes + lane < classes; ++lane)
        wanted.copy_class(static_cast<ClassId>(b * kLanes + lane), std::span(rows).subspan(lane * 7, 7));
      w.set_block(b, rows);
    }
    EXPECT_EQ(all_cells(w), all_cells(wanted));
  }
}

TEST(Weights, StartAtZero) {
  for (const float v : all_cells(Weights(100, 50, true))) ASSERT_EQ(v, 0.0F);
}

TEST(Weights, CopyClassReturnsWhatSetClassStored) {
  for (const std::size_t classes : kClassCounts)
    for (const std::size_t features : kFeatureCounts) {
      const Weights w = marked(classes, features);
      std::vector<float> out(features);
      for (ClassId k = 0; k < classes; ++k) {
        w.copy_class(k, out);
        for (std::size_t f = 0; f < features; ++f)
          ASSERT_EQ(out[f], mark(k, f)) << classes << ' ' << k << ' ' << f;
      }
    }
}

TEST(Weights, AreStoredInBlocksOfSixteenClasses) {
  for (const std::size_t classes : kClassCounts) {
    const std::size_t features = 5;
    Weights w = marked(classes, features);
    ASSERT_EQ(w.blocks(), (classes + 15) / 16);
    for (ClassId k = 0; k < classes; ++k)
      for (std::size_t f = 0; f < features; ++f) {
        EXPECT_EQ(w.block(k / 16)[f * 16 + k % 16], mark(k, f));
        EXPECT_EQ(w.lane(k)[f * kLanes], mark(k, f));
        EXPECT_EQ(std::as_const(w).lane(k) + f * kLanes,
                  std::as_const(w).block(0) + (k / 16 * features + f) * 16 + k % 16);
      }
  }
}

TEST(Weights, PaddingStaysZero) {
  for (const std::size_t classes : kClassCounts) {
    if (classes < 2) continue;
    Weights w = marked(classes, 3);
    const std::vector<FeatureId> index{0, 2};
    const std::vector<float> value{1.5F, -2.0F};
    const RowView x{index, value};
    const auto last = static_cast<ClassId>(classes - 1);
    add<2>(w, x, {last, 0}, {1.0, -1.0});
    const PairPlace place{x, w.lane(last), w.lane(0)};
    const double c = 3;
    add_pairs(&place, 1, &c);
    for (std::size_t lane = classes; lane < w.blocks() * kLanes; ++lane) {
      EXPECT_EQ(w.intercept()[lane], 0.0F);
      for (std::size_t f = 0; f < 3; ++f) EXPECT_EQ(w.block(lane / kLanes)[f * kLanes + lane % kLanes], 0.0F);
    }
  }
}

TEST(Weights, InterceptIsAbsentOrPadded) {
  for (const std::size_t classes : kClassCounts) {
    EXPECT_EQ(Weights(classes, 2, true).intercept().size(), (classes + 15) / 16 * 16);
    EXPECT_TRUE(Weights(classes, 2, true).has_intercept());
    EXPECT_FALSE(Weights(classes, 2, false).has_intercept());
    EXPECT_TRUE(Weights(classes, 2, false).intercept().empty());
  }
}

TEST(Weights, BlocksAreAligned) {
  const auto address = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  for (const std::size_t features : {1U, 3U, 1000U}) {
    const Weights w(100, features, false);
    for (std::size_t b = 0; b < w.blocks(); ++b) EXPECT_EQ(address(w.block(b)) % 64, 0U);
  }
  for (const std::size_t features : {32768U, 32769U, 100000U})  // 2 MiB and more
    EXPECT_EQ(address(Weights(16, features, false).block(0)) % (1 << 21), 0U);
}

TEST(Weights, LargestIsTheLargestAbsoluteWeight) {
  for (const bool in_intercept : {false, true})
    for (ClassId k = 0; k < 19; ++k) {
      Weights w(19, 4, true);
      EXPECT_EQ(w.largest(), 0.0);
      w.lane(3)[kLanes] = -0.5F;
      w.intercept()[2] = 0.25F;
      EXPECT_EQ(w.largest(), 0.5);
      float& cell = in_intercept ? w.intercept()[k] : w.lane(k)[3 * kLanes];
      for (const float v :
           {1.5F, -1.5F, std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()}) {
        cell = v;
        EXPECT_EQ(w.largest(), std::abs(static_cast<double>(v)));
      }
    }
}

TEST(Weights, LargestIsInfiniteIfAWeightIsNotFinite) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinite, -kInfinite, std::numeric_limits<float>::quiet_NaN(), -std::nanf("")})
    for (const bool in_intercept : {false, true})
      for (ClassId k = 0; k < 19; ++k) {
        Weights w = marked(19, 4);
        (in_intercept ? w.intercept()[k] : w.lane(k)[2 * kLanes]) = bad;
        EXPECT_EQ(w.largest(), std::numeric_limits<double>::infinity())
            << bad << ' ' << in_intercept << ' ' << k;
      }
}

TEST(Weights, BytesNeededCountsWholeBlocks) {
  EXPECT_EQ(Weights::bytes_needed(1, 1), 64U);
  EXPECT_EQ(Weights::bytes_needed(16, 1), 64U);
  EXPECT_EQ(Weights::bytes_needed(17, 1), 128U);
  EXPECT_EQ(Weights::bytes_needed(2812281, 10000), 2812288ULL * 10000 * 4);
  EXPECT_EQ(Weights::bytes_needed(1ULL << 32, 1ULL << 29), 1ULL << 63);
}

TEST(Weights, BytesNeededSaturate) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(Weights::bytes_needed(1ULL << 32, 1ULL << 30), kMost);  // the product with 4 wraps to 0
  EXPECT_EQ(Weights::bytes_needed(1ULL << 32, 1ULL << 32), kMost);  // K D wraps to 0
  EXPECT_EQ(Weights::bytes_needed((1ULL << 32) + 16, (1ULL << 32) + 5), kMost);
  EXPECT_EQ(Weights::bytes_needed(16, kMost), kMost);
  EXPECT_EQ(Weights::bytes_needed(kMost / 2, kMost / 2), kMost);
}

TEST(Weights, BytesNeededSaturateWhenRoundingUpWraps) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t classes : {kMost, kMost - 1, kMost - 14, kMost - 15})
    EXPECT_EQ(Weights::bytes_needed(classes, 1), kMost) << classes;
}

std::uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(Weights, UnwrittenPagesCostNothing) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer has no room for 1 TiB of addresses";
#endif
  const std::uint64_t before = resident_bytes();
  Weights w(std::size_t{1} << 20, std::size_t{1} << 18, false);  // 1 TiB
  const ClassId last = (1U << 20) - 1;
  w.lane(0)[0] = 1;
  w.lane(last)[((std::size_t{1} << 18) - 1) * kLanes] = 2;
  EXPECT_EQ(w.lane(0)[0], 1.0F);
  EXPECT_EQ(w.lane(last)[((std::size_t{1} << 18) - 1) * kLanes], 2.0F);
  EXPECT_EQ(w.lane(last / 2)[77 * kLanes], 0.0F);
  EXPECT_LT(resident_bytes(), before + (64U << 20));
}

TEST(Weights, ThrowsBadAllocWithoutMemory) {
  EXPECT_THROW(Weights(std::size_t{1} << 26, std::size_t{1} << 22, false), std::bad_alloc);  // 1 PiB
}

TEST(Weights, MoveLeavesTheSourceEmpty) {
  Weights a = marked(20, 4);
  const float* cells = a.block(0);
  Weights b = std::move(a);
  EXPECT_EQ(b.block(0), cells);
  EXPECT_EQ(b.lane(19)[3 * kLanes], mark(19, 3));
  Weights c(2, 2, false);
  c = std::move(b);
  EXPECT_EQ(c.block(0), cells);
  EXPECT_EQ(c.classes(), 20U);
  EXPECT_EQ(c.lane(19)[3 * kLanes], mark(19, 3));
  HugeBuffer first(100), second = std::move(first);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): what is left is part of the contract
  EXPECT_NE(second.data(), nullptr);
}

TEST(Weights, FeaturesThatFitIsTheLargestPowerOfTwo) {
  for (const std::uint64_t classes : {2ULL, 16ULL, 17ULL, 100000ULL})
    for (const std::uint64_t bytes : {0ULL, 63ULL, 64ULL, 1000000ULL, 12345678901ULL}) {
      const std::uint64_t fit = Weights::features_that_fit(classes, bytes);
      if (fit == 0)
        EXPECT_GT(Weights::bytes_needed(classes, 1), bytes);
      else
        EXPECT_LE(Weights::bytes_needed(classes, fit), bytes);
      EXPECT_GT(Weights::bytes_needed(classes, fit == 0 ? 1 : 2 * fit), bytes);
      EXPECT_EQ(fit & (fit - 1), 0U);
    }
}

}  // namespace
}  // namespace truemax
