#include "weights/shared_vectors.hpp"

#include <gtest/gtest.h>

#include <random>

#include "ranks/thread_ranks.hpp"

namespace truemax {
namespace {

constexpr std::size_t kAllVectors = 70, kLength = 6, kPlaces = 3;

Csr encodable_rows(EncoderKind kind, std::size_t rows) {
  std::mt19937_64 random(5);
  const bool bag = kind == EncoderKind::bag;
  Csr out;
  for (std::size_t r = 0; r < rows; ++r) {
    std::size_t length = kind == EncoderKind::complex ? 2 * (random() % 2) : kPlaces;
    if (bag) length = random() % 9;
    for (std::size_t j = 0; j < length; ++j) {
      out.index.push_back(static_cast<FeatureId>(random() % kAllVectors));
      out.value.push_back(bag ? static_cast<float>(1 + random() % 3) : 1.0F);
    }
    out.begin.push_back(out.index.size());
  }
  return out;
}

EncoderTables whole_tables(EncoderKind kind, bool layer) {
  EncoderTables tables;
  tables.features = Embedding(kAllVectors, kLength);
  fill_normal(tables.features, 1, 3, 0, 1);
  if (!mixes_places(kind)) return tables;
  tables.layers = layer ? 1 : 0;
  tables.mixing = Embedding(layer ? kPlaces * kLength + 1 : kPlaces, kLength);
  fill_normal(tables.mixing, 0.5, 3, 1, 1);
  return tables;
}

EncoderTables part_of_rank(const EncoderTables& whole, Ranks& ranks) {
  EncoderTables part = whole;
  part.share =
      std::make_shared<const BlockShare>(std::vector<double>(kAllVectors, 0.0), ranks.rank(), ranks.size());
  part.features = Embedding(part.share->classes(), kLength);
  for (ClassId v = 0; v < part.features.rows; ++v)
    std::copy_n(whole.features.row(part.share->global_class(v)), kLength, part.features.row(v));
  return part;
}

TEST(SharedVectors, GiveTheRowsOfOneRank) {
  struct Case {
    EncoderKind kind;
    bool layer;
  };
  for (const Case c : {Case{EncoderKind::bag, false}, Case{EncoderKind::context, false},
                       Case{EncoderKind::context, true}, Case{EncoderKind::complex, false}}) {
    const Csr rows = encodable_rows(c.kind, 1500);
    const EncoderTables whole = whole_tables(c.kind, c.layer);
    std::vector<float> wanted(rows.rows() * kLength);
    make_row_encoder(c.kind, whole)->encode(rows.view(), wanted.data());
    for (std::size_t size = 1; size <= 4; ++size)
      run_thread_ranks(size, [&](Ranks& ranks) {
        const EncoderTables part = part_of_rank(whole, ranks);
        std::vector<float> found(wanted.size());
        make_row_encoder(c.kind, part)->encode(rows.view(), found.data());
        const float error = c.kind == EncoderKind::bag ? 1e-5F : 0;  // of the order of a sum
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_NEAR(found[i], wanted[i], error) << static_cast<int>(c.kind) << ", " << size << " ranks";
      });
  }
}

TEST(SharedVectors, KnowWhoOwnsAVector) {
  for (const EncoderKind kind : {EncoderKind::bag, EncoderKind::context}) {
    const Csr rows = encodable_rows(kind, 40);
    const EncoderTables whole = whole_tables(kind, false);
    std::atomic<std::size_t> uses{0};
    run_thread_ranks(3, [&](Ranks& ranks) {
      const EncoderTables part = part_of_rank(whole, ranks);
      SharedVectors shared(kind, *part.share, kLength);
      for (std::size_t r = 0; r < rows.rows(); ++r) shared.add(rows.row(r));
      shared.fetch(ranks, part.features);
      for (std::size_t r = 0; r < rows.rows(); ++r)
        for (const FeatureId v : shared.row(r).index) {
          if (shared.own(v) == SharedVectors::kNotOwn) continue;
          ++uses;
          for (std::size_t d = 0; d < kLength; ++d)
            EXPECT_EQ(shared.vectors().row(v)[d], part.features.row(shared.own(v))[d]);
        }
    });
    EXPECT_EQ(uses, rows.nonzeros());
  }
}

}  // namespace
}  // namespace truemax
