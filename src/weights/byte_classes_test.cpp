#include "weights/byte_classes.hpp"
#include "weights/largest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/instruction_sets.hpp"
#include "core/random.hpp"
#include "weights/byte_sums.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

struct Made {
  ByteClasses classes;
  std::vector<std::vector<float>> w;
  std::vector<float> b;
};

Made make_classes(std::size_t classes, std::size_t features, std::uint64_t seed) {
  const CounterRandom random(seed, Stream::index, 9);
  Made made{ByteClasses((classes + kLanes - 1) / kLanes, features), {}, {}};
  for (std::size_t k = 0; k < classes; ++k) {
    std::vector<float> w(features);
    for (std::size_t f = 0; f < features; ++f)
      w[f] = static_cast<float>(uniform_unit(random.at(k, f).first) - 0.5);
    made.b.push_back(static_cast<float>(uniform_unit(random.at(k, features).second)));
    made.classes.set(k, w, made.b.back());
    made.w.push_back(std::move(w));
  }
  return made;
}

Csr make_rows(std::size_t rows, std::size_t features, std::size_t every, std::uint64_t seed) {
  const CounterRandom random(seed, Stream::index, 8);
  Csr out;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t f = r % every; f < features; f += every) {
      out.index.push_back(static_cast<FeatureId>(f));
      out.value.push_back(static_cast<float>(4 * uniform_unit(random.at(r, f).first) - 2));
    }
    out.begin.push_back(out.index.size());
  }
  return out;
}

// Runs with every way to multiply bytes that this machine has.
template <class Test>
void on_all_machines(const Test& test) {
  for (const bool products : {true, false}) {
    use_byte_products(products);
    for (const std::int64_t set : instruction_sets()) {
      const OnInstructionSet only(set);
      SCOPED_TRACE(instruction_set_name(set));
      test();
    }
  }
  use_byte_products(true);
}

TEST(ByteClasses, ScoresAreWithinTheirErrorOnAllMachinesWithTheSameBits) {
  for (const std::size_t features : {1UL, 3UL, 4UL, 37UL, 128UL})
    for (const std::size_t every : {1UL, 3UL}) {
      const Made made = make_classes(37, features, features);
      const Csr rows = make_rows(13, features, every, 5);
      const ByteRows x(rows.view(), features);
      std::vector<float> first;
      on_all_machines([&] {
        std::vector<float> all;
        for (std::size_t b = 0; b < made.classes.blocks(); ++b)
          for (std::uint32_t r = 0; r < rows.rows(); r += kByteTile) {
            std::array<std::uint32_t, kByteTile> some{};
            std::iota(some.begin(), some.end(), r);
            const std::size_t count = std::min<std::size_t>(kByteTile, rows.rows() - r);
            std::array<float, kByteTile * kLanes> z{};
            byte_scores(made.classes, b, x, some.data(), count, z.data());
            const std::size_t places = made.classes.blocks() * kLanes;
            std::vector<float> of_all(count * places, NAN), promise(count * places, NAN), of_x(places),
                of_b(places);
            for (std::size_t k = 0; k < places; ++k)
              of_x[k] = 0.3F * static_cast<float>(k % 5), of_b[k] = static_cast<float>(k % 3);
            byte_promises(made.classes, x, some.data(), count, {of_x.data(), of_b.data()}, of_all.data(),
                          promise.data());
            for (std::size_t i = 0; i < count * kLanes; ++i) {
              const std::size_t k = b * kLanes + i % kLanes, at = i / kLanes * places + k;
              EXPECT_EQ(of_all[at], z[i]);
              const auto square = static_cast<float>(x.squared[r + i / kLanes]);
              EXPECT_EQ(promise[at], z[i] + std::sqrt(square * of_x[k] + of_b[k]));
            }
            for (std::size_t i = 0; i < count; ++i)
              for (std::size_t lane = 0; lane < kLanes; ++lane) {
                const std::size_t k = b * kLanes + lane;
                const float score = z[i * kLanes + lane];
                all.push_back(score);
                if (k >= made.w.size()) {
                  EXPECT_EQ(score, kPaddingScore);
                  continue;
                }
                const double exact = score_of(rows.row(r + i), made.w[k], static_cast<double>(made.b[k]));
                double square = 0;
                for (const float v : made.w[k]) square += static_cast<double>(v) * static_cast<double>(v);
                const double error = error_of_bytes(x.squared[r + i], static_cast<double>(x.scale[r + i]),
                                                    square, static_cast<double>(made.classes.scales()[k]));
                EXPECT_NEAR(static_cast<double>(score), exact, 6 * error + 1e-5);
              }
          }
        if (first.empty()) first = all;
        EXPECT_EQ(all, first);
      });
    }
}

