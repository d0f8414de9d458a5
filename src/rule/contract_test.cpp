// The contract of a rule on single steps, random and extreme, over every entry of the table of methods. What
// it does in the mean over all draws is in mean_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "rule/methods.hpp"
#include "rule/test_support.hpp"

namespace truemax {
namespace {

// Steps of n rows and m drawn classes over many orders of magnitude; a label may be drawn for other rows.
std::vector<StepInput> random_steps(std::size_t count, std::size_t n, std::size_t m, double decades,
                                    std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  std::vector<StepInput> list(count);
  for (StepInput& in : list) {
    in.rows = n;
    in.columns = n == 1 ? m + 1 : m + std::max<std::size_t>(1, n / 2);
    const double length = std::pow(10.0, decades / 2 * sym(random)),
                 weight = std::pow(10.0, 6 * unit(random));
    std::vector<double> x(n * 3);
    for (double& v : x) v = length * sym(random);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t y = n == 1 ? m : (i % 3 == 0 && m > 1 ? 0 : m + i % (in.columns - m));
      in.label.push_back(static_cast<std::uint32_t>(y));
      for (std::size_t c = 0; c < in.columns; ++c) {
        in.score.push_back(10 * sym(random));
        in.weight.push_back(c < m && c != y ? (n == 1 ? std::pow(10.0, 6 * unit(random)) : weight) : 0);
      }
      in.row_weight.push_back(unit(random) < 0.5 ? 1 : 0.1 + unit(random));
      in.u.push_back(20 * unit(random) * unit(random));
      for (std::size_t j = 0; j < n; ++j) {
        double g = 0;
        for (std::size_t d = 0; d < 3; ++d) g += x[i * 3 + d] * x[j * 3 + d];
        in.gram.push_back(g);
      }
    }
    in.log_q.assign(in.columns, -std::log(weight));
    in.step = std::pow(10.0, decades * sym(random));
    in.decayed = unit(random);
  }
  return list;
}

std::vector<StepInput> extreme_steps(std::size_t n, std::size_t m) {
  std::vector<StepInput> list;
  for (const double step : {1e-12, 1e-3, 1.0, 1e3, 1e12})
    for (const double gap : {-1e6, -800.0, -1.0, 0.0, 1.0, 800.0, 1e6})
      for (const double base : {0.0, 1e6})
        for (const double weight : {1.0, 1e9})
          for (const double norm : {1e-12, 1.0, 1e12})
            for (const double u : {0.0, 1.0, 1e4}) {
              StepInput in;
              in.rows = n, in.columns = m + 1, in.step = step;
              for (std::size_t i = 0; i < n; ++i) {
                in.label.push_back(static_cast<std::uint32_t>(m));
                for (std::size_t c = 0; c <= m; ++c) {
                  in.score.push_back(c == m ? base : c == 1 ? base - gap : base + gap);
                  in.weight.push_back(c == m ? 0 : weight);
                }
                in.row_weight.push_back(1);
                in.u.push_back(u);
                for (std::size_t j = 0; j < n; ++j) in.gram.push_back(norm);  // all rows are the same one
              }
              in.log_q.assign(m + 1, -std::log(weight));
              list.push_back(in);
            }
  return list;
}

struct Shape {
  std::size_t n, m;
};

template <class R>
std::vector<Shape> shapes() {
  std::vector<Shape> list;
  for (const Shape shape : {Shape{1, 1}, Shape{1, 2}, Shape{1, 5}, Shape{2, 1}, Shape{3, 2}, Shape{6, 5}})
    if (shape.n <= R::kInfo.most_rows && shape.m <= R::kInfo.most_classes) list.push_back(shape);
  return list;
}

std::string shown(const MethodInfo& info, const StepInput& in) {
  return std::string(info.name) + " rows " + std::to_string(in.rows) + " columns " +
         std::to_string(in.columns) + " step " + std::to_string(in.step) + " scores " +
         std::to_string(in.score[0]) + ' ' + std::to_string(in.score.back()) + " weight " +
         std::to_string(in.weight[0]) + " gram " + std::to_string(in.gram[0]) + " u " +
         std::to_string(in.u[0]);
}

// (c)
TEST(EveryMethod, GivesTheSameBitsForTheSameInput) {
  for_each_method([]<class R>() {
    for (const Shape shape : shapes<R>())
      for (const StepInput& in : random_steps(100, shape.n, shape.m, 2, 1)) {
        R one(RuleOptions{}, no_ridge()), other(RuleOptions{}, no_ridge());
        const StepAnswer first = take(one, in);
        take(other, random_steps(1, shape.n, shape.m, 2, 99)[0]);  // a rule has no memory
        const StepAnswer second = take(other, in);
        if (first.finite()) {
          ASSERT_EQ(first, second) << shown(R::kInfo, in);
        }
      }
  });
}

// (d) Finite at the extremes; what can diverge by nature may say so by a number that is not finite, which the
// trainer turns into its message.
TEST(EveryMethod, IsFiniteAtTheExtremes) {
  for_each_method([]<class R>() {
    for (const RuleOptions& options : options_to_try(R::kInfo))
      for (const Shape shape : shapes<R>()) {
        R rule(options, no_ridge());
        std::vector<StepInput> list = extreme_steps(shape.n, shape.m);
        for (const StepInput& in : random_steps(500, shape.n, shape.m, 12, 7)) list.push_back(in);
        for (const StepInput& in : list) {
          const StepAnswer out = take(rule, in);
          if (R::kInfo.can_diverge) continue;
          ASSERT_TRUE(out.finite()) << shown(R::kInfo, in);
          for (const double u : out.u) {
            ASSERT_TRUE(u >= 0 || R::kInfo.signed_u || options.double_sum_alpha > 0) << shown(R::kInfo, in);
          }
        }
      }
  });
}

// Softmax does not change when all scores move by the same amount, and what depends on differences of scores
// alone may not move them so.
TEST(EveryMethod, OfScoreDifferencesTakesFromTheDrawnClassesWhatItGivesToTheLabel) {
  std::size_t seen = 0;
  for_each_method([&]<class R>() {
    if (R::kInfo.objective == Objective::noise_contrast || R::kInfo.refreshes) return;
    ++seen;
    for (const Shape shape : shapes<R>()) {
      R rule(RuleOptions{}, no_ridge());
      for (StepInput in : random_steps(200, shape.n, shape.m, 3, 2)) {
        const StepAnswer out = take(rule, in);
        if (!out.finite()) continue;
        for (std::size_t i = 0; i < in.rows; ++i) {
          double given = 0;
          for (std::size_t c = 0; c < in.columns; ++c) {
            if (c == in.label[i]) continue;
            EXPECT_LE(out.c[i * in.columns + c], 0) << shown(R::kInfo, in);
            given -= out.c[i * in.columns + c];
          }
          EXPECT_NEAR(out.c[i * in.columns + in.label[i]], given, 1e-13 * given) << shown(R::kInfo, in);
        }
        for (double& z : in.score) z = std::round(z * 1024) / 1024;  // so that shifts are exact
        const StepAnswer here = take(rule, in);
        for (double& z : in.score) z += 4096;
        const StepAnswer there = take(rule, in);
        for (std::size_t j = 0; j < here.c.size(); ++j)
          EXPECT_NEAR(there.c[j], here.c[j], 1e-9 * std::abs(here.c[j]) + 1e-12) << shown(R::kInfo, in);
      }
    }
  });
  EXPECT_GT(seen, 4U);
}

TEST(EveryMethod, TakesARowWeightAsAFactorOfTheStep) {
  for_each_method([]<class R>() {
    for (const Shape shape : shapes<R>()) {
      R rule(RuleOptions{}, no_ridge());
      for (StepInput in : random_steps(100, shape.n, shape.m, 2, 4)) {
        for (double& w : in.row_weight) w = 0.25;
        const StepAnswer weighted = take(rule, in);
        for (double& w : in.row_weight) w = 1;
        in.step *= 0.25;
        if (!weighted.finite()) continue;
        EXPECT_EQ(take(rule, in), weighted) << shown(R::kInfo, in);
      }
    }
  });
}

TEST(EveryMethod, SolvesStepsSideBySideToTheBitsOfOneAlone) {
  std::size_t pair_rules = 0;
  for_each_method([&]<class R>() {
    if constexpr (PairRule<R>) {
      ++pair_rules;
      R rule(RuleOptions{}, no_ridge());
      std::vector<StepInput> list = random_steps(4000, 1, 1, 6, 5);
      for (const StepInput& in : extreme_steps(1, 1)) list.push_back(in);
      for (std::size_t first = 0; first + kPairSteps <= list.size(); first += kPairSteps)
        for (const std::size_t count : {std::size_t{1}, std::size_t{3}, kPairSteps}) {
          PairSteps pairs{};
          const double step = list[first].step;  // a group shares it
          for (std::size_t i = 0; i < count; ++i) {
            const StepInput& in = list[first + i];
            pairs.score_drawn[i] = in.score[0], pairs.score_label[i] = in.score[1];
            pairs.weight[i] = in.weight[0], pairs.squared_norm[i] = in.gram[0];
            pairs.row_weight[i] = in.row_weight[0], pairs.u[i] = in.u[0];
          }
          rule.step_pairs(pairs, count, step);
          for (std::size_t i = 0; i < count; ++i) {
            StepInput in = list[first + i];
            in.step = step;
            const StepAnswer alone = take(rule, in);
            ASSERT_EQ(pairs.coefficient[i], alone.c[1]) << R::kInfo.name;
            ASSERT_EQ(-pairs.coefficient[i], alone.c[0]) << R::kInfo.name;
            ASSERT_EQ(pairs.u[i], alone.u[0]) << R::kInfo.name;
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

TEST(RuleOptions, EachNamesItsMethodsAndHasItsRange) {
  RuleOptions options;
  OptionTable table;
  options.describe(table);
  for (const Option& option : table.options()) {
    const auto users = RuleOptions::users_of(option.name);
    EXPECT_FALSE(users.empty()) << option.name;
    for (const std::string_view user : users) EXPECT_NO_THROW(find_method(user)) << option.name;
  }
  EXPECT_TRUE(RuleOptions::users_of("epochs").empty());
  EXPECT_EQ(options.delta, 1);
  table.find("delta")->parse("0.5");
  EXPECT_EQ(options.delta, 0.5);
  for (const char* bad : {"0", "-1", "nan", "1e7"})
    EXPECT_THROW(table.find("delta")->parse(bad), UserError) << bad;
  for (const char* bad : {"-0.1", "1.1", "nan"})
    EXPECT_THROW(table.find("double-sum-alpha")->parse(bad), UserError) << bad;
  EXPECT_THROW(table.find("refresh")->parse("0"), UserError);
  EXPECT_THROW(table.find("running-rate")->parse("0"), UserError);
  for (const char* name : {"rho", "sox-rate", "softplus-bend"})
    for (const char* bad : {"0", "-1", "nan", "inf", "1e7"})
      EXPECT_THROW(table.find(name)->parse(bad), UserError) << name << ' ' << bad;
}

}  // namespace
}  // namespace truemax
