// Complex kernels against std::complex, on every instruction set.
#include "weights/complex.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <random>
#include <vector>

#include "weights/test_support.hpp"

namespace truemax {
namespace {

std::vector<float> normal_numbers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& v : out) v = normal(random);
  return out;
}

std::complex<double> at(const std::vector<float>& v, std::size_t c) {
  return {static_cast<double>(v[c]), static_cast<double>(v[v.size() / 2 + c])};
}

TEST(Complex, ProductsAndPenaltyAreThoseOfComplexNumbers) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet on(target);
    SCOPED_TRACE(instruction_set_name(target));
    for (const std::size_t h : {2U, 6U, 32U, 34U, 200U}) {
      const auto a = normal_numbers(h, 1), b = normal_numbers(h, 2), start = normal_numbers(h, 3);
      std::vector<float> product(h), conjugate(h), sum = start;
      multiply_complex(product.data(), a.data(), b.data(), h);
      multiply_conjugate(conjugate.data(), a.data(), b.data(), h);
      add_cubed(sum.data(), a.data(), 0.75F, h);
      for (std::size_t c = 0; c < h / 2; ++c) {
        EXPECT_LT(std::abs(at(product, c) - at(a, c) * at(b, c)), 2e-6);
        EXPECT_LT(std::abs(at(conjugate, c) - at(a, c) * std::conj(at(b, c))), 2e-6);
        EXPECT_LT(std::abs(at(sum, c) - at(start, c) - 0.75 * std::abs(at(a, c)) * at(a, c)), 1e-5);
      }
    }
  }
}

// conj(b) is what takes the gradient back: the derivative of dot(g, a b) in a.
TEST(Complex, ConjugateProductIsTheGradient) {
  const std::size_t h = 10;
  auto a = normal_numbers(h, 4);
  const auto b = normal_numbers(h, 5), g = normal_numbers(h, 6);
  std::vector<float> gradient(h), x(h);
  multiply_conjugate(gradient.data(), g.data(), b.data(), h);
  const auto loss = [&] {
    multiply_complex(x.data(), a.data(), b.data(), h);
    double sum = 0;
    for (std::size_t i = 0; i < h; ++i) sum += static_cast<double>(g[i]) * static_cast<double>(x[i]);
    return sum;
  };
  for (std::size_t i = 0; i < h; ++i) {
    const float kept = a[i];
    a[i] = kept + 0.5F;
    const double up = loss();
    a[i] = kept - 0.5F;
    EXPECT_NEAR(up - loss(), static_cast<double>(gradient[i]), 1e-5);  // linear in a
    a[i] = kept;
  }
}

TEST(Complex, CountsScoresAboveAndEqual) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet on(target);
    SCOPED_TRACE(instruction_set_name(target));
    for (const std::size_t n : {1U, 15U, 16U, 37U}) {
      std::mt19937_64 random(n);
      std::vector<float> score(n), goal(n);
      std::vector<std::uint32_t> above(n, 3), equal(n, 5);
      for (std::size_t i = 0; i < n; ++i)
        score[i] = static_cast<float>(random() % 3), goal[i] = static_cast<float>(random() % 3);
      count_above(score.data(), goal.data(), n, above.data(), equal.data());
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_EQ(above[i], 3U + (score[i] > goal[i] ? 1U : 0U));
        EXPECT_EQ(equal[i], 5U + (score[i] == goal[i] ? 1U : 0U));
      }
    }
  }
}

}  // namespace
}  // namespace truemax
