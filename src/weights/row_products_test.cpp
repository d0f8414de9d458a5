// Products of rows against the obvious loops, on every instruction set.
#include "weights/row_products.hpp"

#include <gtest/gtest.h>

#include <random>

#include "weights/test_support.hpp"

namespace truemax {
namespace {

constexpr std::size_t kProductFeatures = 9, kProductRows = 17;

std::vector<double> product_numbers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> out(count);
  for (double& v : out) v = normal(random);
  return out;
}

DoubleRows product_rows() {
  std::mt19937_64 random(1);
  DoubleRows x;
  for (std::size_t i = 0; i < kProductRows; ++i) {
    for (FeatureId f = 0; f < kProductFeatures; ++f)
      if (random() % 2 == 0) x.index.push_back(f);
    x.begin.push_back(x.index.size());
  }
  x.value = product_numbers(x.index.size(), 2);
  return x;
}

TEST(RowProducts, AgreeWithTheLoopsForAnyNumberOfColumns) {
  const DoubleRows x = product_rows();
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet on(target);
    SCOPED_TRACE(instruction_set_name(target));
    for (const std::size_t lanes : {4U, 8U, 12U, 20U, 36U}) {
      const std::vector<double> v = product_numbers(kProductFeatures * lanes, 3),
                                base = product_numbers(lanes, 4);
      const std::vector<double> r = product_numbers(kProductRows * lanes, 5);
      std::vector<double> z(kProductRows * lanes), back = product_numbers(kProductFeatures * lanes, 6),
                                                   backs = back;
      std::vector<double> squares(kProductFeatures * (kProductFeatures + 1) / 2 * lanes, 1.0),
          square = squares;
      multiply_rows(x, v.data(), base.data(), lanes, z.data());
      add_transposed(x, r.data(), lanes, back.data());
      add_squared(x, r.data(), lanes, square.data());
      for (std::size_t i = 0; i < kProductRows; ++i)
        for (std::size_t k = 0; k < lanes; ++k) {
          double sum = base[k];
          for (std::size_t a = x.begin[i]; a < x.begin[i + 1]; ++a) {
            sum += x.value[a] * v[x.index[a] * lanes + k];
            backs[x.index[a] * lanes + k] += x.value[a] * r[i * lanes + k];
            for (std::size_t b = x.begin[i]; b <= a; ++b)
              squares[(x.index[a] * (x.index[a] + 1) / 2 + x.index[b]) * lanes + k] +=
                  x.value[a] * x.value[b] * r[i * lanes + k];
          }
          EXPECT_NEAR(z[i * lanes + k], sum, 1e-12);
        }
      for (std::size_t j = 0; j < back.size(); ++j) EXPECT_NEAR(back[j], backs[j], 1e-12);
      for (std::size_t j = 0; j < square.size(); ++j) EXPECT_NEAR(square[j], squares[j], 1e-12);
    }
  }
}

}  // namespace
}  // namespace truemax
