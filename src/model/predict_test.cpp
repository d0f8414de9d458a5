// Probabilities over all classes, against a slow softmax in long double.
#include "model/predict.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/test_support.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

Csr random_rows(std::size_t count, FeatureId features, double scale) {
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal(0, scale);
  Csr rows;
  for (std::size_t i = 0; i < count; ++i) {
    for (FeatureId f = 0; f < features; ++f)
      if ((i + f) % 3 == 0 && i % 5 != 4)
        rows.index.push_back(f), rows.value.push_back(static_cast<float>(normal(random)));
    rows.begin.push_back(rows.index.size());
  }
  return rows;
}

ModelShape shape_of(std::size_t classes, bool intercept) {
  ModelShape shape{7, intercept, false, {}};
  for (std::size_t k = 0; k < classes; ++k) shape.names.push_back(std::to_string(k * 31 % 1009));
  return shape;
}

TEST(Predictor, GivesSoftmaxProbabilitiesInDescendingOrder) {
  for (const std::size_t classes : {2U, 5U, 16U, 61U})
    for (const bool intercept : {false, true})
      for (const double scale : {0.5, 20.0, 1e30}) {
        const Model model = random_model(classes, shape_of(classes, intercept));
        const Csr rows = random_rows(80, 7, scale);
        for (const std::size_t top : {std::size_t{1}, std::size_t{5}, classes, classes + 10}) {
          const Predictions got = Predictor(model, top, 2).predict(rows.view());
          ASSERT_EQ(got.top, std::min(top, classes));
          for (std::size_t i = 0; i < rows.rows(); ++i) {
            std::vector<long double> z(classes);
            for (ClassId k = 0; k < classes; ++k)
              z[k] = static_cast<long double>(score(model.weights, rows.row(i), k));
            const long double most = *std::max_element(z.begin(), z.end());
            long double sum = 0;
            for (const long double v : z) sum += std::exp(v - most);
            double total = 0;
            for (std::size_t t = 0; t < got.top; ++t) {
              const double p = got.probability[i * got.top + t];
              const long double exact = std::exp(z[got.classes[i * got.top + t]] - most) / sum;
              EXPECT_NEAR(p, static_cast<double>(exact),
                          1e-13 * (1 + static_cast<double>(std::abs(most))) * p + 1e-300);
              EXPECT_GE(p, 0);
              EXPECT_LE(p, 1);
              if (t > 0) {
                EXPECT_LE(p, got.probability[i * got.top + t - 1]);
              }
              total += p;
            }
            if (got.top == classes) {
              EXPECT_NEAR(total, 1, 1e-13 * (1 + static_cast<double>(std::min(std::abs(most), 1e3L))));
            }
          }
        }
      }
}

// A log-sum-exp in one double would lose log(2) next to a score of 1e17.
TEST(Predictor, SumsToOneForEqualHugeScores) {
  Model model = random_model(4, {1, false, false, {"a", "b", "c"}});
  for (const double size : {1e10, 1e14, 1e17, 1e30}) {
    model.weights = Weights(3, 1, false);
    const std::vector<float> same{static_cast<float>(size)};
    model.weights.set_class(0, same), model.weights.set_class(1, same);
    Csr rows;
    rows.index = {0}, rows.value = {1}, rows.begin = {0, 1};
    const Predictions got = Predictor(model, 3, 1).predict(rows.view());
    EXPECT_NEAR(got.probability[0], 0.5, 1e-12) << size;
    EXPECT_NEAR(got.probability[0] + got.probability[1] + got.probability[2], 1, 1e-12) << size;
  }
}

TEST(Predictor, AllClassesAppearOnce) {
  const Model model = random_model(1, shape_of(40, true));
  const Csr rows = random_rows(20, 7, 1);
  const Predictions got = Predictor(model, 40, 1).predict(rows.view());
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    std::vector<ClassId> seen(got.classes.begin() + static_cast<std::ptrdiff_t>(i * 40),
                              got.classes.begin() + static_cast<std::ptrdiff_t>((i + 1) * 40));
    std::sort(seen.begin(), seen.end());
    for (ClassId k = 0; k < 40; ++k) ASSERT_EQ(seen[k], k);
  }
}

TEST(Predictor, TiesAreInNameOrder) {
  Model model = random_model(2, {1, false, false, {"b", "10", "a", "9", "c"}});
  model.weights = Weights(5, 1, false);
  Csr rows;
  rows.begin.push_back(0);
  const Predictions got = Predictor(model, 5, 1).predict(rows.view());
  std::string order;
  for (const ClassId k : got.classes) order += model.classes->name(k) + " ";
  EXPECT_EQ(order, "9 10 a b c ");
  for (const double p : got.probability) EXPECT_DOUBLE_EQ(p, 0.2);
}

TEST(Predictor, SameBitsForAnyNumberOfThreads) {
  const Model model = random_model(3, shape_of(50, true));
  const Csr rows = random_rows(700, 7, 1);
  const Predictions one = Predictor(model, 5, 1).predict(rows.view());
  for (const std::size_t threads : {2U, 3U, 5U}) {
    const Predictions many = Predictor(model, 5, threads).predict(rows.view());
    EXPECT_EQ(many.classes, one.classes);
    EXPECT_EQ(many.probability, one.probability);
  }
}

}  // namespace
}  // namespace truemax
