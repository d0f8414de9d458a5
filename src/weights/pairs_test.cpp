// The float32 kernels of the paper's step, on every instruction set, against long double and against
// kernels.hpp.
#include "weights/pairs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "weights/kernels.hpp"
#include "weights/test_support.hpp"

namespace truemax {
namespace {

using Wide = long double;

// Steps over the rows, each with two distinct classes, in no particular order.
struct PairScene {
  Weights w;
  Csr rows;
  std::vector<ClassId> drawn, label;

  PairScene(std::uint64_t seed, std::size_t classes, std::size_t count, double x_decades, double w_decades) {
    Engine random(seed);
    w = random_weights(random, classes, 80, false, w_decades);
    rows = random_rows(random, count, 80, 50, x_decades);
    std::uniform_int_distribution<ClassId> any(0, static_cast<ClassId>(classes - 1));
    for (std::size_t t = 0; t < count; ++t) {
      drawn.push_back(any(random));
      label.push_back((drawn.back() + 1 + any(random) % static_cast<ClassId>(classes - 1)) %
                      static_cast<ClassId>(classes));
    }
  }
  std::vector<PairPlace> places() {
    std::vector<PairPlace> list;
    for (std::size_t t = 0; t < drawn.size(); ++t)
      list.push_back({rows.row(t), w.lane(drawn[t]), w.lane(label[t])});
    return list;
  }
};

struct Scores {
  std::vector<double> drawn, label;
  bool operator==(const Scores&) const = default;
};

Scores scores_on(std::int64_t target, PairScene& scene) {
  const OnInstructionSet here(target);
  const std::vector<PairPlace> places = scene.places();
  Scores z{std::vector<double>(places.size()), std::vector<double>(places.size())};
  score_pairs(places.data(), places.size(), z.drawn.data(), z.label.data());
  return z;
}

// n products summed in float32 in two partial sums: each term goes through at most n/2 + 2 roundings.
double float_bound(const Weights& w, RowView x, ClassId k) {
  Wide sizes = 0;
  for (std::size_t j = 0; j < x.index.size(); ++j)
    sizes += std::abs(static_cast<Wide>(x.value[j]) * static_cast<Wide>(w.lane(k)[x.index[j] * kLanes]));
  const double roundings = static_cast<double>(x.index.size()) / 2 + 2;
  return 1.001 * roundings * 0x1p-24 * static_cast<double>(sizes);
}

TEST(PairKernels, ScoresMatchDoubleWithinFloatRounding) {
  for (const double decades : {0.5, 2.0, 6.0})
    for (const std::int64_t target : instruction_sets()) {
      PairScene scene(1, 37, 200, decades / 2, decades);
      const Scores z = scores_on(target, scene);
      for (std::size_t t = 0; t < z.drawn.size(); ++t) {
        const RowView x = scene.rows.row(t);
        const ClassId k = scene.drawn[t], y = scene.label[t];
        const auto slow = scores<2>(scene.w, x, {k, y});
        EXPECT_LE(std::abs(z.drawn[t] - slow[0]), float_bound(scene.w, x, k)) << instruction_set_name(target);
        EXPECT_LE(std::abs(z.label[t] - slow[1]), float_bound(scene.w, x, y)) << instruction_set_name(target);
      }
    }
}

TEST(PairKernels, AddsAreExactWithinThreeFloatRoundings) {
  for (const std::int64_t target : instruction_sets()) {
    PairScene scene(2, 37, 200, 1, 1);
    Engine random(3);
    for (std::size_t t = 0; t < scene.drawn.size(); ++t) {
      const std::vector<float> before = all_cells(scene.w);
      const PairPlace place = scene.places()[t];
      const double c = static_cast<double>(wide(random, 2)) * (1 + 1e-9);  // not a float
      const OnInstructionSet here(target);
      add_pairs(&place, 1, &c);
      std::vector<float> expected = before;  // cells that must not change
      for (std::size_t j = 0; j < place.x.index.size(); ++j)
        for (const auto& [lane, sign] : {std::pair{place.drawn, -1}, std::pair{place.label, 1}}) {
          const std::size_t at =
              static_cast<std::size_t>(lane - scene.w.block(0)) + place.x.index[j] * kLanes;
          const Wide move = sign * static_cast<Wide>(c) * static_cast<Wide>(place.x.value[j]);
          const Wide exact = static_cast<Wide>(before[at]) + move;
          EXPECT_LE(std::abs(static_cast<Wide>(scene.w.block(0)[at]) - exact),
                    0x1.001p-24L * (2 * std::abs(move) + std::abs(exact)));
          expected[at] = scene.w.block(0)[at];
        }
      const std::vector<float> after = all_cells(scene.w);
      ASSERT_EQ(std::memcmp(after.data(), expected.data(), after.size() * sizeof(float)), 0)
          << instruction_set_name(target) << " step " << t << " touched a cell that is not its own";
    }
  }
}

TEST(PairKernels, UpdatesOfLabelAndDrawnCancelBitForBit) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet here(target);
    Engine random(4);
    const Csr rows = random_rows(random, 60, 40, 20, 3);
    for (std::size_t t = 0; t < rows.rows(); ++t) {
      Weights w(20, 40, false);
      const PairPlace place{rows.row(t), w.lane(7), w.lane(static_cast<ClassId>(t % 3 == 0 ? 8 : 19))};
      const double c = static_cast<double>(wide(random, 3));
      add_pairs(&place, 1, &c);
      for (std::size_t f = 0; f < 40; ++f) ASSERT_EQ(place.drawn[f * kLanes], -place.label[f * kLanes]);
      EXPECT_EQ(w.largest() > 0, !place.x.index.empty());
    }
  }
}

