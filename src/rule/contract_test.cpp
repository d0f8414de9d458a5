// The contract of every method on single steps, random and extreme. Averages over all draws are tested in
// mean_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/counted_allocations.hpp"
#include "rule/methods.hpp"
#include "rule/test_support.hpp"

namespace truemax {
namespace {

// Ridge factors from 1 to 1 + size, and intercepts.
void add_ridge(StepInput& in, Ridge ridge, double size) {
  for (std::size_t c = 0; c < in.columns && ridge != Ridge::none; ++c) {
    in.ridge.push_back(1 + size * static_cast<double>(c % 3) / 2);
    if (ridge == Ridge::without_intercept) in.free_intercept.push_back(static_cast<double>(c % 4) - 1.5);
  }
}

// Steps of n rows and m drawn classes over many orders of magnitude; a label may be drawn for other rows.
std::vector<StepInput> random_steps(std::size_t count, std::size_t n, std::size_t m, double decades,
                                    std::uint64_t seed, Ridge ridge = Ridge::none) {
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
        in.gram.push_back(g + (ridge == Ridge::without_intercept ? 1 : 0));
      }
    }
    in.log_q.assign(in.columns, -std::log(weight));
    in.step = std::pow(10.0, decades * sym(random));
    in.decayed = unit(random);
    add_ridge(in, ridge, std::pow(10.0, decades / 2 * sym(random)));
  }
  return list;
}

std::vector<StepInput> extreme_steps(std::size_t n, std::size_t m, Ridge ridge = Ridge::none) {
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
                for (std::size_t j = 0; j < n; ++j)  // all rows are the same one
                  in.gram.push_back(norm + (ridge == Ridge::without_intercept ? 1 : 0));
              }
              in.log_q.assign(m + 1, -std::log(weight));
              add_ridge(in, ridge, step);
              list.push_back(in);
            }
  return list;
}

