// The vectorised pieces of the pass, on every instruction set of this machine.
#include "weights/tile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "weights/kernels.hpp"
#include "weights/test_support.hpp"

namespace truemax {
namespace {

constexpr double kLowestInTile = std::numeric_limits<double>::lowest();
constexpr double kUntouched = 12345;

std::uint64_t bits(double v) {
  std::uint64_t b = 0;
  std::memcpy(&b, &v, sizeof b);
  return b;
}

TEST(ScoreTile, MatchesScoreBitForBit) {
  ASSERT_FALSE(instruction_sets().empty());
  for (const double decades : {0.5, 8.0, 37.0})
    for (const int kind : {0, 1, 2, 3}) {
      const bool intercept = kind % 2 == 1, scaled = kind >= 2;
      Engine random(1);
      Weights w = random_weights(random, 37, 50, intercept, decades);
      if (scaled) {
        w.allow_scaling();
        for (ClassId k = 0; k < 37; k += 2) w.scale_class(k, 0.7 / (1 + k));
        w.scale_all(0.9);
      }
      const Csr rows = random_rows(random, 70, 50, 30, decades);
      for (const std::int64_t target : instruction_sets()) {
        const OnInstructionSet here(target);
        for (const std::size_t first : {0U, 3U}) {
          const std::size_t count = 64;
          std::vector<double> tile((count + 1) * kLanes, kUntouched);
          for (std::size_t b = 0; b < w.blocks(); ++b) {
            score_tile(rows.view(), first, count, w.block(b), TileStart(w, b), tile.data());
            for (std::size_t r = 0; r < count; ++r)
              for (std::size_t lane = 0; lane < kLanes && b * kLanes + lane < 37; ++lane)
                ASSERT_EQ(bits(tile[r * kLanes + lane]),
                          bits(score(w, rows.row(first + r), static_cast<ClassId>(b * kLanes + lane))))
                    << instruction_set_name(target) << " row " << r << " lane " << lane;
            for (std::size_t lane = 0; lane < kLanes; ++lane)
              ASSERT_EQ(tile[count * kLanes + lane], kUntouched);
            std::vector<double> alone(2 * kLanes, kUntouched);
            for (std::size_t r = 0; r < count; ++r) {
              score_row(rows.row(first + r), w.block(b), TileStart(w, b), alone.data());
              for (std::size_t lane = 0; lane < kLanes; ++lane) {
                ASSERT_EQ(bits(alone[lane]), bits(tile[r * kLanes + lane])) << instruction_set_name(target);
                ASSERT_EQ(alone[kLanes + lane], kUntouched);
              }
            }
          }
        }
      }
    }
}

// Running log-sum-exp of one row, tile by tile, beside the same in long double over all scores.
struct Running {
  std::vector<double> highest{kLowestInTile}, sum{0.0};
  std::vector<long double> seen;

