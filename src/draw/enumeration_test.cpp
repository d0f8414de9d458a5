// Every draw as a function of its random words, over all outcomes of the words: expected weight 1 for every
// class but the label, and the probabilities that the draw reports.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "draw/alias.hpp"
#include "draw/test_support.hpp"

namespace truemax {
namespace {

// One word for each possible outcome, with its probability.
struct Meaning {
  std::uint64_t word;
  double probability;
};
using Meanings = std::vector<Meaning>;

std::uint64_t word_at(long double place) {
  return static_cast<std::uint64_t>(std::ldexp(place, 64));
}

Meanings equal_cells(std::size_t n) {
  Meanings list;
  for (std::size_t i = 0; i < n; ++i)
    list.push_back({word_at((static_cast<long double>(i) + 0.5L) / static_cast<long double>(n)),
                    1 / static_cast<double>(n)});
  return list;
}

Meanings alias_cells(const AliasTable& table) {
  Meanings list;
  const auto n = static_cast<long double>(table.cells().size());
  for (std::size_t i = 0; i < table.cells().size(); ++i) {
    const long double keep = std::ldexp(static_cast<long double>(table.cells()[i].keep), -64);
    const auto first = static_cast<long double>(i);
    if (keep > 0) list.push_back({word_at((first + keep / 2) / n), static_cast<double>(keep / n)});
    list.push_back({word_at((first + (1 + keep) / 2) / n), static_cast<double>((1 - keep) / n)});
  }
  return list;
}

// For each word of a step.
std::vector<Meanings> meanings_of(const Draw& draw, std::string_view name, std::size_t classes, bool shared,
                                  const DrawOptions& options, std::size_t kept) {
  std::vector<Meanings> list;
  const std::size_t words = draw.words();
  // Floyd: word j is below n - m + j + 1
  if (name == "uniform" || name == "uniform-skip" || name == "active") {
    const std::size_t among = classes - (shared || name == "uniform-skip" ? 0 : 1) - kept,
                      m = std::min(words, among);
    for (std::size_t j = 0; j < words; ++j) list.push_back(equal_cells(j < m ? among - m + j + 1 : 1));
    return list;
  }
  std::vector<double> mass = skewed_mass(classes);
  if (name == "blocks" || name == "head-blocks") {
    std::vector<double> of_block((classes + 15) / 16, 0.0);
    for (std::size_t k = 0; k < classes; ++k) of_block[k / 16] += mass[k];
    const std::size_t head = name == "blocks" ? 0 : (options.head + 15) / 16;
    of_block.erase(of_block.begin(),
                   of_block.begin() + static_cast<std::ptrdiff_t>(std::min(head, of_block.size())));
    mass = of_block;
  }
  const AliasTable table(mixed_probabilities(mass, options.power, options.uniform_share));
  for (std::size_t j = 0; j < words; ++j) list.push_back(alias_cells(table));
  return list;
}

// Calls visit(words, probability) for all combinations of the words of a step.
template <class Visit>
void enumerate(const std::vector<Meanings>& meanings, Visit&& visit) {
  std::vector<std::size_t> at(meanings.size(), 0);
  std::vector<std::uint64_t> words(meanings.size());
  for (;;) {
    double probability = 1;
    for (std::size_t j = 0; j < at.size(); ++j)
      words[j] = meanings[j][at[j]].word, probability *= meanings[j][at[j]].probability;
    visit(words, probability);
    std::size_t j = 0;
    for (; j < at.size() && ++at[j] == meanings[j].size(); ++j) at[j] = 0;
    if (j == at.size()) return;
  }
}

struct Expected {
  std::vector<double> weight, in;
  double probability = 0;
};

Expected expectation(const Draw& draw, const std::vector<Meanings>& meanings, std::size_t classes,
                     ClassId label, ExampleId example) {
  Expected sum{std::vector(classes, 0.0), std::vector(classes, 0.0), 0};
  std::vector<ClassId> drawn(draw.most_classes());
  std::vector<double> weights(draw.most_classes());
  enumerate(meanings, [&](std::vector<std::uint64_t> words, double probability) {
    const std::size_t count = draw.step(words, label, example, drawn.data(), weights.data());
    EXPECT_LE(count, draw.most_classes());
    EXPECT_TRUE(!draw.always_full() || count == draw.most_classes());
    sum.probability += probability;
    std::set<ClassId> seen;
    for (std::size_t j = 0; j < count; ++j) {
      ASSERT_LT(drawn[j], classes);
      ASSERT_TRUE(seen.insert(drawn[j]).second);
      ASSERT_GT(weights[j], 0);
      sum.weight[drawn[j]] += probability * weights[j];
      sum.in[drawn[j]] += probability;
    }
  });
  return sum;
}

TEST(EveryDraw, ExpectedWeightIsOneByEnumeration) {
  const DrawOptions plain, flat{.power = 0, .uniform_share = 1, .head = 16, .active = 3},
      steep{.power = 2.5, .uniform_share = 0.01, .head = 17, .active = 60};
  for (const DrawInfo& info : draws())
    for (const std::size_t classes : {2U, 5U, 16U, 17U, 23U, 40U, 64U})
      for (const std::size_t m : {1U, 2U, 17U, 33U})
        for (const DrawOptions& options : {plain, flat, steep})
          for (const bool shared : {false, true}) {
            const bool by_class = info.name != "blocks" && info.name != "head-blocks";
            if (by_class && m > 2) continue;  // too many to enumerate
            if (shared && !info.takes_rows) continue;
            const auto draw = skewed_draw(info.name, classes, m, shared, options);
            const auto meanings = meanings_of(*draw, info.name, classes, shared, options, 0);
            for (const ClassId last : {0U, 1U, static_cast<ClassId>(classes / 2), 99U}) {
              const ClassId label = shared ? kUnseenClass : std::min(last, static_cast<ClassId>(classes - 1));
              const Expected sum = expectation(*draw, meanings, classes, label, ExampleId{0});
              EXPECT_NEAR(sum.probability, 1, 1e-12);
              for (ClassId k = 0; k < classes; ++k) {
                if (k == label) {
                  EXPECT_EQ(sum.in[k], 0);
                  continue;
                }
                EXPECT_NEAR(sum.weight[k], 1, 1e-10)
                    << info.name << " K " << classes << " m " << m << " label " << label << " class " << k;
                if (draw->learns()) continue;
                const double in = with_the_label(*draw, k, label) ? 1 : draw->inclusion(k);
                EXPECT_NEAR(sum.in[k], in, 1e-10) << info.name << " K " << classes << " m " << m;
              }
            }
          }
}

// For any memory: weight 1 for remembered classes, and mean weight 1 for all others.
TEST(ActiveDraw, ExpectedWeightIsOneForAnyMemory) {
  constexpr std::size_t kClasses = 9;
  const DrawOptions options{.active = 3};
  const std::vector<std::vector<ClassId>> memories{{0}, {8}, {0, 1, 2}, {3, 5, 8}, {1, 4}, {5, 6, 7}};
  for (const std::vector<ClassId>& kept : memories)
    for (const std::size_t m : {1U, 2U, 3U, 5U})
      for (ClassId label = 0; label < kClasses; ++label) {
        if (std::count(kept.begin(), kept.end(), label) > 0) continue;
        const auto draw = skewed_draw("active", kClasses, m, false, options);
        const std::vector<double> score(kept.size(), 0.0);
        draw->learn(ExampleId{2}, kept, score.data());
        const auto meanings = meanings_of(*draw, "active", kClasses, false, options, kept.size());
        const Expected sum = expectation(*draw, meanings, kClasses, label, ExampleId{2});
        for (ClassId k = 0; k < kClasses; ++k) {
          EXPECT_NEAR(sum.weight[k], k == label ? 0 : 1, 1e-12) << "label " << label << " class " << k;
          if (std::count(kept.begin(), kept.end(), k) > 0) {
            EXPECT_NEAR(sum.in[k], 1, 1e-12);
          }
        }
      }
}

// For any memory: weight 1 for the classes of remembered blocks, and mean weight 1 for all others.
TEST(BlockDraw, ExpectedWeightIsOneWhateverARowRemembers) {
  constexpr std::size_t kClasses = 90;  // six blocks, the last one not full
  for (const char* name : {"blocks", "head-blocks"})
    for (const std::size_t m : {16U, 48U})
      for (const std::vector<ClassId>& best :
           {std::vector<ClassId>{20}, {89, 3}, {17, 18, 70, 50}, {40, 41, 42, 88, 1, 2, 60}})
        for (const ClassId label : {0U, 20U, 45U, 85U}) {
          const DrawOptions options{.head = 16, .rivals = 3};
          const auto draw = skewed_draw(name, kClasses, m, false, options);
          std::vector<ClassId> memory;
          draw->attach(memory);
          draw->remember(ExampleId{2}, label, best);
          const auto meanings = meanings_of(*draw, name, kClasses, false, options, 0);
          const Expected sum = expectation(*draw, meanings, kClasses, label, ExampleId{2});
          const auto kept = draw->rivals_of(ExampleId{2});
          for (ClassId k = 0; k < kClasses; ++k) {
            EXPECT_NEAR(sum.weight[k], k == label ? 0 : 1, 1e-10) << "label " << label << " class " << k;
            if (k != label && std::count(kept.begin(), kept.end(), k / 16) > 0) {
              EXPECT_NEAR(sum.in[k], 1, 1e-12);
            }
          }
          // Another row remembers nothing.
          EXPECT_TRUE(draw->rivals_of(ExampleId{1}).empty());
        }
}

TEST(BlockDraw, ARowRemembersTheBlocksOfItsBestClassesOnce) {
  const auto draw = skewed_draw("head-blocks", 160, 16, false, {.head = 16, .rivals = 3});
  std::vector<ClassId> memory;
  draw->attach(memory);
  // The head, the label's block and blocks that are there already are left out.
  draw->remember(ExampleId{1}, 33, std::vector<ClassId>{40, 5, 100, 101, 159, 70, 80});
  const auto kept = draw->rivals_of(ExampleId{1});
  EXPECT_EQ(std::vector<ClassId>(kept.begin(), kept.end()), (std::vector<ClassId>{6, 9, 4}));
}

// The mean count is also over rows: labels by their mass, with the label's block always included. With one
// block drawn, a class is drawn once or not at all.
TEST(BlockDraw, ReportsTheMeanCountOverRowsAndDraws) {
  constexpr std::size_t kClasses = 40;
  const std::vector<double> mass = skewed_mass(kClasses);
  const double total = std::accumulate(mass.begin(), mass.end(), 0.0);
  for (const char* name : {"blocks", "head-blocks"})
    for (const bool shared : {false, true}) {
      const DrawOptions options{.head = 5};
      const auto draw = skewed_draw(name, kClasses, 16, shared, options);
      const auto meanings = meanings_of(*draw, name, kClasses, shared, options, 0);
      std::vector<double> mean(kClasses, 0.0);
      for (ClassId y = 0; y < kClasses; ++y) {
        const Expected sum = expectation(*draw, meanings, kClasses, shared ? kUnseenClass : y, ExampleId{0});
        for (ClassId k = 0; k < kClasses; ++k)
          mean[k] += mass[y] / total * (k == y && !shared ? 1 : sum.in[k]);
      }
      for (ClassId k = 0; k < kClasses; ++k) EXPECT_NEAR(draw->mean_count(k), mean[k], 1e-12) << name;
    }
}

// The table reproduces its probabilities to the last digits, however uneven.
TEST(AliasTable, ReproducesItsProbabilities) {
  for (const std::size_t n : {1U, 2U, 3U, 100U, 5000U})
    for (const double power : {0.0, 1.0, 4.0})
      for (const double share : {1e-6, 0.1, 1.0}) {
        const std::vector<double> q = mixed_probabilities(skewed_mass(n), power, share);
        EXPECT_NEAR(std::accumulate(q.begin(), q.end(), 0.0), 1, 1e-12);
        const AliasTable table(q);
        std::vector<double> got(n, 0.0);
        for (const Meaning& meaning : alias_cells(table))
          got[table.pick(meaning.word)] += meaning.probability;
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_GT(q[i], 0);
          EXPECT_NEAR(got[i] / q[i], 1, 1e-9) << n << ' ' << power << ' ' << share << ' ' << i;
        }
        for (const std::uint64_t word : {std::uint64_t{0}, ~std::uint64_t{0}}) EXPECT_LT(table.pick(word), n);
      }
}

TEST(MixedProbabilities, MixPowersOfTheMassWithUniform) {
  const std::vector<double> mass{6, 3, 1, 0};
  const auto q = mixed_probabilities(mass, 2, 0.2);
  for (std::size_t i = 0; i < mass.size(); ++i) EXPECT_NEAR(q[i], 0.8 * mass[i] * mass[i] / 46 + 0.05, 1e-15);
  for (const double v : mixed_probabilities(mass, 0, 0.2)) EXPECT_NEAR(v, 0.25, 1e-15);
  for (const double v : mixed_probabilities(std::vector<double>{0, 0}, 1, 0.1)) EXPECT_NEAR(v, 0.5, 1e-15);
  const auto huge = mixed_probabilities(std::vector<double>{1e300, 1e299}, 10, 0.1);
  EXPECT_NEAR(huge[0] + huge[1], 1, 1e-12);
}

}  // namespace
}  // namespace truemax
