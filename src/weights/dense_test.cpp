// Dense kernels against the obvious loops in double, on every instruction set.
#include "weights/dense.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "weights/embedding.hpp"
#include "weights/test_support.hpp"

namespace truemax {
namespace {

std::vector<float> random_numbers(std::size_t count, std::uint64_t seed, float scale = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& v : out) v = scale * normal(random);
  return out;
}

double element(const Factor& f, std::size_t r, std::size_t c) {
  return static_cast<double>(f.transposed ? f.of.row(c)[r] : f.of.row(r)[c]);
}

TEST(DenseProduct, AgreesWithTheLoopsForAnyShapeAndOrder) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet on(target);
    SCOPED_TRACE(instruction_set_name(target));
    struct Sizes {
      std::size_t rows, depth, columns;
    };
    for (const Sizes s : {Sizes{1, 1, 1}, Sizes{7, 3, 5}, Sizes{8, 256, 32}, Sizes{65, 257, 33},
                          Sizes{9, 600, 70}, Sizes{5, 0, 7}})
      for (const bool left : {false, true})
        for (const bool right : {false, true})
          for (const bool gathered : {false, true}) {
            const auto numbers_a = random_numbers(2 * s.rows * s.depth + 64, 1);
            const auto numbers_b = random_numbers(2 * s.depth * s.columns + 64, 2);
            // Memory rows of a are its rows, or its columns if it is transposed; a gathered one skips some.
            const std::size_t ra = left ? s.depth : s.rows, ca = left ? s.rows : s.depth;
            const std::size_t rb = right ? s.columns : s.depth, cb = right ? s.depth : s.columns;
            std::vector<std::uint32_t> ia(ra), ib(rb);
            for (std::size_t i = 0; i < ra; ++i) ia[i] = static_cast<std::uint32_t>(2 * (ra - 1 - i));
            for (std::size_t i = 0; i < rb; ++i) ib[i] = static_cast<std::uint32_t>(2 * i);
            const Factor a{{numbers_a.data(), ra, ca, ca, gathered && ra > 1 ? ia.data() : nullptr}, left};
            const Factor b{{numbers_b.data(), rb, cb, cb, gathered && rb > 1 ? ib.data() : nullptr}, right};
            std::vector<float> bits;
            for (const std::size_t threads : {1U, 3U}) {
              Team team(threads);
              DenseProduct product;
              const std::size_t stride = s.columns + 3;
              std::vector<float> out(s.rows * stride, -1.0F);
              product.multiply(a, b, out.data(), stride, team);
              for (std::size_t r = 0; r < s.rows; ++r) {
                for (std::size_t c = 0; c < s.columns; ++c) {
                  double sum = 0, size = 0;
                  for (std::size_t k = 0; k < s.depth; ++k) {
                    sum += element(a, r, k) * element(b, k, c);
                    size += std::abs(element(a, r, k) * element(b, k, c));
                  }
                  ASSERT_NEAR(static_cast<double>(out[r * stride + c]), sum, 1e-6 * size + 1e-30)
                      << s.rows << "x" << s.depth << "x" << s.columns << " at " << r << ", " << c;
                }
                for (std::size_t c = s.columns; c < stride; ++c)
                  ASSERT_EQ(out[r * stride + c], -1.0F) << "beyond the row";
              }
              if (bits.empty()) bits = out;
              EXPECT_EQ(out, bits) << "depends on the threads";
            }
          }
  }
}

