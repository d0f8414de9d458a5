// Every draw: expected weight 1 for every class but the label, by enumeration of its random numbers.
#include "draw/draw.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace truemax {
namespace {

// For any draw of the table, over many steps: no label, no class twice in a step, weights of mean 1 within
// five standard errors (a false alarm once in two million for each class).
TEST(EveryDraw, NeverDrawsTheLabelNorAClassTwiceAndIsUnbiased) {
  constexpr std::size_t kClasses = 23, kSteps = 200000;
  for (const DrawInfo& info : draws())
    for (const std::size_t m : {1U, 5U, 40U}) {
      const auto draw = make_draw(info.name, kClasses, m, false);
      const ClassId label = 7;
      const std::vector<ClassId> labels(kSteps, label);
      DrawBuffer buffer;
      draw->fill(CounterRandom(5, Stream::draw, 0), 0, kSteps, labels, buffer);
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
    for (const bool shared : {false, true})
      for (const std::size_t m : {1U, 3U}) {
        const auto draw = make_draw(info.name, 50, m, shared);
        const std::vector<ClassId> labels(64, 3);
        const CounterRandom random(9, Stream::draw, 2);
        DrawBuffer whole, part;
        draw->fill(random, 0, 64, labels, whole);
        draw->fill(random, 17, 20, std::span(labels).first(20), part);
        for (std::size_t t = 0; t < 20; ++t) {
          ASSERT_EQ(part.count[t], whole.count[t + 17]);
          for (std::size_t j = 0; j < part.count[t]; ++j)
            EXPECT_EQ(part.classes[t * part.capacity + j], whole.classes[(t + 17) * whole.capacity + j]);
        }
      }
}

// Shared by rows: every class, label or not, has expected weight 1, every set of m is as likely as any other,
// and what the draw says of its probabilities is so. Five standard errors.
TEST(EveryDraw, SharedByRowsIsUnbiasedAndTellsItsProbabilities) {
  constexpr std::size_t kClasses = 7, kSteps = 100000;
  for (const DrawInfo& info : draws())
    for (const bool shared : {false, true})
      for (const std::size_t m : {1U, 3U, 7U, 9U}) {
        const auto draw = make_draw(info.name, kClasses, m, shared);
        DrawBuffer buffer;
        const std::vector<ClassId> labels(kSteps, 2);
        draw->fill(CounterRandom(6, Stream::draw, 0), 0, kSteps, labels, buffer);
        std::vector<double> sum(kClasses, 0.0), squares(kClasses, 0.0), seen(kClasses, 0.0),
            counted(kClasses, 0.0);
        std::map<std::set<ClassId>, double> sets;
        for (std::size_t t = 0; t < kSteps; ++t) {
          std::set<ClassId> classes;
          for (std::size_t j = 0; j < buffer.count[t]; ++j) {
            const ClassId k = buffer.classes[t * buffer.capacity + j];
            const double weight = buffer.weights[t * buffer.capacity + j];
            ASSERT_LT(k, kClasses);
            ASSERT_TRUE(classes.insert(k).second);
            sum[k] += weight, squares[k] += weight * weight, seen[k] += 1,
                counted[k] += weight * draw->mean_count(k);
          }
          ++sets[classes];
        }
        for (ClassId k = 0; k < kClasses; ++k) {
          if (!shared && k == 2) continue;
          const double mean = sum[k] / kSteps, share = seen[k] / kSteps;
          EXPECT_NEAR(mean, 1, 5 * std::sqrt((squares[k] / kSteps - mean * mean) / kSteps) + 1e-9)
              << m << ' ' << k;
          EXPECT_NEAR(share, draw->inclusion(k), 5 * std::sqrt(0.25 / kSteps)) << m << ' ' << k;
          EXPECT_NEAR(counted[k] / kSteps, draw->mean_count(k),
                      5 * std::sqrt(squares[k] / kSteps) * draw->mean_count(k) /
                              std::sqrt(static_cast<double>(kSteps)) +
                          1e-9);
        }
        if (!shared) continue;
        const double expected =
            kSteps /
            std::exp(std::lgamma(8.0) - std::lgamma(1.0 + static_cast<double>(std::min<std::size_t>(m, 7))) -
                     std::lgamma(8.0 - static_cast<double>(std::min<std::size_t>(m, 7))));
        for (const auto& [classes, times] : sets) {
          EXPECT_EQ(classes.size(), std::min<std::size_t>(m, 7));
          EXPECT_NEAR(times, expected, 5 * std::sqrt(expected) + 1e-6);
        }
      }
}

TEST(MakeDraw, RefusesANameThatIsNotInTheTable) {
  EXPECT_ANY_THROW(make_draw("nonsense", 10, 1, false));
}

}  // namespace
}  // namespace truemax
