// Every draw of the table over many steps with the random numbers of training; how steps are numbered, and
// properties of single draws. Enumeration checks mean weight 1 as well (enumeration_test.cpp).
#include "draw/draw.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "core/error.hpp"
#include "draw/test_support.hpp"

namespace truemax {
namespace {

// For every draw, for one row and shared, over many steps: never the label, no class twice in a step, mean
// weight 1 within six standard errors (a false alarm once in 500 million per class).
TEST(EveryDraw, IsUnbiasedAndDrawsDistinctNonLabels) {
  constexpr std::size_t kSteps = 100000;
  const DrawOptions options{.head = 16};
  for (const DrawInfo& info : draws())
    for (const std::size_t classes : {7U, 40U})
      for (const bool shared : {false, true})
        for (const std::size_t m : {1U, 5U, 20U}) {
          if (shared && !info.takes_rows) continue;
          const auto draw = skewed_draw(info.name, classes, m, shared, options);
          const ClassId label = shared ? kUnseenClass : 3;
          const std::vector<ClassId> labels(kSteps, label);
          const std::vector<ExampleId> examples(kSteps, ExampleId{1});
          DrawBuffer buffer;
          draw->fill(CounterRandom(5, Stream::draw, 0), 0, kSteps, labels, examples, buffer);
          std::vector<double> sum(classes, 0.0), squares(classes, 0.0), in(classes, 0.0);
          std::vector<std::size_t> last(classes, kSteps);
          for (std::size_t t = 0; t < kSteps; ++t) {
            ASSERT_LE(buffer.count[t], draw->most_classes());
            for (std::size_t j = 0; j < buffer.count[t]; ++j) {
              const ClassId k = buffer.classes[t * buffer.capacity + j];
              const double weight = buffer.weights[t * buffer.capacity + j];
              ASSERT_LT(k, classes);
              ASSERT_NE(k, label);
              ASSERT_NE(last[k], t);
              last[k] = t;
              sum[k] += weight, squares[k] += weight * weight, in[k] += 1;
            }
          }
          for (ClassId k = 0; k < classes; ++k) {
            if (k == label) continue;
            const double mean = sum[k] / kSteps;
            const double error = std::sqrt(std::max(0.0, squares[k] / kSteps - mean * mean) / kSteps);
            EXPECT_NEAR(mean, 1.0, 6 * error + 1e-9) << info.name << " m " << m << " class " << k;
            if (draw->learns()) continue;
            EXPECT_NEAR(in[k] / kSteps, with_the_label(*draw, k, label) ? 1 : draw->inclusion(k),
                        6 * std::sqrt(0.25 / kSteps))
                << info.name << " m " << m << " class " << k;
          }
        }
}

TEST(EveryDraw, IsIndependentOfBufferStarts) {
  for (const DrawInfo& info : draws())
    for (const bool shared : {false, true})
      for (const std::size_t m : {1U, 3U, 40U}) {
        if (shared && !info.takes_rows) continue;
        const auto draw = skewed_draw(info.name, 50, m, shared, {.head = 16});
        const std::vector<ClassId> labels(64, 3);
        const std::vector<ExampleId> rows(64, ExampleId{0});
        const CounterRandom random(9, Stream::draw, 2);
        DrawBuffer whole, part;
        BlockBuffer blocks, part_blocks;
        draw->fill(random, 0, 64, labels, rows, whole);
        draw->fill(random, 17, 20, std::span(labels).first(20), std::span(rows).first(20), part);
        draw->fill_blocks(random, 0, 64, labels, rows, blocks);
        draw->fill_blocks(random, 17, 20, std::span(labels).first(20), std::span(rows).first(20),
                          part_blocks);
        for (std::size_t t = 0; t < 20; ++t) {
          ASSERT_EQ(part.count[t], whole.count[t + 17]);
          for (std::size_t j = 0; j < part.count[t]; ++j)
            EXPECT_EQ(part.classes[t * part.capacity + j], whole.classes[(t + 17) * whole.capacity + j]);
          ASSERT_EQ(part_blocks.count[t], blocks.count[t + 17]);
          for (std::size_t j = 0; j < part_blocks.count[t]; ++j)
            EXPECT_EQ(part_blocks.blocks[t * part_blocks.capacity + j],
                      blocks.blocks[(t + 17) * blocks.capacity + j]);
        }
      }
}

// Every set of m classes is equally likely. Five standard errors.
TEST(UniformDraw, SharedDrawTakesEverySetEquallyOften) {
  constexpr std::size_t kClasses = 7, kSteps = 100000;
  for (const std::size_t m : {1U, 3U, 7U, 9U}) {
    const auto draw = skewed_draw("uniform", kClasses, m, true);
    DrawBuffer buffer;
    draw->fill(CounterRandom(6, Stream::draw, 0), 0, kSteps, {}, {}, buffer);
    std::map<std::set<ClassId>, double> sets;
    for (std::size_t t = 0; t < kSteps; ++t) {
      const auto first = buffer.classes.begin() + static_cast<std::ptrdiff_t>(t * buffer.capacity);
      ++sets[std::set<ClassId>(first, first + buffer.count[t])];
    }
    const double most = static_cast<double>(std::min<std::size_t>(m, 7));
    const double expected =
        kSteps / std::exp(std::lgamma(8.0) - std::lgamma(1.0 + most) - std::lgamma(8.0 - most));
    for (const auto& [classes, times] : sets) {
      EXPECT_EQ(classes.size(), std::min<std::size_t>(m, 7));
      EXPECT_NEAR(times, expected, 5 * std::sqrt(expected) + 1e-6);
    }
  }
}

// The fast path for one class matches the general one.
TEST(UniformDraw, OneClassFastPathMatchesTheGeneralOne) {
  const auto draw = skewed_draw("uniform", 1000, 1, false);
  const std::vector<ClassId> labels(500, 400);
  const CounterRandom random(3, Stream::draw, 1);
  DrawBuffer fast, slow;
  draw->fill(random, 5, 500, labels, {}, fast);
  draw->Draw::fill(random, 5, 500, labels, {}, slow);
  EXPECT_EQ(fast.classes, slow.classes);
  EXPECT_EQ(fast.weights, slow.weights);
  EXPECT_EQ(fast.count, slow.count);
}

// The classes of a block draw are those of its blocks, without the label and padding; the blocks are
// distinct, and the head and, for one row, the label's block are included with weight 1.
TEST(BlockDraw, DrawsTheClassesOfItsBlocks) {
  constexpr std::size_t kSteps = 2000;
  for (const char* name : {"blocks", "head-blocks"})
    for (const std::size_t classes : {1U, 5U, 16U, 23U, 33U, 200U})
      for (const std::size_t m : {1U, 16U, 17U, 100U, 1000U})
        for (const bool shared : {false, true}) {
          const DrawOptions options{.head = 40};
          const auto draw = skewed_draw(name, classes, m, shared, options);
          const std::size_t head =
              name == std::string("blocks") ? 0 : std::min((classes + 15) / 16, std::size_t{3});
          std::vector<ClassId> labels(kSteps);
          for (std::size_t t = 0; t < kSteps; ++t) labels[t] = static_cast<ClassId>(t * 7 % classes);
          const CounterRandom random(8, Stream::draw, 0);
          DrawBuffer single;
          BlockBuffer whole;
          draw->fill(random, 3, kSteps, labels, {}, single);
          draw->fill_blocks(random, 3, kSteps, labels, {}, whole);
          EXPECT_TRUE(draw->whole_blocks());
          EXPECT_EQ(whole.capacity, draw->most_blocks());
          for (std::size_t t = 0; t < kSteps; ++t) {
            const ClassId label = shared ? kUnseenClass : labels[t];
            std::map<ClassId, double> from_blocks, from_classes;
            std::set<std::uint32_t> seen;
            ASSERT_LE(whole.count[t], whole.capacity);
            for (std::size_t j = 0; j < whole.count[t]; ++j) {
              const std::uint32_t b = whole.blocks[t * whole.capacity + j];
              const double weight = whole.weights[t * whole.capacity + j];
              ASSERT_TRUE(seen.insert(b).second);
              ASSERT_LT(b * 16, classes);
              if (b < head || b == label / 16) {
                ASSERT_EQ(weight, 1);
              }
              for (ClassId k = b * 16; k < std::min<std::size_t>(b * 16 + 16, classes); ++k)
                if (k != label) from_blocks[k] = weight;
            }
            for (std::uint32_t b = 0; b < head; ++b) ASSERT_TRUE(seen.count(b) > 0);
            ASSERT_TRUE(shared || seen.count(label / 16) > 0);
            ASSERT_LE(single.count[t], single.capacity);
            for (std::size_t j = 0; j < single.count[t]; ++j)
              from_classes[single.classes[t * single.capacity + j]] = single.weights[t * single.capacity + j];
            ASSERT_EQ(from_classes.size(), single.count[t]);
            ASSERT_EQ(from_classes, from_blocks);
          }
        }
}

TEST(HeadBlocks, HeadCanCoverAllClasses) {
  const auto draw = skewed_draw("head-blocks", 50, 1, false, {.head = 49});
  const std::vector<ClassId> labels{7, 49};
  DrawBuffer buffer;
  draw->fill(CounterRandom(1, Stream::draw, 0), 0, 2, labels, {}, buffer);
  for (const std::size_t t : {0U, 1U}) {
    ASSERT_EQ(buffer.count[t], 49U);
    for (std::size_t j = 0; j < 49; ++j) EXPECT_EQ(buffer.weights[t * buffer.capacity + j], 1);
  }
}

// Classes with more mass are drawn more often, and the power has its stated effect.
TEST(FrequencyDraw, FollowsTheMass) {
  const auto draw = skewed_draw("frequency", 100, 1, true, {.power = 1, .uniform_share = 1e-6});
  EXPECT_NEAR(draw->mean_count(0) / draw->mean_count(3), std::pow(4.0, 1.3), 1e-3);
  EXPECT_GT(draw->mean_count(6), 0);  // has no mass but can be drawn
}

// A row remembers the highest-scoring classes it has seen, separately from other rows, in the memory that
// belongs to the training state.
TEST(ActiveDraw, RemembersTheStrongestClassesOfEachRow) {
  const auto draw = skewed_draw("active", 30, 2, false, {.active = 3});
  std::vector<ClassId> memory;
  draw->attach(memory);
  EXPECT_EQ(memory.size() * sizeof(ClassId), draw->memory_bytes());
  EXPECT_EQ(draw->memory_bytes(), 3 * 3 * 4U);
  const std::vector<ClassId> classes{20, 4, 9, 11, 2};
  const std::vector<double> score{1, -5, 3, 2, 2};
  draw->learn(ExampleId{1}, classes, score.data());
  EXPECT_EQ(memory, (std::vector<ClassId>{kUnseenClass, kUnseenClass, kUnseenClass, 2, 9, 11, kUnseenClass,
                                          kUnseenClass, kUnseenClass}));
  const std::vector<ClassId> labels{5, 5};
  const std::vector<ExampleId> rows{ExampleId{1}, ExampleId{0}};
  DrawBuffer buffer;
  draw->fill(CounterRandom(1, Stream::draw, 0), 0, 2, labels, rows, buffer);
  EXPECT_EQ(buffer.count[0], 5U);
  EXPECT_EQ(buffer.count[1], 2U);
  const std::set<ClassId> seen(buffer.classes.begin(), buffer.classes.begin() + 5);
  for (const ClassId k : {2U, 9U, 11U}) EXPECT_EQ(seen.count(k), 1U);
  const std::vector<ClassId> fewer{9};
  draw->learn(ExampleId{1}, fewer, score.data());
  EXPECT_EQ(memory[3], 9U);
  EXPECT_EQ(memory[4], kUnseenClass);
}

TEST(MakeDraw, MakesEveryDrawOfTheTable) {
  const std::vector<double> mass(40, 1.0);
  for (const DrawInfo& info : draws()) {
    ASSERT_NE(info.make, nullptr) << info.name;
    const auto draw = make_draw(
        {.name = info.name, .classes = 40, .classes_per_step = 16, .label_mass = mass, .examples = 5});
    ASSERT_NE(draw, nullptr) << info.name;
    EXPECT_EQ(draw->whole_blocks(), info.whole_blocks) << info.name;
  }
}

TEST(MakeDraw, RefusesUnknownDraws) {
  EXPECT_THROW(make_draw({.name = "nonsense", .classes = 10}), UserError);
  EXPECT_THROW(make_draw({.name = "active", .classes = 10, .shared = true}), UserError);
}

TEST(DrawOptions, NameTheDrawsThatUseThem) {
  OptionTable table;
  DrawOptions options;
  options.describe(table);
  EXPECT_EQ(table.options().size(), 5U);
  for (const Option& option : table.options()) {
    EXPECT_FALSE(option.tags.draws.empty()) << option.name;
    for (const std::string& user : option.tags.draws) EXPECT_NO_THROW(find_draw(user));
  }
  EXPECT_THROW(table.find("draw-uniform")->parse("0"), UserError);
}

}  // namespace
}  // namespace truemax
