// How many steps may run side by side, against the mean cosine of all pairs of rows.
#include "train/steps_beside.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "train/step_inputs.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

// The squared length of the mean of all rows, each of length 1.
double cosine_of_all(const DataView& data, bool intercept) {
  std::vector<double> sum(data.space->features + 1, 0.0);
  for (const ExampleId i : data.examples()) {
    const RowView x = data.x(i);
    double square = intercept ? 1 : 0;
    for (const float v : x.value) square += static_cast<double>(v) * static_cast<double>(v);
    if (square == 0) continue;
    for (std::size_t j = 0; j < x.index.size(); ++j)
      sum[x.index[j]] += static_cast<double>(x.value[j]) / std::sqrt(square);
    if (intercept) sum.back() += 1 / std::sqrt(square);
  }
  double square = 0;
  for (const double s : sum) square += s * s;
  const auto rows = static_cast<double>(data.size());
  return square / (rows * rows);
}

TEST(StepsBeside, AreThoseOfAllRows) {
  // Of the last one, not all rows are looked at.
  for (const std::size_t rows : {1U, 2U, 500U, 100'000U}) {
    const Dataset made = random_data({.rows = rows, .classes = 1000, .features = 300});
    const DataView data(made);
    const auto draw = draw_for(options_of("prox", 32), facts_of(data));
    for (const bool intercept : {false, true})
      for (const Draw* of_run : {draw.get(), static_cast<Draw*>(nullptr)}) {
        constexpr double kBlocks = 63;
        const double share =
            of_run == nullptr ? 1 : std::min(1.0, static_cast<double>(of_run->most_blocks()) / kBlocks);
        const double expected = std::max(
            1.0, std::min(2 / (cosine_of_all(data, intercept) * share), static_cast<double>(rows) / 16));
        const double exact = rows < 1000 ? 1e-9 : 0.02;
        EXPECT_NEAR(steps_beside(data, intercept, of_run), expected, exact * expected)
            << rows << ' ' << intercept;
      }
  }
}

}  // namespace
}  // namespace truemax
