// Vectors move once, by the sum of their uses in the order of the rows, for any number of threads.
#include "train/vector_uses.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace truemax {
namespace {

struct Listed {
  FeatureId vector;
  float value;
};

TEST(VectorUses, MoveEveryVectorBySumsInTheOrderOfTheRows) {
  constexpr std::size_t kVectors = 300, kLongest = 9, kHidden = 5, kMostRows = 100;
  std::mt19937_64 random(1);
  for (const std::size_t threads : {1U, 2U, 17U}) {
    Team team(threads);
    VectorUses uses;
    uses.reserve(kVectors, kMostRows, kLongest, 40, kHidden, team);
    // The lists of a long step must not show in a shorter one after it.
    for (const std::size_t rows : {100U, 33U, 1U, 0U}) {
      std::vector<std::vector<Listed>> of_row(rows);
      for (auto& row : of_row)
        for (std::size_t n = random() % (kLongest + 1); n > 0; --n)
          row.push_back({static_cast<FeatureId>(random() % (n % 2 == 0 ? 3 : kVectors)),
                         static_cast<float>(random() % 1000) / 7});
      std::vector<FeatureId> others(40);
      for (FeatureId& f : others) f = static_cast<FeatureId>(random() % kVectors);
      std::vector<float> gradients(others.size() * kHidden);
      for (float& g : gradients) g = static_cast<float>(random() % 1000) / 3;
      const LearntRate rate{0.1F, 0.9F, 0.01F};

      Embedding table(kVectors, kHidden), wanted(kVectors, kHidden);
      for (float& e : table.numbers) e = static_cast<float>(random() % 100) / 9;
      wanted.numbers = table.numbers;
      HugeVector<float> square(kVectors * kHidden, 0.5F), wanted_square = square;
      std::vector<std::vector<float>> sums(kVectors);
      const auto sum_of = [&](FeatureId f) -> std::vector<float>& {
        if (sums[f].empty()) sums[f].assign(kHidden, 0.0F);
        return sums[f];
      };
      for (std::size_t i = 0; i < rows; ++i)
        for (const Listed& l : of_row[i])
          for (float& s : sum_of(l.vector)) s += static_cast<float>(i) * l.value;
      for (std::size_t i = 0; i < others.size(); ++i)
        add_scaled(sum_of(others[i]).data(), gradients.data() + i * kHidden, 1, kHidden);
      for (FeatureId f = 0; f < kVectors; ++f) {
        if (sums[f].empty()) continue;
        add_scaled(sums[f].data(), wanted.row(f), rate.ridge, kHidden);
        move_row(wanted, wanted_square, f, sums[f].data(), rate);
      }

      team.share(VectorUses::lists_of(rows), [&](std::size_t, std::size_t list) {
        uses.list(list, rows, [&](std::size_t i, const auto& add) {
          for (const Listed& l : of_row[i])
            add(l.vector, VectorUses::Use{static_cast<std::uint32_t>(i), l.value});
        });
      });
      uses.step(rows, table, square, {others, gradients.data()}, rate, team,
                [&](float* sum, const VectorUses::Use& use, const float*) {
                  for (std::size_t c = 0; c < kHidden; ++c) sum[c] += static_cast<float>(use.row) * use.value;
                });
      EXPECT_EQ(table.numbers, wanted.numbers) << threads << " threads, " << rows << " rows";
      EXPECT_EQ(square, wanted_square) << threads << " threads, " << rows << " rows";
    }
  }
}

}  // namespace
}  // namespace truemax
