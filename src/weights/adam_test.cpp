// The kernels of steps that differ by weight, on every instruction set, against plain loops in double.
#include "weights/adam.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "weights/test_support.hpp"

namespace truemax {
namespace {

TEST(AdamKernels, RowsAddUp) {
  constexpr FeatureId kFeatures = 40;
  constexpr std::size_t kStride = 4 * kLanes;
  for (const std::int64_t target : instruction_sets())
    for (const std::size_t blocks : {1U, 2U}) {
      const OnInstructionSet here(target);
      Engine random(1);
      const Csr rows = random_rows(random, 60, kFeatures, 20, 1);
      std::vector<RowView> x;
      for (std::size_t i = 0; i < rows.rows(); ++i) x.push_back(rows.row(i));
      std::vector<float> c(x.size() * kStride), sum(blocks * kFeatures * kLanes);
      for (float& v : c) v = wide(random, 1);
      for (float& v : sum) v = wide(random, 1);
      std::vector<double> wanted(sum.begin(), sum.end()), size(sum.size(), 0.0);
      for (std::size_t i = 0; i < x.size(); ++i)
        for (std::size_t j = 0; j < x[i].index.size(); ++j)
          for (std::size_t k = 0; k < blocks * kLanes; ++k) {
            const double by =
                static_cast<double>(x[i].value[j]) * static_cast<double>(c[i * kStride + kLanes + k]);
            const std::size_t at = (k / kLanes * kFeatures + x[i].index[j]) * kLanes + k % kLanes;
            wanted[at] += by, size[at] += std::abs(by);
          }
      add_rows(x, c.data() + kLanes, kStride, kFeatures, blocks, sum.data());
      for (std::size_t k = 0; k < sum.size(); ++k)
        ASSERT_NEAR(static_cast<double>(sum[k]), wanted[k], 1e-5 * (size[k] + std::abs(wanted[k]))) << k;
    }
}

struct Lines {
  std::size_t count = 0, parts = 1;
  std::vector<float> w, mean, square, sum, inverse;

  Lines(Engine& random, std::size_t lines, std::size_t of_parts, double decades)
      : count(lines), parts(of_parts), w(lines * kLanes), mean(w.size()), square(w.size()) {
    sum.resize(of_parts * w.size()), inverse.resize(lines);
    for (float& v : w) v = wide(random, decades);
    for (float& v : mean) v = wide(random, decades);
    for (float& v : square) v = std::abs(wide(random, decades));
    for (float& v : sum) v = wide(random, decades);
    for (float& v : inverse) v = std::abs(wide(random, decades));
  }
  void step(const AdamStep& by) {
    adam_lines(w.data(), mean.data(), square.data(), sum.data(), parts, w.size(), inverse.data(), count, by);
  }
};

TEST(AdamKernels, StepMatchesDouble) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet here(target);
    Engine random(2);
    for (const float ridge : {0.0F, 0.3F})
      for (const std::size_t parts : {1U, 3U}) {
        const AdamStep by{0.1F, 0.03F, 0.2F, ridge, 1e-6F};
        const Lines before(random, 30, parts, 1);
        Lines after = before;
        after.step(by);
        for (std::size_t k = 0; k < before.w.size(); ++k) {
          const auto unit = static_cast<double>(before.inverse[k / kLanes]);
          double g = 0, size = 0;
          for (std::size_t p = 0; p < parts; ++p) {
            g += unit * static_cast<double>(before.sum[p * before.w.size() + k]);
            size += std::abs(unit * static_cast<double>(before.sum[p * before.w.size() + k]));
          }
          const double m = 0.9 * static_cast<double>(before.mean[k]) + 0.1 * g;
          const double v = 0.97 * static_cast<double>(before.square[k]) + 0.03 * g * g;
          const double h = std::sqrt(v) + 1e-6;
          const double moved = static_cast<double>(before.w[k]) + 0.2 * unit * m / h;
          const double wanted = moved / (1 + static_cast<double>(ridge) * unit * unit / h);
          const double most = std::abs(static_cast<double>(before.w[k])) +
                              0.2 * unit * (std::abs(static_cast<double>(before.mean[k])) + size) / h;
          ASSERT_NEAR(static_cast<double>(after.mean[k]), m,
                      1e-6 * (std::abs(static_cast<double>(before.mean[k])) + size));
          ASSERT_NEAR(static_cast<double>(after.square[k]), v, 2e-5 * (v + size * size));
          ASSERT_NEAR(static_cast<double>(after.w[k]), wanted, 3e-5 * most);
        }
      }
  }
}

