// The paper's beta, by enumeration of all rows and draws of a step.
#include "train/step_inputs.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "data/test_access.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

Dataset labelled(std::vector<ClassId> labels, std::size_t classes) {
  Dataset data = random_data({.rows = labels.size(), .classes = classes});
  data.label = std::move(labels);
  return data;
}

// All subsets of size `count` of the numbers below `of`, as bit masks.
std::vector<unsigned> sets(std::size_t of, std::size_t count) {
  std::vector<unsigned> list;
  for (unsigned set = 0; set < (1U << of); ++set)
    if (std::popcount(set) == static_cast<int>(count)) list.push_back(set);
  return list;
}

// By enumeration: the mean row weight of steps that have the class, as a share of that of all steps. Without
// row weights it is the probability that a step has the class.
TEST(RidgeWeights, AreInverseInclusionProbabilities) {
  constexpr std::size_t kProblemClasses = 5;
  for (const bool weights : {false, true}) {
    Dataset data = labelled({0, 1, 1, 3, 0, 0, 2}, kProblemClasses);  // class 4 is never a label
    if (weights) data.weight = {3, 0.5, 1, 8, 0.25, 1, 2};
    for (const std::size_t n : {1U, 2U, 3U, 7U})
      for (const std::size_t rows_of_step : {std::size_t{1}, n})  // the last step of an epoch may be short
        for (const std::size_t m : {1U, 2U, 4U}) {
          const auto draw = make_draw(
              {.name = "uniform", .classes = kProblemClasses, .classes_per_step = m, .shared = n > 1});
          std::vector<double> in(kProblemClasses, 0.0);
          double all = 0;
          for (const unsigned rows : sets(data.size(), rows_of_step)) {
            unsigned labels = 0;
            double weight = 0;
            for (std::size_t i = 0; i < data.size(); ++i)
              if ((rows >> i & 1U) != 0) labels |= 1U << data.label[i], weight += weight_of(data, i);
            for (const unsigned drawn : sets(kProblemClasses, m)) {
              if (n == 1 && (drawn & labels) != 0) continue;  // one row never draws its label
              all += weight;
              for (std::size_t k = 0; k < kProblemClasses; ++k)
                if (((drawn | labels) >> k & 1U) != 0) in[k] += weight;
            }
          }
          const std::vector<double> beta = ridge_weights(data, draw.get(), rows_of_step);
          for (std::size_t k = 0; k < kProblemClasses; ++k)
            EXPECT_NEAR(beta[k] * in[k] / all, 1, 1e-12)
                << n << 'x' << m << " rows " << rows_of_step << " class " << k << " weights " << weights;
        }
    for (const double beta : ridge_weights(data, nullptr, 1)) EXPECT_EQ(beta, 1);
  }
}

// A block draw for one row also brings the block of the label. Enumerates all rows and all pairs of rows;
// draw_test.cpp enumerates the draws themselves.
TEST(RidgeWeights, IncludeTheBlockOfTheLabel) {
  constexpr std::size_t kProblemClasses = 40;
  Dataset data = labelled({0, 1, 17, 3, 0, 39, 2, 16, 17}, kProblemClasses);
  data.weight = {1, 2, 0.5, 4, 1, 1, 3, 0.25, 1};
  for (const char* name : {"frequency", "blocks", "head-blocks", "all"})
    for (const std::size_t n : {1U, 2U}) {
      Recipe options = options_of("umax", 1);
      options.draw = name, options.draws.head = 16, options.rows_per_step = n;
      const auto draw = draw_for(options, facts_of(data));
      const bool blocks = draw->whole_blocks() && n == 1;
      const std::vector<double> beta = ridge_weights(data, draw.get(), n);
      for (ClassId k = 0; k < kProblemClasses; ++k) {
        double in = 0, all = 0;
        for (std::size_t i = 0; i < data.size(); ++i)
          for (std::size_t j = 0; j < data.size(); ++j) {
            if (n == 2 && i == j) continue;
            bool brought = false;
            for (const std::size_t row : {i, n == 2 ? j : i})
              brought |= data.label[row] == k || (blocks && data.label[row] / 16 == k / 16);
            const double weight = data.weight[i] + (n == 2 ? data.weight[j] : 0);
            in += weight * (brought ? 1 : draw->inclusion(k));
            all += weight;
          }
        EXPECT_NEAR(beta[k] * in / all, 1, 1e-12) << name << " n " << n << " class " << k;
      }
    }
}

TEST(ProblemInfo, BoundsAreFiniteOnlyWithRidge) {
  const Dataset data = random_data({.rows = 50, .classes = 6, .weights = true});
  Recipe options = options_of("umax", 1);
  EXPECT_EQ(rule_problem(data, options).weight_bound(), HUGE_VAL);
  EXPECT_EQ(rule_problem(data, options).u_bound(), HUGE_VAL);
  options.ridge = 0.5;
  const ProblemInfo info = rule_problem(data, options);
  EXPECT_NEAR(info.total_weight, 50, 1e-5);  // the weights of a row's examples add up to 1
  EXPECT_NEAR(info.weight_bound(), std::sqrt(4 * 50 * std::log(6.0)), 1e-4);
  EXPECT_NEAR(info.u_bound(), 2 * info.longest_row * info.weight_bound() + std::log(5.0), 1e-9);
  options.intercept = true;
  EXPECT_EQ(rule_problem(data, options).u_bound(), HUGE_VAL);  // an intercept outside the ridge is unbounded
  options.ridge_intercept = true;
  EXPECT_LT(rule_problem(data, options).u_bound(), HUGE_VAL);
  EXPECT_GT(rule_problem(data, options).longest_row, info.longest_row);
}

}  // namespace
}  // namespace truemax
