// Small dense matrices against their defining equations, on every instruction set.
#include "solve/dense.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "core/instruction_sets.hpp"

namespace truemax {
namespace {

constexpr std::size_t kSizes[] = {1, 2, 3, 7, 8, 9, 16, 20, 33};

DenseMatrix random_matrix(std::mt19937_64& random, std::size_t rows, std::size_t columns) {
  std::normal_distribution<double> normal;
  DenseMatrix m;
  m.set_zero(rows, columns);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) m(i, j) = normal(random);
  return m;
}

TEST(Dense, InvertsDefiniteMatrices) {
  for (const std::int64_t set : instruction_sets()) {
    const OnInstructionSet here(set);
    std::mt19937_64 random(1);
    for (const std::size_t n : kSizes) {
      const DenseMatrix half = random_matrix(random, n, n);
      DenseMatrix a = half;
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) {
          a(i, j) = i == j ? 1 : 0;
          for (std::size_t k = 0; k < n; ++k) a(i, j) += half(i, k) * half(j, k);
        }
      DenseMatrix inverse = a;
      invert_definite(inverse.row(0), n, inverse.stride());
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::size_t k = 0; k < n; ++k) sum += a(i, k) * inverse(k, j);
          EXPECT_NEAR(sum, i == j ? 1 : 0, 1e-12) << instruction_set_name(set) << ' ' << n;
        }
    }
  }
}

TEST(Dense, AddsProducts) {
  for (const std::int64_t set : instruction_sets()) {
    const OnInstructionSet here(set);
    std::mt19937_64 random(2);
    for (const std::size_t rows : {1UL, 5UL, 9UL})
      for (const std::size_t inner : {1UL, 4UL, 17UL})
        for (const std::size_t columns : kSizes) {
          const DenseMatrix a = random_matrix(random, rows, inner), b = random_matrix(random, inner, columns);
          const DenseMatrix before = random_matrix(random, rows, columns);
          DenseMatrix out = before;
          add_product(out.row(0), out.stride(), a.row(0), a.stride(), b.row(0), b.stride(), rows, inner,
                      columns);
          for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < columns; ++j) {
              double sum = before(i, j);
              for (std::size_t k = 0; k < inner; ++k) sum += a(i, k) * b(k, j);
              EXPECT_NEAR(out(i, j), sum, 1e-13) << instruction_set_name(set);
            }
        }
  }
}

TEST(Dense, SolvesSystemsThatNeedPivoting) {
  for (const std::int64_t set : instruction_sets()) {
    const OnInstructionSet here(set);
    std::mt19937_64 random(3);
    for (const std::size_t n : kSizes) {
      DenseMatrix a = random_matrix(random, n, n);
      if (n > 1) a(0, 0) = 0;
      std::vector<double> wanted(n), x(n, 0.0);
      for (std::size_t i = 0; i < n; ++i) wanted[i] = static_cast<double>(i) - 2.5;
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) x[i] += a(i, j) * wanted[j];
      std::vector<std::size_t> pivot(n);
      factor_lu(a.row(0), n, a.stride(), pivot.data());
      solve_lu(a.row(0), n, a.stride(), pivot.data(), x.data());
      for (std::size_t i = 0; i < n; ++i)
        EXPECT_NEAR(x[i], wanted[i], 1e-10) << instruction_set_name(set) << ' ' << n;
    }
  }
}

}  // namespace
}  // namespace truemax
