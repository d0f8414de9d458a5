// The index against the slow, obvious search: every class of every row.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "core/random.hpp"
#include "index/predict.hpp"
#include "index/recall.hpp"
#include "index/search.hpp"

namespace truemax {
namespace {

enum class Kind { groups, noise, zeros, alike, huge };

struct Made {
  Made(std::size_t k, std::size_t d, Kind kind, std::uint64_t seed = 1) : weights(k, d, true) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < k; ++i) names.push_back(std::to_string((i * 7919) % 1000003));
    std::vector<double> counts(k, 1.0);
    std::vector<ClassId> ids;
    classes = ClassList(names, counts, &ids);
    const CounterRandom random(seed, Stream::index, 99);
    const auto number = [&](std::size_t a, std::size_t b) {
      return static_cast<float>(2 * uniform_unit(random.at(a, b).first) - 1);
    };
    std::vector<float> w(d);
    for (ClassId c = 0; c < k; ++c) {
      for (std::size_t f = 0; f < d; ++f) {
        if (kind == Kind::zeros) w[f] = 0;
        if (kind == Kind::alike) w[f] = number(0, f);
        if (kind == Kind::noise) w[f] = number(c, f);
        if (kind == Kind::huge) w[f] = 1e37F * number(c, f);
        if (kind == Kind::groups) w[f] = 3 * number(1000000 + c % (k / 20 + 1), f) + 0.5F * number(c, f);
      }
      weights.set_class(c, w);
      weights.intercept()[c] = kind == Kind::zeros || kind == Kind::alike ? 0.0F : number(c, d);
    }
    vectors = vectors_in_memory(weights, classes);
  }
  // Rows near classes.
  Csr rows(std::size_t n, bool sparse = false) const {
    const CounterRandom random(5, Stream::index, 98);
    std::vector<float> w(weights.features());
    Csr out;
    for (std::size_t r = 0; r < n; ++r) {
      weights.copy_class(static_cast<ClassId>(r * 37 % weights.classes()), w);
      for (std::size_t f = 0; f < w.size(); ++f) {
        if (sparse && (f + r) % 5 != 0) continue;
        const float noise = static_cast<float>(uniform_unit(random.at(r, f).first) - 0.5);
        const float v = (std::abs(w[f]) < 1e6F ? w[f] : 0.0F) + noise;
        if (v == 0) continue;
        out.index.push_back(static_cast<FeatureId>(f));
        out.value.push_back(v);
      }
      out.begin.push_back(out.index.size());
    }
    return out;
  }
  ClassIndex index(std::size_t cells = 0, std::size_t threads = 1) const {
    return build_index(*vectors, classes, {}, {.cells = cells, .seed = 3}, {.threads = threads});
  }

  Weights weights;
  ClassList classes;
  std::unique_ptr<ClassVectors> vectors;
};

bool same(const PassResult& a, const PassResult& b) {
  return a.top == b.top && a.best == b.best && a.best_score == b.best_score;
}

TEST(Index, WithAllCellsItIsExactSearch) {
  for (const Kind kind : {Kind::groups, Kind::noise, Kind::zeros, Kind::alike, Kind::huge})
    for (const std::size_t k : {1UL, 2UL, 3UL, 5UL, 15UL, 16UL, 17UL, 20UL, 333UL})
      for (const std::size_t d : {1UL, 6UL, 40UL})
        for (const bool sparse : {false, true}) {
          const Made made(k, d, kind);
          const ClassIndex index = made.index(k / 10);
          const IndexSearch search(index, *made.vectors, made.classes);
          Csr rows = made.rows(7, sparse);
          rows.begin.push_back(rows.index.size());  // and one of zeros
          for (const std::size_t top : {1UL, 3UL, 50UL}) {
            const PassResult exact = search.exact(rows.view(), top, 1);
            const IndexResult found =
                search.find(rows.view(), {.top = top, .probes = index.cells(), .threads = 1});
            EXPECT_TRUE(same(found.pass, exact)) << "kind " << static_cast<int>(kind) << ' ' << k << ' ' << d;
            for (std::size_t r = 0; r < rows.rows(); ++r) {
              const double norm = std::log(exact.excess[r]) + exact.highest[r];
              const double here = std::log(found.pass.excess[r]) + found.pass.highest[r];
              EXPECT_NEAR(here, norm, 1.5 * found.error[r] + 1e-5 + 1e-12 * std::abs(norm));
              for (std::size_t t = 0; t < exact.top; ++t) {
                const double p = found.pass.probability(r, found.pass.best_score[r * exact.top + t]);
                EXPECT_GE(p, 0);
                EXPECT_LE(p, 1);
              }
            }
          }
        }
}

