// Lazy scales and the kernels over many classes, against direct computation.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "weights/kernels.hpp"
#include "weights/pass.hpp"
#include "weights/test_support.hpp"

namespace truemax {
namespace {

constexpr std::size_t kClasses = 21, kFeatures = 30;

// The expected W, in double.
struct Dense {
  std::vector<std::vector<double>> w;
  explicit Dense(const Weights& from) : w(from.classes(), std::vector<double>(from.features())) {
    std::vector<float> row(from.features());
    for (ClassId k = 0; k < w.size(); ++k) {
      from.copy_class(k, row);
      std::copy(row.begin(), row.end(), w[k].begin());
    }
  }
  double score(RowView x, ClassId k) const {
    double z = 0;
    for (std::size_t j = 0; j < x.index.size(); ++j) z += static_cast<double>(x.value[j]) * w[k][x.index[j]];
    return z;
  }
  void add(RowView x, ClassId k, double c) {
    for (std::size_t j = 0; j < x.index.size(); ++j) w[k][x.index[j]] += c * static_cast<double>(x.value[j]);
  }
};

void expect_equal(const Weights& got, const Dense& wanted) {
  std::vector<float> row(got.features());
  for (ClassId k = 0; k < got.classes(); ++k) {
    got.copy_class(k, row);
    double norm = 0;
    for (std::size_t f = 0; f < row.size(); ++f) {
      EXPECT_NEAR(static_cast<double>(row[f]), wanted.w[k][f], 2e-5) << k << ' ' << f;
      norm += static_cast<double>(row[f]) * static_cast<double>(row[f]);
    }
    EXPECT_NEAR(got.squared_norm(k), norm, 1e-6 * norm + 1e-30);
  }
}

TEST(Scales, LazyScalesMatchEagerOnes) {
  Engine random(3);
  const Csr rows = random_rows(random, 60, kFeatures, 8, 0.3);
  Weights w = random_weights(random, kClasses, kFeatures, false, 0.3);
  Dense eager(w);
  w.allow_scaling();
  std::uniform_int_distribution<ClassId> any(0, kClasses - 1);
  std::uniform_real_distribution<double> unit(0, 1);
  for (int t = 0; t < 4000; ++t) {
    const RowView x = rows.row(static_cast<std::size_t>(t) % rows.rows());
    const ClassId k = any(random);
    const double c = unit(random) - 0.5, factor = t % 500 == 499 ? 1e-9 : 0.5 + 0.5 * unit(random);
    EXPECT_NEAR(score(w, x, k), eager.score(x, k), 1e-4);
    EXPECT_NEAR(scores<1>(w, x, {k})[0], eager.score(x, k), 1e-4);
    add<1>(w, x, {k}, {c});
    eager.add(x, k, c);
    w.scale_class(k, factor);
    for (double& v : eager.w[k]) v *= factor;
    if (t % 50 != 0) continue;
    w.scale_all(factor);
    for (auto& row : eager.w)
      for (double& v : row) v *= factor;
  }
  expect_equal(w, eager);
  EXPECT_TRUE(std::isfinite(w.largest()));
  w.clear_class(3);
  EXPECT_EQ(w.squared_norm(3), 0);
}

TEST(Scales, FoldingGivesTheNumbersOfCopies) {
  Weights weights(19, 3, true);
  weights.allow_scaling();
  std::mt19937 random(3);
  for (ClassId k = 0; k < 19; ++k) {
    std::vector<float> row(3);
    for (float& w : row) w = static_cast<float>(random() % 1000) / 77;
    weights.set_class(k, row);
    weights.scale_class(k, 1 / (1.0 + k / 3.0));
  }
  weights.scale_all(0.7);
  std::vector<std::vector<float>> copies(19, std::vector<float>(3));
  for (ClassId k = 0; k < 19; ++k) weights.copy_class(k, copies[k]);
  weights.fold_all();
  EXPECT_FALSE(weights.scaled());
  for (ClassId k = 0; k < 19; ++k)
    for (std::size_t f = 0; f < 3; ++f) EXPECT_EQ(weights.lane(k)[f * kLanes], copies[k][f]);
}

TEST(Scales, AllowingScalesChangesNoScore) {
  Engine random(4);
  Weights w = random_weights(random, kClasses, kFeatures, true, 2.0);
  const Csr rows = random_rows(random, 20, kFeatures, 8, 0.3);
  std::vector<double> before;
  for (std::size_t i = 0; i < rows.rows(); ++i)
    for (ClassId k = 0; k < kClasses; ++k) before.push_back(scores<1>(w, rows.row(i), {k})[0]);
  w.allow_scaling();
  std::size_t at = 0;
  for (std::size_t i = 0; i < rows.rows(); ++i)
    for (ClassId k = 0; k < kClasses; ++k) EXPECT_EQ(scores<1>(w, rows.row(i), {k})[0], before[at++]);
}

TEST(ManyClasses, MatchesOneClassAtATime) {
  for (const bool scaled : {false, true})
    for (const bool intercept : {false, true})
      for (const std::size_t count : {0U, 1U, 3U, 4U, 9U, 21U}) {
        Engine random(5);
        Weights w = random_weights(random, kClasses, kFeatures, intercept, 0.5);
        if (scaled) w.allow_scaling(), w.scale_class(2, 0.25), w.scale_all(0.5);
        Weights one = random_weights(random = Engine(5), kClasses, kFeatures, intercept, 0.5);
        if (scaled) one.allow_scaling(), one.scale_class(2, 0.25), one.scale_all(0.5);
        const Csr rows = random_rows(random, 3, kFeatures, 8, 0.5);
        std::vector<ClassId> k;
        std::vector<double> c, z(count);
        for (std::size_t i = 0; i < count; ++i)
          k.push_back(static_cast<ClassId>(kClasses - 1 - i)),
              c.push_back(0.1 * static_cast<double>(i) - 0.3);
        scores(w, rows.row(1), k, z.data());
        for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(z[i], scores<1>(one, rows.row(1), {k[i]})[0]);
        add(w, rows.row(1), k, c.data());
        for (std::size_t i = 0; i < count; ++i) add<1>(one, rows.row(1), {k[i]}, {c[i]});
        EXPECT_EQ(all_cells(w), all_cells(one));
      }
}

TEST(AllClasses, MatchesSingleClasses) {
  for (const std::int64_t set : instruction_sets())
    for (const bool scaled : {false, true})
      for (const bool intercept : {false, true}) {
        const OnInstructionSet here(set);
        Engine random(6);
        Weights w = random_weights(random, kClasses, kFeatures, intercept, 0.5);
        if (scaled) w.allow_scaling(), w.scale_class(2, 0.25), w.scale_all(0.5);
        const Csr rows = random_rows(random, 6, kFeatures, 8, 0.5);
        const std::size_t padded = w.blocks() * kLanes;
        const std::vector<RowView> chosen{rows.row(4), rows.row(0), rows.row(4)};
        std::vector<double> z(chosen.size() * padded), c(padded);
        scores_of_all(w, chosen, z.data());
        for (std::size_t i = 0; i < chosen.size(); ++i)
          for (ClassId k = 0; k < kClasses; ++k)
            EXPECT_EQ(z[i * padded + k], score(w, chosen[i], k)) << instruction_set_name(set);
        for (std::size_t k = 0; k < padded; ++k) c[k] = std::sin(static_cast<double>(k));
        Weights one = w.classes() > 0
                          ? random_weights(random = Engine(6), kClasses, kFeatures, intercept, 0.5)
                          : Weights();
        if (scaled) one.allow_scaling(), one.scale_class(2, 0.25), one.scale_all(0.5);
        add_to_all(w, rows.row(4), c.data());
        for (ClassId k = 0; k < kClasses; ++k) add<1>(one, rows.row(4), {k}, {c[k]});
        EXPECT_EQ(all_cells(w), all_cells(one)) << instruction_set_name(set);
      }
}

TEST(Gram, HoldsTheDotProductsOfTheRows) {
  Engine random(7);
  const Csr rows = random_rows(random, 12, kFeatures, 15, 0.5);
  GramKernel kernel(kFeatures);
  std::vector<RowView> chosen;  // one row twice, and an empty one
  for (const std::size_t r : {3U, 3U, 8U, 6U, 11U}) chosen.push_back(rows.row(r));
  for (int again = 0; again < 2; ++again)
    for (const bool intercept : {false, true}) {
      std::vector<double> gram(25, -1);
      kernel.fill(chosen, intercept, gram.data());
      for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t j = 0; j < 5; ++j) {
          const RowView a = chosen[i], b = chosen[j];
          double wanted = intercept ? 1 : 0;
          for (std::size_t p = 0; p < a.index.size(); ++p)
            for (std::size_t q = 0; q < b.index.size(); ++q)
              if (a.index[p] == b.index[q])
                wanted += static_cast<double>(a.value[p]) * static_cast<double>(b.value[q]);
          EXPECT_NEAR(gram[i * 5 + j], wanted, 1e-12 * (1 + std::abs(wanted)));
        }
    }
}

}  // namespace
}  // namespace truemax