TEST(ByteScan, FindsTheBestAndTheSumOfAllPlaces) {
  const std::size_t features = 24, classes = 100, most = 7;
  const Made made = make_classes(classes, features, 3);
  const Csr rows = make_rows(11, features, 1, 4);
  const ByteRows x(rows.view(), features);
  std::vector<std::uint32_t> rank(made.classes.blocks() * kLanes), all(rows.rows());
  for (std::uint32_t i = 0; i < rank.size(); ++i) rank[i] = static_cast<std::uint32_t>(rank.size()) - i;
  std::iota(all.begin(), all.end(), 0);
  on_all_machines([&] {
    ByteScan scan(rows.rows(), most, rank);
    scan_blocks(made.classes, 0, 3, x, all, scan);
    scan_blocks(made.classes, 3, made.classes.blocks() - 3, x, all, scan);
    for (std::uint32_t r = 0; r < rows.rows(); ++r) {
      std::vector<ByteScan::Found> expected;
      double sum = 0;
      for (std::uint32_t b = 0; b < made.classes.blocks(); ++b) {
        std::array<float, kLanes> z{};
        byte_scores(made.classes, b, x, &r, 1, z.data());
        for (std::uint32_t lane = 0; lane < kLanes; ++lane)
          if (b * kLanes + lane < classes) {
            expected.push_back({z[lane], static_cast<std::uint32_t>(b * kLanes + lane)});
            sum += std::exp(static_cast<double>(z[lane]));
          }
      }
      std::sort(expected.begin(), expected.end(), [&](const auto& a, const auto& b) {
        return a.score > b.score || (a.score == b.score && rank[a.at] < rank[b.at]);
      });
      const auto found = scan.best(r);
      ASSERT_EQ(found.size(), most);
      for (std::size_t i = 0; i < most; ++i) EXPECT_EQ(found[i].at, expected[i].at);
      EXPECT_NEAR(static_cast<double>(scan.highest(r)) + std::log(scan.sum(r)), std::log(sum), 1e-5);
    }
  });
}

TEST(ByteClasses, PassesOverCellsMatchTheSlowWay) {
  const CounterRandom random(1, Stream::index, 7);
  for (const std::size_t n : {1UL, 5UL, 16UL, 100UL, 1000UL, 5000UL}) {
    std::vector<float> z(n), less(n);
    for (std::size_t i = 0; i < n; ++i) {
      z[i] =
          std::round(static_cast<float>(1000 * uniform_unit(random.at(i, n).first) - 500)) / 4;  // with ties
      less[i] = static_cast<float>(uniform_unit(random.at(i, n).second));
    }
    std::vector<float> sorted = z;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    std::size_t best = 0;
    for (std::size_t i = 0; i < n; ++i)
      if (z[i] - less[i] > z[best] - less[best]) best = i;
    on_all_machines([&] {
      for (const std::size_t k : {std::size_t{1}, n / 500 + 1, n / 100 + 1, n / 3 + 1, n}) {
        std::vector<std::uint32_t> places{7}, expected{7};
        EXPECT_EQ(places_of_largest(z.data(), n, k, places), sorted[k - 1]);
        for (std::uint32_t i = 0; i < n; ++i)
          if (z[i] >= sorted[k - 1]) expected.push_back(i);
        EXPECT_EQ(places, expected) << k << " of " << n;
      }
      EXPECT_EQ(place_of_largest(z.data(), less.data(), n), best);
    });
  }
}

