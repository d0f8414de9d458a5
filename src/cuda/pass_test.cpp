// The kernels of evaluation, run on the CPU, against plain loops in double.
#include "cuda/pass.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace truemax::cuda {
namespace {

struct Data {
  std::vector<std::uint64_t> begin{0};
  std::vector<std::uint32_t> index, label, row;
  std::vector<float> value, weight, intercept;
  std::vector<Entry> entry;
  std::uint32_t classes, features = 12;

  Data(std::uint32_t rows, std::uint32_t k, double size, bool with_intercept) : classes(k) {
    std::mt19937_64 random(3);
    const auto uniform = [&](double a, double b) {
      return std::uniform_real_distribution<double>(a, b)(random);
    };
    for (std::uint32_t r = 0; r < rows; ++r) {
      for (std::uint32_t f = 0; f < features; ++f)
        if (uniform(0, 1) < 0.4)
          index.push_back(f), value.push_back(static_cast<float>(size * uniform(-1, 1)));
      for (std::size_t j = begin.back(); j < index.size(); ++j) entry.push_back({index[j], value[j]});
      begin.push_back(index.size());
      for (int i = 0; i < 2; ++i)
        row.push_back(r), label.push_back(static_cast<std::uint32_t>(uniform(0, k)));
    }
    const std::uint32_t blocks = (k + kBlock - 1) / kBlock;
    for (std::size_t i = 0; i < std::size_t{blocks} * features * kBlock; ++i)
      weight.push_back(static_cast<float>(uniform(-1, 1)));
    if (with_intercept)
      for (std::uint32_t i = 0; i < blocks * kBlock; ++i)
        intercept.push_back(static_cast<float>(uniform(-2, 2)));
  }
  PackedRows rows() const { return {begin.data(), entry.data()}; }
  Matrix matrix() {
    return {weight.data(), intercept.empty() ? nullptr : intercept.data(), classes, features};
  }
  double score(std::uint32_t r, std::uint32_t k, double scale) {
    double z = 0;
    for (std::uint64_t j = begin[r]; j < begin[r + 1]; ++j)
      z += static_cast<double>(value[j]) *
           static_cast<double>(matrix().line(k / kBlock, index[j])[k % kBlock]);
    return z * scale + (intercept.empty() ? 0.0 : static_cast<double>(intercept[k]));
  }
};

template <int kTop>
void compare(std::uint32_t rows, std::uint32_t classes, double size, bool intercept,
             std::uint32_t per_chunk) {
  Data data(rows, classes, size, intercept);
  const float scale = 0.5F;
  const std::uint32_t chunks = (data.matrix().blocks() + per_chunk - 1) / per_chunk;
  std::vector<RowPart> part(std::size_t{chunks} * rows);
  std::vector<BestList<kTop>> list(part.size());
  std::vector<std::uint32_t> order(rows);
  for (std::uint32_t r = 0; r < rows; ++r) order[r] = rows - 1 - r;
  std::vector<double> highest(rows), excess(rows), labels(data.label.size());
  std::vector<Best> best(std::size_t{rows} * kTop);
  // In two pieces, the second in another order.
  for (const bool second : {false, true}) {
    const std::uint32_t first = second ? rows / 3 : 0, count = second ? rows - first : rows / 3;
    const std::uint32_t* const by = second ? nullptr : order.data() + (rows - rows / 3);
    run_emulated(2, 48, 0,
                 ScoreChunk<kTop>{data.rows(), by, first, count, data.matrix(), scale, per_chunk, chunks,
                                  part.data(), list.data()});
    run_emulated(1, 32, 0,
                 JoinChunks<kTop>{by, first, count, chunks, part.data(), list.data(), highest.data(),
                                  excess.data(), best.data()});
  }
  run_emulated(
      1, 32, 0,
      ScoreLabels{data.rows(), data.row.data(), data.label.data(), 0,
                  static_cast<std::uint32_t>(data.label.size()), data.matrix(), scale, labels.data()});
  for (std::uint32_t r = 0; r < rows; ++r) {
    std::vector<std::pair<double, std::uint32_t>> all;
    for (std::uint32_t k = 0; k < classes; ++k) all.emplace_back(data.score(r, k, 0.5), k);
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    double sum = 0;
    for (const auto& [z, k] : all) sum += std::exp(z - all[0].first);
    ASSERT_NEAR(highest[r] + std::log(excess[r]), all[0].first + std::log(sum), 1e-5 * (1 + size)) << r;
    for (std::size_t i = 0; i < std::min<std::size_t>(kTop, classes); ++i) {
      ASSERT_NEAR(best[r * kTop + i].score, all[i].first, 1e-5 * (1 + size)) << r << " " << i;
      ASSERT_LT(best[r * kTop + i].number, classes);
      ASSERT_NEAR(data.score(r, best[r * kTop + i].number, 0.5), all[i].first, 1e-5 * (1 + size));
    }
  }
  for (std::size_t i = 0; i < labels.size(); ++i)
    ASSERT_NEAR(labels[i], data.score(data.row[i], data.label[i], 0.5), 1e-6 * (1 + size));
}

TEST(CudaPass, MatchesPlainLoops) {
  compare<1>(20, 16, 1, false, 1);
  compare<5>(20, 100, 1, true, 2);
  compare<5>(7, 3, 30, false, 4);
  compare<16>(5, 333, 100, true, 5);
}

TEST(CudaPass, LowerNumbersWinTies) {
  Data data(4, 40, 1, false);
  std::fill(data.weight.begin(), data.weight.end(), 0.25F);
  std::vector<RowPart> part(2 * 4);
  std::vector<BestList<5>> list(2 * 4);
  run_emulated(1, 32, 0,
               ScoreChunk<5>{data.rows(), nullptr, 0, 4, data.matrix(), 1, 2, 2, part.data(), list.data()});
  std::vector<double> highest(4), excess(4);
  std::vector<Best> best(20);
  run_emulated(
      1, 32, 0,
      JoinChunks<5>{nullptr, 0, 4, 2, part.data(), list.data(), highest.data(), excess.data(), best.data()});
  for (std::size_t r = 0; r < 4; ++r) {
    for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(best[r * 5 + i].number, i);
    EXPECT_NEAR(excess[r], 40, 1e-4);
  }
}

}  // namespace
}  // namespace truemax::cuda