TEST(Index, AnyEffortGivesAsManyClassesAndFiniteNumbers) {
  for (const Kind kind : {Kind::groups, Kind::noise, Kind::zeros, Kind::alike, Kind::huge}) {
    const Made made(500, 12, kind);
    const ClassIndex index = made.index(40);
    const IndexSearch search(index, *made.vectors, made.classes);
    Csr rows = made.rows(20);
    for (const float v : {1e30F, 1e-30F, 3e38F}) {
      rows.index.push_back(3), rows.value.push_back(v);
      rows.begin.push_back(rows.index.size());
    }
    for (const std::size_t probes : {1UL, 2UL, 10UL, 1000UL}) {
      const IndexResult found = search.find(rows.view(), {.top = 60, .probes = probes, .threads = 2});
      ASSERT_EQ(found.pass.best.size(), rows.rows() * 60);
      for (std::size_t r = 0; r < rows.rows(); ++r) {
        std::vector<ClassId> best(found.pass.best.begin() + static_cast<std::ptrdiff_t>(r * 60),
                                  found.pass.best.begin() + static_cast<std::ptrdiff_t>((r + 1) * 60));
        std::sort(best.begin(), best.end());
        EXPECT_EQ(std::unique(best.begin(), best.end()), best.end());
        EXPECT_TRUE(std::isfinite(found.error[r]));
        for (std::size_t t = 0; t < 60; ++t) {
          const double p = found.pass.probability(r, found.pass.best_score[r * 60 + t]);
          EXPECT_TRUE(p >= 0 && p <= 1) << p;
        }
      }
    }
  }
}

TEST(Index, SameBitsForAnyThreadsAndBatches) {
  const Made made(3000, 16, Kind::groups);
  const ClassIndex one = made.index(0, 1), three = made.index(0, 3);
  EXPECT_EQ(one.rank, three.rank);
  EXPECT_EQ(one.begin, three.begin);
  EXPECT_TRUE(one.classes.codes() == three.classes.codes());
  const IndexSearch search(one, *made.vectors, made.classes);
  const Csr rows = made.rows(300);
  const IndexResult all = search.find(rows.view(), {.top = 5, .probes = 4, .threads = 1});
  const IndexResult threads = search.find(rows.view(), {.top = 5, .probes = 4, .threads = 3});
  EXPECT_TRUE(same(all.pass, threads.pass));
  EXPECT_EQ(all.pass.excess, threads.pass.excess);
  const IndexResult end =
      search.find(rows.view().slice(200, 100), {.top = 5, .probes = 4, .threads = 2, .first_row = 200});
  for (std::size_t r = 0; r < 100; ++r) {
    EXPECT_EQ(end.pass.excess[r], all.pass.excess[200 + r]);
    EXPECT_EQ(end.pass.best[5 * r], all.pass.best[5 * (200 + r)]);
  }
}