  // Adds 16 scores of which the first `lanes` count.
  void add(std::vector<double> z, std::size_t lanes) {
    for (std::size_t i = 0; i < lanes; ++i) seen.push_back(static_cast<long double>(z[i]));
    double tile_highest = kUntouched;
    accumulate_tile(z.data(), 1, lanes, highest.data(), sum.data(), &tile_highest);
    EXPECT_EQ(tile_highest, *std::max_element(z.begin(), z.begin() + static_cast<std::ptrdiff_t>(lanes)));
    for (std::size_t lane = lanes; lane < kLanes; ++lane) EXPECT_EQ(z[lane], kLowestInTile);
  }
  void check(const std::string& what) const {
    const long double most = *std::max_element(seen.begin(), seen.end());
    EXPECT_EQ(static_cast<long double>(highest[0]), most) << what;
    long double total = 0;
    for (const long double z : seen) total += std::exp(z - most);
    // Highway's exp is within one ulp; a tile adds a rounding or two to each term.
    EXPECT_NEAR(sum[0] / static_cast<double>(total), 1,
                1e-15 * (4 + static_cast<double>(seen.size() / kLanes)))
        << what;
  }
};

class AccumulateTile : public testing::Test {
 protected:
  // Runs `scene` on every instruction set.
  template <class Scene>
  void everywhere(Scene scene) {
    for (const std::int64_t target : instruction_sets()) {
      SCOPED_TRACE(instruction_set_name(target));
      const OnInstructionSet here(target);
      scene();
    }
  }
};

TEST_F(AccumulateTile, IsLogSumExpInAnyOrder) {
  everywhere([] {
    Engine random(2);
    std::normal_distribution<double> normal;
    for (const double spread : {0.01, 1.0, 30.0, 1000.0})
      for (int order = 0; order < 3; ++order) {
        Running running;
        for (int tile = 0; tile < 50; ++tile) {
          std::vector<double> z(kLanes);
          for (double& v : z) v = spread * normal(random);
          if (order == 1)
            for (double& v : z) v += spread * tile;  // the highest score rises with every tile
          if (order == 2)
            for (double& v : z) v -= spread * tile;
          running.add(z, kLanes);
          running.check("spread " + std::to_string(spread) + " tile " + std::to_string(tile));
        }
      }
  });
}

TEST_F(AccumulateTile, IgnoresMaskedLanes) {
  everywhere([] {
    for (std::size_t lanes = 1; lanes <= kLanes; ++lanes)
      for (const double garbage : {0.0, 1e308, -1e308, std::numeric_limits<double>::infinity(),
                                   -std::numeric_limits<double>::infinity(), std::nan("")}) {
        Running running;
        std::vector<double> z(kLanes, garbage);
        for (std::size_t i = 0; i < lanes; ++i) z[i] = static_cast<double>(i) / 3 - 7;
        running.add(z, lanes);
        running.check("lanes " + std::to_string(lanes));
        for (std::size_t i = 0; i < lanes; ++i) z[i] = 5 - static_cast<double>(i);
        running.add(z, lanes);
        running.check("lanes " + std::to_string(lanes) + ", second tile");
      }
  });
}

TEST_F(AccumulateTile, CountsEqualScores) {
  everywhere([] {
    for (const double z : {0.0, -0.0, 1.0, -745.2, 1e300, -1e300}) {
      Running running;
      for (int tile = 1; tile <= 20; ++tile) {
        running.add(std::vector<double>(kLanes, z), kLanes);
        EXPECT_EQ(running.highest[0], z);
        EXPECT_EQ(running.sum[0], 16.0 * tile);
      }
    }
  });
}

TEST_F(AccumulateTile, HandlesScoresBeyondTheRangeOfExp) {
  everywhere([] {
    for (const double low : {-1e300, -1e6, -800.0, 0.0})
      for (const double high : {1e300, 1e6, 800.0}) {
        for (const bool rising : {false, true}) {
          Running running;
          running.add(std::vector<double>(kLanes, rising ? low : high), 3);
          running.check("first");
          std::vector<double> mixed(kLanes, low);
          mixed[5] = high;
          running.add(mixed, kLanes);
          running.check("mixed");
          running.add(std::vector<double>(kLanes, rising ? high : low), kLanes);
          running.check("last");
          EXPECT_TRUE(std::isfinite(running.sum[0]));
        }
      }
  });
}

// Differences where exp becomes denormal, and where it becomes zero.
TEST_F(AccumulateTile, IsContinuousWhereExpUnderflows) {
  everywhere([] {
    for (double gap = 690; gap < 1010; gap += 0.5) {
      Running running;
      std::vector<double> z(kLanes, -gap);
      running.add(z, kLanes);
      z[0] = 0;
      running.add(z, kLanes);
      EXPECT_EQ(running.highest[0], 0.0);
      EXPECT_EQ(running.sum[0], 1.0) << gap;
    }
  });
}

TEST_F(AccumulateTile, RowsAreIndependent) {
  everywhere([] {
    Engine random(3);
    std::normal_distribution<double> normal;
    const std::size_t count = 7;
    std::vector<double> tile((count + 1) * kLanes), highest(count + 1, kLowestInTile), sum(count + 1, 0.0),
        tile_highest(count + 1, kUntouched);
    for (double& v : tile) v = 5 * normal(random);
    const std::vector<double> before = tile;
    accumulate_tile(tile.data(), count, 11, highest.data(), sum.data(), tile_highest.data());
    for (std::size_t r = 0; r < count; ++r) {
      Running alone;
      alone.add({before.begin() + static_cast<std::ptrdiff_t>(r * kLanes),
                 before.begin() + static_cast<std::ptrdiff_t>((r + 1) * kLanes)},
                11);
      EXPECT_EQ(bits(alone.sum[0]), bits(sum[r]));
      EXPECT_EQ(bits(alone.highest[0]), bits(highest[r]));
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      EXPECT_EQ(tile[count * kLanes + lane], before[count * kLanes + lane]);
    EXPECT_EQ(highest[count], kLowestInTile);
    EXPECT_EQ(sum[count], 0.0);
    EXPECT_EQ(tile_highest[count], kUntouched);
  });
}

TEST(AddTile, MatchesTheScalarSumBitForBit) {
  for (const double decades : {0.5, 8.0}) {
    Engine random(9);
    const Weights before = random_weights(random, 32, 40, false, decades);
    const Csr rows = random_rows(random, 20, 40, 25, decades);
    std::array<double, kLanes> c;
    for (double& v : c) v = static_cast<double>(wide(random, decades)) / 3;
    for (const std::int64_t target : instruction_sets()) {
      const OnInstructionSet here(target);
      for (std::size_t r = 0; r < rows.rows(); ++r) {
        const RowView x = rows.row(r);
        std::vector<float> cells = all_cells(before), wanted = cells;
        Weights w = random_weights(random, 32, 40, false, 0);
        std::copy(cells.begin(), cells.end(), w.block(0));
        for (std::size_t j = 0; j < x.index.size(); ++j)
          for (std::size_t lane = 0; lane < kLanes; ++lane) {
            float& cell = wanted[(40 + x.index[j]) * kLanes + lane];  // of block 1
            cell = static_cast<float>(static_cast<double>(cell) + c[lane] * static_cast<double>(x.value[j]));
          }
        add_tile(x, c.data(), w.block(1));
        ASSERT_EQ(all_cells(w), wanted) << instruction_set_name(target) << " row " << r;
      }
    }
  }
}

TEST(TileTarget, ForcedTargetIsTheOnlyOneUntilReleased) {
  const std::vector<std::int64_t> all = instruction_sets();
  for (const std::int64_t target : all) {
    const OnInstructionSet here(target);
    EXPECT_EQ(instruction_sets(), std::vector{target});
  }
  EXPECT_EQ(instruction_sets(), all);
}

TEST(Tile, LogIsWithinItsStatedError) {
  std::mt19937_64 random(8);
  std::uniform_real_distribution<double> exponent(0, 60), near(1, 1.01);
  std::vector<double> x{1.0, std::nextafter(1.0, 2.0), 2.0, 1e300};
  for (int i = 0; i < 5000; ++i) x.push_back(std::exp(exponent(random))), x.push_back(near(random));
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet here(target);
    for (const std::size_t count : {x.size(), x.size() - 3, std::size_t{1}}) {
      std::vector<double> found(count, -1.0);
      logs_of(x.data(), count, found.data());
      EXPECT_EQ(found[0], 0.0);
      for (std::size_t i = 0; i < count; ++i) {
        const double exact = std::log(x[i]);
        EXPECT_GE(found[i], 0.0);
        EXPECT_NEAR(found[i], exact, 1e-15 * (1 + exact)) << instruction_set_name(target) << ' ' << x[i];
      }
    }
  }
}

}  // namespace
}  // namespace truemax