// With ridge, w is the least of the ridge and the distance, in the metric h, to where the gradient leads.
TEST(AdamKernels, RidgeStepIsTheLeastOfItsProblem) {
  Engine random(3);
  for (const float ridge : {0.01F, 1.0F, 100.0F}) {
    const AdamStep by{0.1F, 0.03F, 0.2F, ridge, 1e-6F};
    const Lines before(random, 20, 1, 1);
    Lines after = before;
    after.step(by);
    Lines without = before;
    without.step({0.1F, 0.03F, 0.2F, 0.0F, 1e-6F});
    for (std::size_t k = 0; k < before.w.size(); ++k) {
      const auto unit = static_cast<double>(before.inverse[k / kLanes]);
      const double h = std::sqrt(static_cast<double>(after.square[k])) + 1e-6;
      const auto towards = static_cast<double>(without.w[k]);
      const auto value = [&](double w) {  // in units of the feature
        const double off = (w - towards) / unit, in_units = w / unit;
        return h / 2 * off * off + static_cast<double>(ridge) * unit * unit / 2 * in_units * in_units;
      };
      double low = std::min(towards, 0.0) - 1, high = std::max(towards, 0.0) + 1;
      for (int i = 0; i < 200; ++i) {
        const double a = low + (high - low) / 3, b = high - (high - low) / 3;
        (value(a) < value(b) ? high : low) = value(a) < value(b) ? b : a;
      }
      ASSERT_NEAR(static_cast<double>(after.w[k]), low, 1e-5 * std::abs(towards) + 1e-6) << k;
    }
  }
}

// Numbers as large and small as the lane admits.
TEST(AdamKernels, StayFiniteAtTheExtremes) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet here(target);
    Engine random(4);
    for (const float ridge : {0.0F, 1e-30F, 1.0F, 1e30F})
      for (const float inverse : {1e-30F, 1.0F, 1e30F})
        for (const float rate : {1e-12F, 1.0F}) {
          Lines lines(random, 10, 2, 7);
          std::fill(lines.inverse.begin(), lines.inverse.end(), inverse);
          for (float& v : lines.sum) v /= inverse;  // a gradient is at most about as large as its feature
          std::fill(lines.mean.begin(), lines.mean.end(), 0.0F);  // as a run starts
          std::fill(lines.square.begin(), lines.square.end(), 0.0F);
          for (int t = 0; t < 5; ++t) lines.step({0.1F, t == 0 ? 1.0F : 0.5F, rate, ridge, 1e-6F});
          for (const auto* numbers : {&lines.w, &lines.mean, &lines.square})
            for (const float v : *numbers) ASSERT_TRUE(std::isfinite(v)) << ridge << ' ' << inverse;
          for (const float v : lines.square) ASSERT_GE(v, 0);
        }
  }
}

TEST(AdamKernels, WeightsWithoutGradientsStay) {
  std::vector<float> zero(kLanes, 0.0F), w(kLanes, 3.0F), mean = zero, square = zero;
  const float one = 1;
  adam_lines(w.data(), mean.data(), square.data(), zero.data(), 1, 0, &one, 1,
             {0.1F, 1.0F, 5.0F, 0.0F, 1e-6F});
  EXPECT_EQ(w, std::vector<float>(kLanes, 3.0F));
}

}  // namespace
}  // namespace truemax