TEST(Index, TheNormaliserIsUnbiasedAndItsErrorBarCoversIt) {
  const Made made(2000, 10, Kind::noise);
  const ClassIndex index = made.index(60);
  const IndexSearch search(index, *made.vectors, made.classes);
  const Csr one = made.rows(1);
  const PassResult exact = search.exact(one.view(), 1, 1);
  const double truth = exact.highest[0] + std::log(exact.excess[0]);
  constexpr std::size_t kTimes = 4000;
  double sum = 0, squares = 0;
  std::size_t covered = 0;
  for (std::size_t i = 0; i < kTimes; ++i) {
    const IndexResult found = search.find(one.view(), {.top = 1, .probes = 3, .threads = 1, .first_row = i});
    const double log_norm = found.pass.highest[0] + std::log(found.pass.excess[0]);
    const double ratio = std::exp(log_norm - truth);
    sum += ratio, squares += ratio * ratio;
    covered += std::abs(ratio - 1) <= found.error[0] ? 1 : 0;
  }
  const double mean = sum / kTimes, deviation = std::sqrt(squares / kTimes - mean * mean);
  EXPECT_GT(deviation, 1e-4);  // something is drawn
  // Five deviations of the mean, and what bytes may add.
  EXPECT_NEAR(mean, 1, 5 * deviation / std::sqrt(double{kTimes}) + 2e-4);
  EXPECT_GT(static_cast<double>(covered) / kTimes, 0.9);
}

TEST(Index, ExactNormaliserIsThatOfAnExactPass) {
  const Made made(400, 8, Kind::noise);
  const ClassIndex index = made.index(20);
  const IndexSearch search(index, *made.vectors, made.classes);
  const Csr rows = made.rows(9);
  const PassResult exact = search.exact(rows.view(), 1, 1);
  const IndexResult found =
      search.find(rows.view(), {.top = 1, .probes = 1, .threads = 1, .normaliser = Normaliser::exact});
  EXPECT_EQ(found.pass.excess, exact.excess);
  EXPECT_EQ(found.pass.highest, exact.highest);
}

TEST(Index, EffortReachesTheRecallThatIsAskedFor) {
  const Made made(4000, 16, Kind::groups);
  const ClassIndex index = made.index();
  const IndexSearch search(index, *made.vectors, made.classes);
  const Csr rows = made.rows(600);
  const IndexEffort low = find_effort(search, rows.view(), 5, 0.5, 2),
                    high = find_effort(search, rows.view(), 5, 0.99, 2);
  EXPECT_LE(low.probes, high.probes);
  EXPECT_LT(high.probes, index.cells() / 4);
  EXPECT_GT(high.recall + high.error, 0.99);
  EXPECT_GT(low.recall, 0.4);
}

class IndexFile : public testing::Test {
 protected:
  void SetUp() override { save_index(made.index(10), path); }
  void TearDown() override { std::filesystem::remove(path); }
  std::string refusal() const {
    try {
      load_index(path, made.vectors->mark(1), "m.safetensors");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  const Made made{300, 8, Kind::groups};
  const std::string path = testing::TempDir() + "truemax-index-test.index";
};

TEST_F(IndexFile, LoadsAsItWasSaved) {
  const ClassIndex a = made.index(10), b = load_index(path, made.vectors->mark(1), "m");
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_TRUE(a.classes.codes() == b.classes.codes());
  EXPECT_EQ(a.of_x, b.of_x);
  EXPECT_EQ(a.largest_square, b.largest_square);
}

TEST_F(IndexFile, OfOtherWeightsIsRefused) {
  const Made other(300, 8, Kind::groups, 2);
  try {
    load_index(path, other.vectors->mark(1), "m.safetensors");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("truemax index m.safetensors"), std::string::npos);
  }
}

TEST_F(IndexFile, EveryTruncationAndEveryChangedByteIsRefused) {
  std::ifstream in(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto write = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  };
  for (std::size_t length = 0; length < good.size(); length += 1 + length / 8) {
    write(good.substr(0, length));
    EXPECT_NE(refusal(), "") << length;
  }
  for (std::size_t at = 0; at < good.size(); at += 1 + at / 16) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    write(bad);
    EXPECT_NE(refusal(), "") << at;
  }
  write(good + "x");
  EXPECT_NE(refusal(), "");
  write(good);
  EXPECT_EQ(refusal(), "");
}

}  // namespace
}  // namespace truemax