// The left factor comes a few columns at a time, the right one in pieces, and the product in groups of rows.
TEST(DenseProduct, InPartsHasTheBitsOfTheWhole) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet on(target);
    SCOPED_TRACE(instruction_set_name(target));
    for (const std::size_t rows : {1U, 8U, 83U})
      for (const std::size_t depth : {0U, 1U, 300U}) {
        const std::size_t columns = 70;
        const auto numbers_a = random_numbers(rows * depth, 1),
                   numbers_b = random_numbers(depth * columns, 2);
        const DenseRows transpose{numbers_a.data(), depth, rows, rows};
        std::vector<float> by_row(rows * depth);
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t k = 0; k < depth; ++k) by_row[r * depth + k] = numbers_a[k * rows + r];
        const Factor a{transpose, true}, in_place{{by_row.data(), rows, depth, depth}, false};
        const Factor b{{numbers_b.data(), depth, columns, columns}, false};
        Team team(1);
        DenseProduct product;
        std::vector<float> at_once(rows * columns), of_factor(rows * columns), of_panels(rows * columns);
        product.multiply(a, b, at_once.data(), columns, team);
        LeftPanels panels;
        panels.start(rows, depth);
        product.start(depth, columns);
        for (std::size_t k = 0; k < depth; k += 7) {
          const std::size_t end = std::min(depth, k + 7);
          panels.pack(transpose, k, end);
          product.pack(b, 0, 32, k, end);
          product.pack(b, 32, columns, k, end);
        }
        for (std::size_t first = 0; first < rows; first += 16) {
          const std::size_t end = std::min(rows, first + 16);
          product.multiply_rows(in_place, first, end, of_factor.data(), columns, 0);
          product.multiply_rows(panels, first, end, of_panels.data(), columns);
        }
        EXPECT_EQ(of_factor, at_once) << rows << "x" << depth;
        EXPECT_EQ(of_panels, at_once) << rows << "x" << depth;
      }
  }
}

TEST(LeftPanels, SumTheirRowsInDoublePiecewise) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet on(target);
    SCOPED_TRACE(instruction_set_name(target));
    const std::size_t rows = 13, depth = 45, each = 20;
    const auto numbers = random_numbers(rows * depth, 3);
    LeftPanels panels;
    panels.start(rows, depth);
    panels.pack({numbers.data(), depth, rows, rows}, 0, depth);
    std::vector<double> sums(rows + 1, -1.0);
    for (std::size_t first = 0; first < rows; first += LeftPanels::kRows)
      panels.sum_rows(first, each, sums.data() + first);
    for (std::size_t r = 0; r < rows; ++r) {
      double total = 0;
      for (std::size_t from = 0; from < depth; from += each) {
        double sum = 0;
        for (std::size_t k = from; k < std::min(depth, from + each); ++k)
          sum += static_cast<double>(numbers[k * rows + r]);
        total += sum;
      }
      EXPECT_EQ(sums[r], total) << r;
    }
    EXPECT_EQ(sums[rows], -1.0) << "beyond the last row";
  }
}

TEST(DenseRow, SumsAndProductsAgreeWithTheLoops) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet on(target);
    SCOPED_TRACE(instruction_set_name(target));
    for (const std::size_t n : {1U, 15U, 16U, 31U, 64U, 257U}) {
      const auto x = random_numbers(n, 3), y = random_numbers(n, 4);
      double wanted = 0, size = 0;
      for (std::size_t i = 0; i < n; ++i) {
        wanted += static_cast<double>(x[i]) * static_cast<double>(y[i]);
        size += std::abs(static_cast<double>(x[i]) * static_cast<double>(y[i]));
      }
      EXPECT_NEAR(static_cast<double>(dot(x.data(), y.data(), n)), wanted, 1e-6 * size);
      auto sum = y;
      add_scaled(sum.data(), x.data(), 0.3F, n);
      for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(sum[i], y[i] + 0.3F * x[i], 1e-6F);
      auto scaled = x;
      const double total = scale_row(scaled.data(), n, -2.5F);
      double of_scaled = 0;
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_FLOAT_EQ(scaled[i], -2.5F * x[i]);
        of_scaled += static_cast<double>(scaled[i]);
      }
      EXPECT_NEAR(total, of_scaled, 1e-5 * static_cast<double>(n));
    }
  }
}

