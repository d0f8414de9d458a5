// Every draw: expected weight 1 for every class but the label, by enumeration of its random numbers.
#include "draw/draw.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "draw/uniform.hpp"

namespace truemax {
namespace {

TEST(UniformDraw, EveryClassButTheLabelHasExpectedWeightOneByEnumeration) {
  for (const std::size_t classes : {2U, 3U, 5U})
    for (const std::size_t m : {1U, 2U, 3U}) {
      const UniformDraw draw(classes, m);
      for (ClassId label = 0; label < classes; ++label) {
        std::vector<double> expected(classes, 0.0);
        const std::size_t outcomes = static_cast<std::size_t>(std::pow(classes - 1, m) + 0.5);
        for (std::size_t outcome = 0; outcome < outcomes; ++outcome) {
          std::vector<ClassId> numbers(m);
          std::size_t rest = outcome;
          for (ClassId& number : numbers)
            number = static_cast<ClassId>(rest % (classes - 1)), rest /= classes - 1;
          std::vector<ClassId> drawn(m);
          std::vector<double> weights(m);
          const std::size_t count = draw.merge(numbers, label, drawn.data(), weights.data());
          for (std::size_t j = 0; j < count; ++j)
            expected[drawn[j]] += weights[j] / static_cast<double>(outcomes);
        }
        for (ClassId k = 0; k < classes; ++k)
          EXPECT_NEAR(expected[k], k == label ? 0.0 : 1.0, 1e-12)
              << classes << ' ' << m << ' ' << label << ' ' << k;
      }
    }
}

TEST(UniformDraw, ManyNumbersAreMergedLikeFew) {
  const UniformDraw draw(10, 1000);
  std::vector<ClassId> numbers(1000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<ClassId>(i * 7 % 9);
  std::vector<double> expected(10, 0.0);
  for (const ClassId number : numbers) expected[number + (number >= 4 ? 1 : 0)] += 9.0 / 1000;
  std::vector<ClassId> drawn(1000);
  std::vector<double> weights(1000);
  const std::size_t count = draw.merge(numbers, 4, drawn.data(), weights.data());
  ASSERT_EQ(count, 9U);
  for (std::size_t j = 0; j < count; ++j) EXPECT_NEAR(weights[j], expected[drawn[j]], 1e-12);
}

// For any draw of the table, over many steps: no label, no class twice in a step, weights of mean 1 within
// five standard errors (a false alarm once in two million for each class).
TEST(EveryDraw, NeverDrawsTheLabelNorAClassTwiceAndIsUnbiased) {
  constexpr std::size_t kClasses = 23, kSteps = 200000;
  for (const DrawInfo& info : draws())
    for (const std::size_t m : {1U, 5U, 40U}) {
      const auto draw = make_draw(info.name, kClasses, m);
      const ClassId label = 7;
      const std::vector<ClassId> labels(kSteps, label);
      DrawBuffer buffer;
      draw->fill(CounterRandom(5, Stream::draw, 0), 0, labels, buffer);
      std::vector<double> sum(kClasses, 0.0), squares(kClasses, 0.0);
      for (std::size_t t = 0; t < kSteps; ++t) {
        ASSERT_LE(buffer.count[t], draw->most_classes());
        std::set<ClassId> seen;
        for (std::size_t j = 0; j < buffer.count[t]; ++j) {
          const ClassId k = buffer.classes[t * buffer.capacity + j];
          const double weight = buffer.weights[t * buffer.capacity + j];
          ASSERT_LT(k, kClasses);
          ASSERT_NE(k, label);
          ASSERT_TRUE(seen.insert(k).second);
          sum[k] += weight;
          squares[k] += weight * weight;
        }
      }
      for (ClassId k = 0; k < kClasses; ++k) {
        if (k == label) continue;
        const double mean = sum[k] / kSteps;
        const double error = std::sqrt((squares[k] / kSteps - mean * mean) / kSteps);
        EXPECT_NEAR(mean, 1.0, 5 * error + 1e-9) << info.name << " m " << m << " class " << k;
      }
    }
}

TEST(EveryDraw, StepsDoNotDependOnWhereABufferStarts) {
  for (const DrawInfo& info : draws())
    for (const std::size_t m : {1U, 3U}) {
      const auto draw = make_draw(info.name, 50, m);
      const std::vector<ClassId> labels(64, 3);
      const CounterRandom random(9, Stream::draw, 2);
      DrawBuffer whole, part;
      draw->fill(random, 0, labels, whole);
      draw->fill(random, 17, std::span(labels).first(20), part);
      for (std::size_t t = 0; t < 20; ++t) {
        ASSERT_EQ(part.count[t], whole.count[t + 17]);
        for (std::size_t j = 0; j < part.count[t]; ++j)
          EXPECT_EQ(part.classes[t * part.capacity + j], whole.classes[(t + 17) * whole.capacity + j]);
      }
    }
}

TEST(MakeDraw, RefusesANameThatIsNotInTheTable) {
  EXPECT_ANY_THROW(make_draw("nonsense", 10, 1));
}

}  // namespace
}  // namespace truemax
