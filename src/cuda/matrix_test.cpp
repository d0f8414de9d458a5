// Products on the emulated tensor cores beside plain sums in double.
#include "cuda/matrix.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cuda/emulated_runtime.hpp"

namespace truemax::cuda {
namespace {

template <Form kForm, class Kernel>
void expect_the_product(std::uint32_t rows, std::uint32_t columns, std::uint32_t depth, double tolerance) {
  std::mt19937_64 random(rows + 100 * columns);
  std::normal_distribution<float> normal;
  const auto up = [](std::uint32_t n) { return (n + 7) / 8 * 8; };
  const bool rows_of_a = kForm != Form::columns_first, rows_of_b = kForm == Form::rows_by_rows;
  // Twice the rows of b, of which an index takes some.
  const std::uint32_t a_rows = rows_of_a ? rows : depth, a_columns = rows_of_a ? depth : rows;
  const std::uint32_t b_rows = rows_of_b ? columns : depth, b_columns = rows_of_b ? depth : columns;
  alignas(16) std::vector<float> a(std::size_t{a_rows} * up(a_columns)),
      b(2 * std::size_t{b_rows} * up(b_columns));
  for (std::size_t i = 0; i < a.size(); ++i)
    if (i % up(a_columns) < a_columns) a[i] = normal(random);
  for (std::size_t i = 0; i < b.size(); ++i)
    if (i % up(b_columns) < b_columns) b[i] = normal(random);
  std::vector<std::uint32_t> index(b_rows);
  for (std::uint32_t& i : index) i = static_cast<std::uint32_t>(random() % (2 * b_rows));
  const std::uint32_t stride = up(columns) + 8;
  std::vector<float> out(std::size_t{rows} * stride, -77.0F);
  const Product p{{a.data(), up(a_columns), nullptr},
                  {b.data(), up(b_columns), index.data()},
                  out.data(),
                  stride,
                  rows,
                  columns,
                  depth};
  EmulatedRuntime runtime(0);
  runtime.launch(Kernel{p}, 2, Kernel::kThreads, Kernel::kBytes);
  for (std::uint32_t r = 0; r < rows; ++r)
    for (std::uint32_t c = 0; c < stride; ++c) {
      double wanted = c < columns ? 0 : -77;
      for (std::uint32_t k = 0; k < depth && c < columns; ++k)
        wanted += static_cast<double>(rows_of_a ? a[r * up(a_columns) + k] : a[k * up(a_columns) + r]) *
                  static_cast<double>(rows_of_b ? b[index[c] * up(b_columns) + k]
                                                : b[index[k] * up(b_columns) + c]);
      ASSERT_NEAR(static_cast<double>(out[std::size_t{r} * stride + c]), wanted,
                  tolerance * std::sqrt(static_cast<double>(depth)))
          << r << ", " << c;
    }
}

template <Form kForm>
void expect_all() {
  for (const auto& [rows, columns, depth] : {std::tuple{1U, 1U, 1U}, std::tuple{70U, 65U, 40U},
                                             std::tuple{130U, 12U, 100U}, std::tuple{5U, 150U, 33U}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", depth " << depth);
    expect_the_product<kForm, Multiply<kForm, 32, 16, false>>(rows, columns, depth, 3e-3);
    expect_the_product<kForm, Multiply<kForm, 64, 32, false>>(rows, columns, depth, 3e-3);
    expect_the_product<kForm, Multiply<kForm, 64, 32, true>>(rows, columns, depth, 5e-6);
  }
}

TEST(CudaMatrix, RowsByRows) {
  expect_all<Form::rows_by_rows>();
}
TEST(CudaMatrix, Plain) {
  expect_all<Form::plain>();
}
TEST(CudaMatrix, ColumnsFirst) {
  expect_all<Form::columns_first>();
}

}  // namespace
}  // namespace truemax::cuda