TEST(ExpScores, AgreeWithDoublesAlsoFarApart) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet on(target);
    SCOPED_TRACE(instruction_set_name(target));
    for (const float scale : {1e-3F, 1.0F, 30.0F, 1e4F})
      for (const std::size_t n : {1U, 5U, 16U, 40U, 100U})
        for (const std::size_t own : {std::size_t{0}, n / 2, n}) {
          const auto z = random_numbers(n, n, scale), offset = random_numbers(n, n + 1, scale);
          const float label = 0.7F * scale;
          auto p = z;
          float highest = 0;
          const double log_sum = exp_scores(p.data(), offset.data(), n, label, own, &highest);
          double most = -std::numeric_limits<double>::infinity(), sum = 0;
          const auto t = [&](std::size_t i) {
            return static_cast<double>(z[i]) + static_cast<double>(offset[i]) - static_cast<double>(label);
          };
          for (std::size_t i = 0; i < n; ++i)
            if (i != own) most = std::max(most, t(i));
          for (std::size_t i = 0; i < n; ++i)
            if (i != own) sum += std::exp(t(i) - most);
          if (n == 1 && own == 0) {
            EXPECT_EQ(log_sum, -std::numeric_limits<double>::infinity());
            EXPECT_EQ(p[0], 0.0F);
            continue;
          }
          const double rounding = 4e-7 * static_cast<double>(scale) * 4 + 2e-6;
          EXPECT_NEAR(log_sum, most + std::log(sum), rounding) << scale << " " << n << " " << own;
          for (std::size_t i = 0; i < n; ++i)
            EXPECT_NEAR(static_cast<double>(p[i]),
                        i == own ? 0.0 : std::exp(t(i) - static_cast<double>(highest)), rounding);
        }
  }
}

TEST(RmsStep, AgreesWithDoublesAndNeverMovesFurtherThanItsBound) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet on(target);
    SCOPED_TRACE(instruction_set_name(target));
    constexpr float kRate = 0.01F, kKeep = 0.999F;
    for (const std::size_t n : {1U, 16U, 37U})
      for (const float scale : {0.0F, 1e-18F, 1e-3F, 1.0F, 1e18F}) {
        auto w = random_numbers(n, 5), v = random_numbers(n, 6);
        for (float& s : v) s = std::abs(s) * scale * scale;
        const auto g = random_numbers(n, 7, scale);
        auto before = w;
        const auto square = v;
        rms_step(w.data(), v.data(), g.data(), n, kRate, kKeep);
        for (std::size_t i = 0; i < n; ++i) {
          const double keep = static_cast<double>(kKeep), gradient = static_cast<double>(g[i]);
          const double next = keep * static_cast<double>(square[i]) + (1 - keep) * gradient * gradient;
          EXPECT_NEAR(static_cast<double>(v[i]), next, 1e-5 * next + 1e-37);
          const double move = static_cast<double>(kRate) * gradient / (std::sqrt(next) + 1e-8);
          EXPECT_NEAR(static_cast<double>(w[i]), static_cast<double>(before[i]) - move,
                      1e-5 * (1 + std::abs(move)));
          EXPECT_LE(std::abs(w[i] - before[i]), 1.001F * kRate / std::sqrt(1 - kKeep));
          EXPECT_TRUE(std::isfinite(w[i]) && std::isfinite(v[i]));
        }
      }
  }
}

TEST(RmsRowStep, HasOneMeanForTheRow) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet on(target);
    SCOPED_TRACE(instruction_set_name(target));
    for (const std::size_t n : {1U, 15U, 33U, 64U})
      for (const float scale : {0.0F, 1e-15F, 1.0F, 1e15F}) {
        const auto g = random_numbers(n, 21, scale), before = random_numbers(n, 22);
        auto w = before;
        float v = 0.25F;
        rms_row_step(w.data(), &v, g.data(), n, 0.1F, 0.9F);
        double mean = 0;
        for (const float x : g)
          mean += static_cast<double>(x) * static_cast<double>(x) / static_cast<double>(n);
        const double next = 0.9 * 0.25 + 0.1 * mean;
        EXPECT_NEAR(static_cast<double>(v), next, 1e-5 * next);
        for (std::size_t i = 0; i < n; ++i) {
          const double move = 0.1 * static_cast<double>(g[i]) / (std::sqrt(next) + 1e-8);
          EXPECT_NEAR(static_cast<double>(w[i]), static_cast<double>(before[i]) - move,
                      1e-5 * (1 + std::abs(move)));
          EXPECT_TRUE(std::isfinite(w[i]));
        }
      }
  }
}