// Steps of one call that share classes or rows take effect in order.
TEST(PairKernels, StepSeesEarlierUpdates) {
  for (const std::int64_t target : instruction_sets()) {
    PairScene at_once(5, 5, 40, 1, 1), one_by_one(5, 5, 40, 1, 1);
    std::vector<double> c;
    Engine random(6);
    for (std::size_t t = 0; t < 40; ++t) c.push_back(static_cast<double>(wide(random, 1)));
    const OnInstructionSet here(target);
    add_pairs(at_once.places().data(), 40, c.data());
    for (std::size_t t = 0; t < 40; ++t) add_pairs(&one_by_one.places()[t], 1, &c[t]);
    EXPECT_EQ(all_cells(at_once.w), all_cells(one_by_one.w)) << instruction_set_name(target);
  }
}

// Machines differ only in whether they fuse multiply and add: at most two results, within the error bound of
// the first test. Two results also show that forcing an instruction set has an effect.
TEST(PairKernels, InstructionSetsGiveOneOfTwoResults) {
  std::set<std::vector<double>> results;
  bool fuses = false, rounds = false;
  for (const std::int64_t target : instruction_sets()) {
    const std::string name = instruction_set_name(target);
    fuses |= name.find("AVX") != std::string::npos;
    rounds |= name.find("SSE") != std::string::npos;
    PairScene scene(7, 37, 300, 0.5, 0.5);
    Scores z = scores_on(target, scene);
    z.drawn.insert(z.drawn.end(), z.label.begin(), z.label.end());
    results.insert(z.drawn);
  }
  EXPECT_LE(results.size(), 2U);
  if (fuses && rounds) {
    EXPECT_EQ(results.size(), 2U);
  }
}

TEST(PairKernels, RefusesInputsOutOfRange) {
  EXPECT_TRUE(pairs_are_safe(1));
  EXPECT_TRUE(pairs_are_safe(0x1p-40));
  EXPECT_TRUE(pairs_are_safe(0x1p40));
  EXPECT_FALSE(pairs_are_safe(std::nextafter(0x1p-40, 0)));
  EXPECT_FALSE(pairs_are_safe(std::nextafter(0x1p40, 0x1p41)));
  EXPECT_FALSE(pairs_are_safe(0));
  EXPECT_FALSE(pairs_are_safe(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(pairs_are_safe(std::numeric_limits<double>::quiet_NaN()));
}

// The ends of the range of pairs_are_safe, with weights of one sign, so that nothing cancels.
TEST(PairKernels, StaysPreciseAtTheEndsOfItsRange) {
  constexpr std::size_t kFeatures = 4096;
  std::vector<FeatureId> index(kFeatures);
  for (std::size_t f = 0; f < kFeatures; ++f) index[f] = static_cast<FeatureId>(f);
  for (const double norm : {kPairNormLow, 1.0, kPairNormHigh})
    for (const double weight : {0x1p-40, 1.0, kPairWeightHigh})
      for (const std::int64_t target : instruction_sets()) {
        const OnInstructionSet here(target);
        const std::vector<float> value(kFeatures, static_cast<float>(std::sqrt(norm / kFeatures)));
        const RowView x{index, value};
        ASSERT_TRUE(pairs_are_safe(squared_norm(x, false)));
        Weights w(2, kFeatures, false);
        w.set_class(0, std::vector<float>(kFeatures, static_cast<float>(weight)));
        w.set_class(1, std::vector<float>(kFeatures, static_cast<float>(-weight)));
        const PairPlace place{x, w.lane(0), w.lane(1)};
        double drawn = 0, label = 0;
        score_pairs(&place, 1, &drawn, &label);
        EXPECT_NEAR(drawn / score(w, x, 0), 1, 2050 * 0x1p-24);
        EXPECT_EQ(label, -drawn);
        const double c = weight / std::sqrt(norm / kFeatures);
        add_pairs(&place, 1, &c);
        EXPECT_LE(w.largest(), 1e-6 * weight);
      }
}

}  // namespace
}  // namespace truemax
