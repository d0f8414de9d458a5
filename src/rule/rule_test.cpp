// The contract of a rule, over every entry of the table of methods.
#include "rule/rule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "rule/methods.hpp"

namespace truemax {
namespace {

// One row: its drawn classes, then its label.
struct Input {
  std::vector<double> score;   // m + 1
  std::vector<double> weight;  // m
  double gram = 1, row_weight = 1, step = 1, u = 0;
};

struct Answer {
  std::vector<double> c;
  double u = 0;
  bool operator==(const Answer&) const = default;
};

template <class R>
Answer take(const R& rule, const Input& in) {
  StepView view;
  view.drawn = in.weight.size();
  view.score = in.score.data();
  view.weight = in.weight.data();
  view.gram = &in.gram;
  view.row_weight = &in.row_weight;
  view.step = in.step;
  Answer out{std::vector<double>(in.score.size(), std::nan("")), in.u};
  StepResult result{out.c.data(), &out.u};
  rule.step(view, result);
  return out;
}

// Inputs of m classes over many orders of magnitude.
std::vector<Input> random_inputs(std::size_t count, std::size_t m, double decades, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  std::vector<Input> list(count);
  for (Input& in : list) {
    for (std::size_t j = 0; j <= m; ++j) in.score.push_back(10 * sym(random));
    for (std::size_t j = 0; j < m; ++j) in.weight.push_back(std::pow(10.0, 6 * unit(random)));
    in.gram = std::pow(10.0, decades * sym(random));
    in.row_weight = unit(random) < 0.5 ? 1 : 0.1 + unit(random);
    in.step = std::pow(10.0, decades * sym(random));
    in.u = 20 * unit(random) * unit(random);
  }
  return list;
}

std::vector<Input> extreme_inputs(std::size_t m) {
  std::vector<Input> list;
  for (const double step : {1e-12, 1e-3, 1.0, 1e3, 1e12})
    for (const double gap : {-1e6, -800.0, -1.0, 0.0, 1.0, 800.0, 1e6})
      for (const double base : {0.0, 1e6, -1e6})
        for (const double weight : {1.0, 1e3, 1e9})
          for (const double gram : {1e-12, 1.0, 1e12})
            for (const double u : {0.0, 1e-9, 1.0, 700.0, 1e4}) {
              Input in{
                  std::vector<double>(m + 1, base + gap), std::vector<double>(m, weight), gram, 1, step, u};
              in.score[m] = base;
              if (m > 1) in.score[1] = base - gap;  // drawn classes on both sides of the label
              list.push_back(in);
            }
  return list;
}

template <class R>
std::vector<std::size_t> class_counts() {
  if (R::kInfo.most_classes == 1) return {1};
  return {1, 2, 5};
}

// The mean of a rule's answers over all (K-1)^m draws with replacement, equal classes merged, per unit of
// step: entries k for the coefficient of class k, entry K for u.
template <class R>
std::vector<double> mean_answer(const R& rule, const std::vector<double>& z, std::size_t y, std::size_t m,
                                Input in) {
  const std::size_t classes = z.size();
  std::size_t outcomes = 1;
  for (std::size_t j = 0; j < m; ++j) outcomes *= classes - 1;
  std::vector<double> mean(classes + 1, 0.0);
  for (std::size_t outcome = 0; outcome < outcomes; ++outcome) {
    std::vector<std::size_t> times(classes, 0), drawn;
    for (std::size_t j = 0, rest = outcome; j < m; ++j, rest /= classes - 1) {
      const std::size_t number = rest % (classes - 1);
      ++times[number + (number >= y ? 1 : 0)];
    }
    in.score.clear(), in.weight.clear();
    for (std::size_t k = 0; k < classes; ++k)
      if (times[k] > 0) {
        drawn.push_back(k);
        in.score.push_back(z[k]);
        in.weight.push_back(static_cast<double>(times[k] * (classes - 1)) / static_cast<double>(m));
      }
    in.score.push_back(z[y]);
    drawn.push_back(y);
    const Answer out = take(rule, in);
    const double unit = 1 / (in.step * static_cast<double>(outcomes));
    for (std::size_t j = 0; j < drawn.size(); ++j) mean[drawn[j]] += out.c[j] * unit;
    mean[classes] += (out.u - in.u) * unit;
  }
  return mean;
}

// -gradient of  weight (u + exp(-u) + sum_{k != y} exp(z_k - z_y - u))  in z and u.
std::vector<double> minus_gradient(const std::vector<double>& z, std::size_t y, double u, double weight) {
  std::vector<double> g(z.size() + 1, 0.0);
  for (std::size_t k = 0; k < z.size(); ++k) {
    if (k == y) continue;
    g[k] = -weight * std::exp(z[k] - z[y] - u);
    g[y] -= g[k];
  }
  g[z.size()] = weight * (-1 + std::exp(-u)) + g[y];
  return g;
}

TEST(EveryMethod, HasTheMeanOfItsSmallStepsInMinusTheGradientOfTheDoubleSum) {
  for_each_method([]<class R>() {
    if (R::kInfo.biased) return;
    const R rule((RuleOptions()));
    const std::vector<std::vector<double>> scores{
        {0, 0, 0, 0}, {1, -0.5, 0.25, 2}, {-3, 4, 0.5, 0, -1}, {0.1, 0.2, -7, 0.3, 0.4}, {100, 99, 98, 101}};
    for (const std::vector<double>& z : scores)
      for (std::size_t y = 0; y < z.size(); ++y) {
        double bound =
            1;  // log(1 + sum over all other classes): above it, or a little below, U-max does not jump
        for (std::size_t k = 0; k < z.size(); ++k)
          if (k != y) bound += std::exp(z[k] - z[y]);
        bound = std::log(bound);
        for (const double u : {std::max(0.5 * bound, bound - 0.9), bound, bound + 2})
          for (const double row_weight : {1.0, 0.25, 3.0})
            for (const std::size_t m : class_counts<R>()) {
              if (m > 2) continue;
              // One step of Richardson's rule takes the first order of the step away.
              Input in;
              in.row_weight = row_weight, in.u = u, in.gram = 0.7, in.step = 1e-6;
              const std::vector<double> whole = mean_answer(rule, z, y, m, in);
              in.step /= 2;
              const std::vector<double> half = mean_answer(rule, z, y, m, in);
              const std::vector<double> expected = minus_gradient(z, y, u, row_weight);
              for (std::size_t i = 0; i < expected.size(); ++i)
                EXPECT_NEAR(2 * half[i] - whole[i], expected[i], 1e-6 * (1 + std::abs(expected[i])))
                    << R::kInfo.name << " y " << y << " u " << u << " m " << m << " entry " << i;
            }
      }
  });
}

TEST(EveryMethod, GivesTheSameBitsForTheSameInput) {
  for_each_method([]<class R>() {
    for (const std::size_t m : class_counts<R>())
      for (const Input& in : random_inputs(500, m, 3, 1)) {
        const R one((RuleOptions())), other((RuleOptions()));
        const Answer first = take(one, in);
        take(other, random_inputs(1, m, 3, 99)[0]);  // a rule has no memory
        ASSERT_EQ(first, take(other, in)) << R::kInfo.name;
      }
  });
}

// Softmax does not change when all scores move by the same amount, and neither may a step move them so.
TEST(EveryMethod, TakesFromTheDrawnClassesWhatItGivesToTheLabel) {
  for_each_method([]<class R>() {
    const R rule((RuleOptions()));
    for (const std::size_t m : class_counts<R>())
      for (const Input& in : random_inputs(2000, m, 6, 2)) {
        const Answer out = take(rule, in);
        double given = 0;
        for (std::size_t j = 0; j < m; ++j) {
          EXPECT_LE(out.c[j], 0) << R::kInfo.name;
          given -= out.c[j];
        }
        EXPECT_NEAR(out.c[m], given, 1e-14 * given) << R::kInfo.name;
        EXPECT_GT(out.c[m], 0) << R::kInfo.name;
      }
  });
}

TEST(EveryMethod, IsFiniteWithUNotNegativeAtTheExtremes) {
  for_each_method([]<class R>() {
    const R rule((RuleOptions()));
    for (const std::size_t m : class_counts<R>())
      for (const Input& in : extreme_inputs(m)) {
        const Answer out = take(rule, in);
        const std::string what = std::string(R::kInfo.name) + " step " + std::to_string(in.step) + " gap " +
                                 std::to_string(in.score[0] - in.score[m]) + " weight " +
                                 std::to_string(in.weight[0]) + " gram " + std::to_string(in.gram) + " u " +
                                 std::to_string(in.u);
        for (const double c : out.c) ASSERT_TRUE(std::isfinite(c)) << what;
        ASSERT_TRUE(std::isfinite(out.u)) << what;
        ASSERT_GE(out.u, 0) << what;
      }
  });
}

TEST(EveryMethod, DependsOnScoreDifferencesAlone) {
  for_each_method([]<class R>() {
    const R rule((RuleOptions()));
    for (const std::size_t m : class_counts<R>())
      for (Input in : random_inputs(300, m, 2, 3)) {
        for (double& z : in.score) z = std::round(z * 1024) / 1024;  // so that shifts are exact
        const Answer here = take(rule, in);
        for (double& z : in.score) z += 4096;
        EXPECT_EQ(take(rule, in), here) << R::kInfo.name;
      }
  });
}

TEST(EveryMethod, TakesARowWeightAsAFactorOfTheStep) {
  for_each_method([]<class R>() {
    const R rule((RuleOptions()));
    for (const std::size_t m : class_counts<R>())
      for (Input in : random_inputs(300, m, 2, 4)) {
        in.row_weight = 0.25;
        const Answer weighted = take(rule, in);
        in.row_weight = 1, in.step *= 0.25;
        EXPECT_EQ(take(rule, in), weighted) << R::kInfo.name;
      }
  });
}

TEST(EveryMethod, SolvesStepsSideBySideToTheBitsOfOneAlone) {
  std::size_t pair_rules = 0;
  for_each_method([&]<class R>() {
    if constexpr (PairRule<R>) {
      ++pair_rules;
      const R rule((RuleOptions()));
      std::vector<Input> list = random_inputs(4000, 1, 6, 5);
      for (const Input& in : extreme_inputs(1)) list.push_back(in);
      for (std::size_t first = 0; first + kPairSteps <= list.size(); first += kPairSteps)
        for (const std::size_t count : {std::size_t{1}, std::size_t{3}, kPairSteps}) {
          PairSteps pairs{};
          const double step = list[first].step;  // a group shares it
          for (std::size_t i = 0; i < count; ++i) {
            const Input& in = list[first + i];
            pairs.score_drawn[i] = in.score[0], pairs.score_label[i] = in.score[1],
            pairs.weight[i] = in.weight[0];
            pairs.squared_norm[i] = in.gram, pairs.row_weight[i] = in.row_weight, pairs.u[i] = in.u;
          }
          rule.step_pairs(pairs, count, step);
          for (std::size_t i = 0; i < count; ++i) {
            Input in = list[first + i];
            in.step = step;
            const Answer alone = take(rule, in);
            ASSERT_EQ(pairs.coefficient[i], alone.c[1]) << R::kInfo.name;
            ASSERT_EQ(-pairs.coefficient[i], alone.c[0]) << R::kInfo.name;
            ASSERT_EQ(pairs.u[i], alone.u) << R::kInfo.name;
          }
        }
    }
  });
  EXPECT_GT(pair_rules, 0U);
}

TEST(EveryMethod, HasANameOfItsOwnAndIsFoundByIt) {
  std::set<std::string_view> names;
  for_each_method([&]<class R>() {
    EXPECT_TRUE(names.insert(R::kInfo.name).second) << R::kInfo.name;
    EXPECT_EQ(&find_method(R::kInfo.name), &R::kInfo);
    EXPECT_FALSE(R::kInfo.description.empty());
    EXPECT_GE(R::kInfo.most_rows, 1U);
    EXPECT_GE(R::kInfo.most_classes, 1U);
  });
  EXPECT_EQ(names.size(), methods().size());
  EXPECT_THROW(find_method("nonsense"), UserError);
  EXPECT_THROW(find_method(""), UserError);
}

}  // namespace
}  // namespace truemax