TEST(RowKernels, AgreeWithTheLoops) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet on(target);
    SCOPED_TRACE(instruction_set_name(target));
    for (const std::size_t n : {1U, 15U, 16U, 33U, 64U})
      for (const float scale : {1e-20F, 1.0F, 1e4F, 1e30F}) {
        const auto x = random_numbers(n, 11, scale), y = random_numbers(n, 12),
                   z = random_numbers(n, 13, scale);
        auto sum = z, t = x, g = y, kept = x;
        add_product(sum.data(), x.data(), y.data(), n);
        tanh_row(t.data(), z.data(), n);
        const auto slope = g;
        tanh_slope(g.data(), t.data(), n);
        std::vector<std::uint8_t> keep(n);
        for (std::size_t i = 0; i < n; ++i) keep[i] = static_cast<std::uint8_t>(i % 3);
        keep_some(kept.data(), keep.data(), 1.25F, n);
        for (std::size_t i = 0; i < n; ++i) {
          const auto xi = static_cast<double>(x[i]), yi = static_cast<double>(y[i]),
                     zi = static_cast<double>(z[i]);
          EXPECT_NEAR(static_cast<double>(sum[i]), zi + xi * yi, 1e-6 * (std::abs(zi) + std::abs(xi * yi)));
          EXPECT_NEAR(static_cast<double>(t[i]), std::tanh(static_cast<double>(x[i] + z[i])), 3e-7);
          EXPECT_LE(std::abs(t[i]), 1.0F);
          const auto ti = static_cast<double>(t[i]);
          EXPECT_NEAR(static_cast<double>(g[i]), static_cast<double>(slope[i]) * (1 - ti * ti), 1e-6);
          EXPECT_EQ(kept[i], i % 3 == 0 ? 0.0F : 1.25F * x[i]);
        }
      }
  }
}

TEST(FillNormal, HasItsMomentsAndDoesNotDependOnThreads) {
  Embedding a(1000, 37), b(1000, 37), other(1000, 37);
  fill_normal(a, 0.1, 1, 0, 1);
  fill_normal(b, 0.1, 1, 0, 4);
  fill_normal(other, 0.1, 2, 0, 1);
  EXPECT_EQ(a.numbers, b.numbers);
  EXPECT_NE(a.numbers, other.numbers);
  double mean = 0, square = 0, fourth = 0;
  const auto n = static_cast<double>(a.numbers.size());
  for (const float v : a.numbers) {
    const double x = static_cast<double>(v) / 0.1;
    mean += x / n, square += x * x / n, fourth += x * x * x * x / n;
  }
  EXPECT_NEAR(mean, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth, 3, 5 * std::sqrt(96 / n));
}

TEST(BagRows, AddTheVectorsOfTheFeaturesTimesTheirValues) {
  Embedding table(6, 20);
  fill_normal(table, 1, 3, 0, 1);
  const std::vector<FeatureId> index{1, 4, 5};
  const std::vector<float> value{2.0F, -1.5F, 0.25F};
  std::vector<float> x(20, 99.0F);
  BagRows(table).encode_row({index, value}, x.data());
  for (std::size_t c = 0; c < 20; ++c)
    EXPECT_NEAR(x[c], 2.0F * table.row(1)[c] - 1.5F * table.row(4)[c] + 0.25F * table.row(5)[c], 1e-5F);
  BagRows(table).encode_row({}, x.data());
  for (const float v : x) EXPECT_EQ(v, 0.0F);
}

}  // namespace
}  // namespace truemax