TEST(ByteClasses, BestPlacesAreThoseOfTheHighestScores) {
  const std::size_t features = 20;
  const Made made = make_classes(70, features, 6);
  const Csr rows = make_rows(150, features, 1, 6);
  const ByteRows x(rows.view(), features);
  on_all_machines([&] {
    std::vector<std::uint32_t> found(rows.rows());
    best_places(made.classes, x, found.data());
    for (std::uint32_t r = 0; r < rows.rows(); ++r) {
      float most = kPaddingScore;
      std::uint32_t best = 0;
      for (std::uint32_t b = 0; b < made.classes.blocks(); ++b) {
        std::array<float, kLanes> z{};
        byte_scores(made.classes, b, x, &r, 1, z.data());
        for (std::uint32_t lane = 0; lane < kLanes; ++lane)
          if (z[lane] > most) most = z[lane], best = static_cast<std::uint32_t>(b * kLanes + lane);
      }
      EXPECT_EQ(found[r], best);
    }
  });
}

TEST(ByteClasses, SumOfABlockIsThatOfItsScores) {
  const Made made = make_classes(20, 12, 8);
  const Csr rows = make_rows(4, 12, 1, 8);
  const ByteRows x(rows.view(), 12);
  on_all_machines([&] {
    for (std::uint32_t r = 0; r < rows.rows(); ++r)
      for (std::size_t b = 0; b < 2; ++b) {
        std::array<float, kLanes> z{};
        byte_scores(made.classes, b, x, &r, 1, z.data());
        double sum = 0;
        for (const float v : z) sum += std::exp(static_cast<double>(v));
        const BlockSum found = sum_of_block(made.classes, b, x, r);
        EXPECT_EQ(found.highest, *std::max_element(z.begin(), z.end()));
        EXPECT_NEAR(static_cast<double>(found.highest) + std::log(found.sum), std::log(sum), 1e-5);
      }
  });
}

TEST(ByteClasses, SharesOfCellsMatchTheSlowWay) {
  const CounterRandom random(2, Stream::index, 6);
  const std::size_t n = 150;
  std::vector<float> z(n), a(n), b(n), log_n(n), promise(n), share(n);
  std::vector<double> parts((n + kSharePart - 1) / kSharePart);
  for (std::size_t i = 0; i < n; ++i) {
    const CounterRandom::Block bits = random.at(i);
    z[i] = static_cast<float>(10 * uniform_unit(bits.first));
    a[i] = static_cast<float>(uniform_unit(bits.second));
    b[i] = static_cast<float>(uniform_unit(bits.third));
    log_n[i] = static_cast<float>(3 * uniform_unit(bits.fourth));
  }
  const float square = 2.5F;
  on_all_machines([&] {
    for (std::size_t i = 0; i < n; ++i) promise[i] = z[i] + std::sqrt(2 * log_n[i] * (square * a[i] + b[i]));
    const float least = 9, base = least + 3;
    cell_shares({z.data(), promise.data(), a.data(), b.data(), log_n.data(), n}, square, least, base,
                share.data(), parts.data());
    for (std::size_t i = 0; i < n; ++i) {
      const float v = square * a[i] + b[i];
      const float log_share = v < 2 * log_n[i] ? z[i] + log_n[i] + v / 2 : promise[i];
      const float expected = promise[i] >= least ? 0 : std::exp(log_share - base);
      EXPECT_NEAR(share[i], expected, 0.062 * expected + 1e-30);
    }
    for (std::size_t p = 0; p < parts.size(); ++p) {
      double sum = 0;
      for (std::size_t i = p * kSharePart; i < std::min(n, (p + 1) * kSharePart); ++i)
        sum += static_cast<double>(share[i]);
      EXPECT_NEAR(parts[p], sum, 1e-5 * sum);
    }
  });
}

TEST(ByteClasses, ScoreOfOneClassHasTheBitsOfAPass) {
  Weights weights(20, 9, true);
  const Csr rows = make_rows(5, 9, 2, 3);
  std::vector<float> w(9);
  for (ClassId k = 0; k < 20; ++k) {
    for (std::size_t f = 0; f < w.size(); ++f)
      w[f] = 0.1F * static_cast<float>(k) - 0.3F * static_cast<float>(f);
    weights.set_class(k, w);
    weights.intercept()[k] = 0.7F * static_cast<float>(k);
    for (std::size_t r = 0; r < rows.rows(); ++r)
      EXPECT_EQ(score_of(rows.row(r), w, weights.intercept_of(k)), score(weights, rows.row(r), k));
  }
}

}  // namespace
}  // namespace truemax
