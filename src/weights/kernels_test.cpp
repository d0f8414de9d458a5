// The feature loops of a step, against long double loops over dense rows.
#include "weights/kernels.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "weights/test_support.hpp"

namespace truemax {
namespace {

using Wide = long double;

struct Sum {
  Wide value = 0, sizes = 0;  // sum of the terms, and of their absolute values
  void add(Wide term) { value += term, sizes += std::abs(term); }
};

// x.w_k + intercept, from the weights that copy_class returns.
Sum slow_score(const Weights& w, RowView x, ClassId k) {
  std::vector<float> of_class(w.features());
  w.copy_class(k, of_class);
  Sum sum;
  if (w.has_intercept()) sum.add(static_cast<Wide>(w.intercept()[k]));
  for (std::size_t j = 0; j < x.index.size(); ++j)
    sum.add(static_cast<Wide>(x.value[j]) * static_cast<Wide>(of_class[x.index[j]]));
  return sum;
}

// Error bound of n additions in double, in any order.
double rounding(const Sum& sum, std::size_t terms) {
  return static_cast<double>(sum.sizes) * static_cast<double>(terms + 1) * 0x1p-53;
}

struct Case {
  double x_decades, w_decades;
  bool intercept;
};
constexpr Case kCases[] = {
    {0.5, 0.5, false}, {0.5, 0.5, true}, {30, 30, false}, {37, 37, true}, {1, 37, true}};

TEST(Kernels, ScoreIsTheDotProduct) {
  Engine random(1);
  for (const Case& c : kCases) {
    const Weights w = random_weights(random, 37, 60, c.intercept, c.w_decades);
    const Csr rows = random_rows(random, 100, 60, 30, c.x_decades);
    std::uniform_int_distribution<ClassId> any(0, 36);
    for (std::size_t i = 0; i < rows.rows(); ++i) {
      const RowView x = rows.row(i);
      const auto check = [&](double z, ClassId k) {
        const Sum slow = slow_score(w, x, k);
        ASSERT_TRUE(std::isfinite(z));
        EXPECT_LE(std::abs(static_cast<Wide>(z) - slow.value), rounding(slow, x.index.size()))
            << i << ' ' << k;
      };
      const std::array<ClassId, 5> k{any(random), any(random), any(random), 36, 0};
      for (const ClassId one : k) {
        check(score(w, x, one), one);
        check(scores<1>(w, x, {one})[0], one);
      }
      const auto two = scores<2>(w, x, {k[0], k[1]});
      for (std::size_t n = 0; n < 2; ++n) check(two[n], k[n]);
      const auto five = scores<5>(w, x, k);
      for (std::size_t n = 0; n < 5; ++n) check(five[n], k[n]);
    }
  }
}

TEST(Kernels, ScoreOfAnEmptyRowIsTheIntercept) {
  Engine random(2);
  const Weights with = random_weights(random, 20, 3, true, 1),
                without = random_weights(random, 20, 3, false, 1);
  for (ClassId k = 0; k < 20; ++k) {
    EXPECT_EQ(score(with, {}, k), static_cast<double>(with.intercept()[k]));
    EXPECT_EQ(scores<1>(with, {}, {k})[0], static_cast<double>(with.intercept()[k]));
    EXPECT_EQ(score(without, {}, k), 0.0);
    EXPECT_EQ(scores<1>(without, {}, {k})[0], 0.0);
  }
}

TEST(Kernels, ScoresOfFloatsNeverOverflow) {
  Weights w(2, 2, false);
  constexpr float kMost = std::numeric_limits<float>::max();
  w.set_class(0, std::vector{kMost, kMost});
  const std::vector<FeatureId> index{0, 1};
  const std::vector<float> value{kMost, -kMost};
  EXPECT_EQ(score(w, {index, value}, 0), 0.0);
  EXPECT_EQ((scores<2>(w, {index, value}, {0, 1})[0]), 0.0);
  EXPECT_EQ(score(w, {std::span(index).first(1), std::span(value).first(1)}, 0),
            static_cast<double>(kMost) * static_cast<double>(kMost));
}

// One weight after w += c x: within half an ulp of the exact sum. (It is rounded twice, to double and to
// float, so it need not be the nearest float.)
void expect_moved(float got, float old, double c, float x) {
  const Wide exact = static_cast<Wide>(old) + static_cast<Wide>(c) * static_cast<Wide>(x);
  EXPECT_LE(std::abs(static_cast<Wide>(got) - exact),
            0x1.00001p-24L * std::abs(exact) +
                0x1p-52L * std::abs(static_cast<Wide>(c) * static_cast<Wide>(x)) + 0x1p-149L);
}

template <std::size_t n>
void check_add(Engine& random, const Case& shape) {
  Weights w = random_weights(random, 37, 30, shape.intercept, shape.w_decades);
  const Csr rows = random_rows(random, 40, 30, 12, shape.x_decades);
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    const RowView x = rows.row(i);
    std::array<ClassId, n> k;
    std::array<double, n> c;
    for (std::size_t j = 0; j < n; ++j) {
      k[j] = static_cast<ClassId>((i * 5 + j * 7) % 37);  // all distinct
      c[j] = static_cast<double>(wide(random, std::min(3.0, shape.w_decades)));
    }
    const std::vector<float> before = all_cells(w);
    add<n>(w, x, k, c);
    std::vector<float> expected = before;  // cells that must not change
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t lane = static_cast<std::size_t>(w.lane(k[j]) - w.block(0));
      for (std::size_t f = 0; f < x.index.size(); ++f) {
        const std::size_t at = lane + x.index[f] * kLanes;
        expect_moved(w.block(0)[at], before[at], c[j], x.value[f]);
        expected[at] = w.block(0)[at];
      }
      if (!shape.intercept) continue;
      const std::size_t at = w.blocks() * w.features() * kLanes + k[j];
      expect_moved(w.intercept()[k[j]], before[at], c[j], 1);
      expected[at] = w.intercept()[k[j]];
    }
    const std::vector<float> after = all_cells(w);
    ASSERT_EQ(std::memcmp(after.data(), expected.data(), after.size() * sizeof(float)), 0) << n << ' ' << i;
  }
}