std::vector<std::uint64_t> bits_of(const StepAnswer& answer) {
  std::vector<std::uint64_t> bits;
  for (const auto* list : {&answer.c, &answer.u})
    for (const double v : *list) bits.push_back(std::bit_cast<std::uint64_t>(v));
  return bits;
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

// (c) Holds for non-finite results too.
TEST(EveryMethod, SameInputGivesTheSameBits) {
  for_each_method([]<class R>() {
    for (const RuleOptions& options : options_to_try(R::kInfo))
      for (const Ridge ridge : kRidges)
        for (const Shape shape : shapes<R>())
          for (const StepInput& in : random_steps(30, shape.n, shape.m, 2, 1, ridge)) {
            R one(options, no_ridge()), other(options, no_ridge());
            const StepAnswer first = take(one, in);
            take(other, random_steps(1, shape.n, shape.m, 2, 99, ridge)[0]);  // a rule has no memory
            const StepAnswer second = take(other, in);
            ASSERT_EQ(bits_of(first), bits_of(second)) << shown(R::kInfo, in);
          }
  });
}

// Whether the exponentials of the double sum stay in range. If not, methods that can diverge may overflow.
bool exponents_are_small(const StepInput& in) {
  for (std::size_t i = 0; i < in.rows; ++i)
    for (std::size_t c = 0; c < in.columns; ++c)
      for (const double shift : {0.0, in.score[i * in.columns + in.label[i]]})
        if (!(std::abs(in.score[i * in.columns + c] - shift) + std::abs(in.u[i]) < 300)) return false;
  return true;
}

// (d) Finite at extreme inputs, with each option at the ends of its range. Methods that can diverge must be
// finite too unless an exponential overflows; train/stability_test.cpp tests how the trainer handles that.
TEST(EveryMethod, IsFiniteAtTheExtremes) {
  for_each_method([]<class R>() {
    std::size_t asked = 0, steps = 0;
    for (const RuleOptions& options : options_to_try(R::kInfo, true))
      for (const Ridge ridge : kRidges)
        for (const Shape shape : shapes<R>()) {
          R rule(options, no_ridge());
          std::vector<StepInput> list = extreme_steps(shape.n, shape.m, ridge);
          for (const StepInput& in : random_steps(200, shape.n, shape.m, 12, 7, ridge)) list.push_back(in);
          for (const StepInput& in : list) {
            const StepAnswer out = take(rule, in);
            ++steps;
            if (R::kInfo.can_diverge && !exponents_are_small(in)) continue;
            ++asked;
            ASSERT_TRUE(out.finite()) << shown(R::kInfo, in);
            for (const double u : out.u) {
              ASSERT_TRUE(u >= 0 || R::kInfo.signed_u || R::kInfo.refreshes || options.double_sum_alpha > 0)
                  << shown(R::kInfo, in);
            }
          }
        }
    EXPECT_GT(asked, R::kInfo.can_diverge ? steps / 10 : steps - 1) << R::kInfo.name;
  });
}

// The label gains what the other classes lose. Only methods that can diverge may overflow.
template <class R>
void expect_balance(R& rule, const StepInput& in) {
  const StepAnswer out = take(rule, in);
  if (!out.finite()) {
    EXPECT_TRUE(R::kInfo.can_diverge) << shown(R::kInfo, in);
    return;
  }
  for (std::size_t i = 0; i < in.rows; ++i) {
    double given = 0;
    for (std::size_t c = 0; c < in.columns; ++c) {
      if (c == in.label[i]) continue;
      EXPECT_LE(out.c[i * in.columns + c], 0) << shown(R::kInfo, in);
      given -= out.c[i * in.columns + c];
    }
    EXPECT_NEAR(out.c[i * in.columns + in.label[i]], given, 1e-13 * given) << shown(R::kInfo, in);
  }
}

// Softmax does not change if all scores shift by the same amount, so a step that depends only on differences
// of scores must not shift them all.
TEST(EveryMethod, CoefficientsOfScoreDifferencesSumToZero) {
  std::size_t seen = 0;
  for_each_method([&]<class R>() {
    if (R::kInfo.objective == Objective::noise_contrast || R::kInfo.refreshes) return;
    ++seen;
    for (const Shape shape : shapes<R>()) {
      R rule(RuleOptions{}, no_ridge());
      for (const Ridge ridge : kRidges)
        for (const StepInput& in : random_steps(200, shape.n, shape.m, 3, 2, ridge)) expect_balance(rule, in);
      for (StepInput in : random_steps(200, shape.n, shape.m, 3, 2)) {
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

TEST(EveryMethod, RowWeightMultipliesTheStep) {
  for_each_method([]<class R>() {
    for (const RuleOptions& options : options_to_try(R::kInfo))
      for (const Ridge ridge : kRidges)
        for (const Shape shape : shapes<R>()) {
          R rule(options, no_ridge());
          for (StepInput in : random_steps(30, shape.n, shape.m, 2, 4, ridge)) {
            for (double& w : in.row_weight) w = 0.25;
            const StepAnswer weighted = take(rule, in);
            for (double& w : in.row_weight) w = 1;
            in.step *= 0.25;
            EXPECT_EQ(bits_of(take(rule, in)), bits_of(weighted)) << shown(R::kInfo, in);
          }
        }
  });
}

TEST(EveryMethod, PairStepsHaveTheBitsOfSingleSteps) {
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

// Steps must not throw, so reserve_memory allocates everything, also for several rows, ridge and intercept.
TEST(EveryMethod, AllocatesNothingInAStep) {
  ASSERT_GT(allocations_of([] {
              const std::vector<double> some(100);
              asm volatile("" : : "r"(some.data()) : "memory");  // or clang++ leaves the allocation out
            }),
            0U);  // the counter works
  for_each_method([]<class R>() {
    for (const Shape shape :
         {Shape{1, 1}, Shape{1, 5}, Shape{1, 300}, Shape{2, 1}, Shape{6, 5}, Shape{6, 100}})
      for (const Ridge ridge : kRidges) {
        if (shape.n > R::kInfo.most_rows) continue;
        R rule(RuleOptions{}, no_ridge());
        const std::vector<StepInput> list = random_steps(20, shape.n, shape.m, 2, 3, ridge);
        reserve_memory(rule, {shape.n, shape.m, list[0].columns});
        std::vector<double> c(list[0].score.size()), u(shape.n);
        const std::size_t taken = allocations_of([&] {
          for (const StepInput& in : list) {
            std::copy(in.u.begin(), in.u.end(), u.begin());
            StepResult result{c.data(), u.data()};
            rule.step(in.view(), result);
          }
        });
        EXPECT_EQ(taken, 0U) << R::kInfo.name << ' ' << shape.n << 'x' << shape.m;
      }
  });
}

TEST(EveryMethod, HasAUniqueName) {
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

TEST(RuleOptions, EachHasMethodsAndARange) {
  RuleOptions options;
  OptionTable table;
  options.describe(table);
  for (const Option& option : table.options()) {
    EXPECT_FALSE(option.tags.methods.empty()) << option.name;
    for (const std::string& user : option.tags.methods) EXPECT_NO_THROW(find_method(user)) << option.name;
    EXPECT_TRUE(std::any_of(option_values().begin(), option_values().end(),
                            [&](const OptionValues& values) { return values.option == option.name; }))
        << option.name << " is not in the contract";
  }
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