TEST(Kernels, AddChangesOnlyItsClassesAndFeatures) {
  Engine random(3);
  for (const Case& shape :
       {Case{0.5, 0.5, false}, Case{0.5, 0.5, true}, Case{30, 1, true}, Case{1, 30, false}}) {
    check_add<1>(random, shape);
    check_add<2>(random, shape);
    check_add<3>(random, shape);
  }
}

TEST(Kernels, AddOfAnEmptyRowChangesOnlyTheIntercept) {
  Weights w(3, 2, true);
  add<2>(w, {}, {0, 2}, {0.5, -0.25});
  EXPECT_EQ(w.intercept()[0], 0.5F);
  EXPECT_EQ(w.intercept()[1], 0.0F);
  EXPECT_EQ(w.intercept()[2], -0.25F);
  EXPECT_EQ(w.largest(), 0.5);
}

TEST(Kernels, SquaredNormCountsTheIntercept) {
  Engine random(4);
  for (const double decades : {0.5, 10.0, 37.0}) {
    const Csr rows = random_rows(random, 50, 100, 60, decades);
    for (std::size_t i = 0; i < rows.rows(); ++i)
      for (const bool intercept : {false, true}) {
        Sum slow;
        if (intercept) slow.add(1);
        for (const float v : rows.row(i).value) slow.add(static_cast<Wide>(v) * static_cast<Wide>(v));
        const double fast = squared_norm(rows.row(i), intercept);
        ASSERT_TRUE(std::isfinite(fast));
        EXPECT_LE(std::abs(static_cast<Wide>(fast) - slow.value), rounding(slow, rows.row(i).value.size()));
      }
  }
  EXPECT_EQ(squared_norm({}, false), 0.0);
  EXPECT_EQ(squared_norm({}, true), 1.0);
}

// The squared norm must be the change of a score by a unit coefficient.
TEST(Kernels, AddChangesTheScoreByCoefficientTimesNorm) {
  Engine random(5);
  for (const bool intercept : {false, true}) {
    Weights w(17, 50, intercept);
    const Csr rows = random_rows(random, 30, 50, 20, 0.5);
    for (std::size_t i = 0; i < rows.rows(); ++i) {
      const RowView x = rows.row(i);
      const ClassId k = static_cast<ClassId>(i % 17);
      const double before = score(w, x, k), norm = squared_norm(x, intercept);
      add<1>(w, x, {k}, {0.125});
      EXPECT_NEAR(score(w, x, k) - before, 0.125 * norm, 1e-6 * (1 + norm) * (1 + std::abs(before)));
    }
  }
}

}  // namespace
}  // namespace truemax
