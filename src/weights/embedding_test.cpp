// Rows that encoders make of extreme data: finite, or refused.
#include "weights/embedding.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "core/random.hpp"

namespace truemax {
namespace {

constexpr std::size_t kVectors = 100, kHidden = 5, kWidth = 3;

EncoderTables tables_of(EncoderKind kind, bool layer, double deviation) {
  EncoderTables tables;
  tables.features = Embedding(kVectors, kHidden);
  fill_normal(tables.features, deviation, 3, 0, 1);
  if (!mixes_places(kind)) return tables;
  tables.layers = layer ? 1 : 0;
  tables.mixing = Embedding(layer ? kWidth * kHidden + 1 : kWidth, kHidden);
  fill_normal(tables.mixing, deviation, 3, 1, 1);
  return tables;
}

// `row` among others that are harmless.
constexpr std::size_t kBad = 700, kRows = 1000;
Csr rows_with(const std::vector<FeatureId>& index, const std::vector<float>& value) {
  Csr rows;
  for (std::size_t r = 0; r < kRows; ++r) {
    const float one = 1;
    const auto f = static_cast<FeatureId>(r % kVectors);
    rows.add(r == kBad ? RowView{index, value} : RowView{{&f, 1}, {&one, 1}});
  }
  return rows;
}

Csr bag_of(std::size_t features, float value) {
  std::vector<FeatureId> index;
  for (std::size_t f = 0; f < features; ++f) index.push_back(static_cast<FeatureId>(f));
  return rows_with(index, std::vector<float>(features, value));
}

// The sum in double; infinite if it leaves float32.
bool leaves_float(const EncoderTables& tables, RowView x) {
  for (std::size_t c = 0; c < kHidden; ++c) {
    double sum = 0;
    for (std::size_t j = 0; j < x.index.size(); ++j)
      sum += static_cast<double>(x.value[j]) * static_cast<double>(tables.features.row(x.index[j])[c]);
    if (std::abs(sum) > static_cast<double>(std::numeric_limits<float>::max())) return true;
  }
  return false;
}

TEST(EncodedRows, AreFiniteOrTheRowIsRefusedByItsNumber) {
  std::size_t refused = 0, fine = 0;
  for (const double deviation : {0.1, 1.0, 1e15})
    for (const std::size_t features : {1U, 10U, 100U})
      for (const float value : {1e-38F, -1e-38F, 1.0F, 1e20F, 3e36F, 3e37F, -3e38F, 3.4e38F}) {
        const EncoderTables tables = tables_of(EncoderKind::bag, false, deviation);
        const Csr rows = bag_of(features, value);
        const auto encoder = make_row_encoder(EncoderKind::bag, tables);
        for (const std::size_t threads : {1U, 3U}) {
          Csr encoded;
          try {
            encode_rows(*encoder, rows.view(), encoded, threads);
            ASSERT_EQ(encoded.value.size(), kRows * kHidden);
            for (const float x : encoded.value) ASSERT_TRUE(std::isfinite(x));
            EXPECT_FALSE(leaves_float(tables, rows.row(kBad)));
            ++fine;
          } catch (const RowBeyondFloat& error) {
            EXPECT_EQ(error.row(), kBad);
            const std::string said = error.what();
            EXPECT_TRUE(said.starts_with("row 701: ")) << said;
            EXPECT_NE(said.find("--normalize l2"), std::string::npos) << said;
            EXPECT_TRUE(std::string(error.named("f.txt: row 9").what()).starts_with("f.txt: row 9: "));
            // A sum may pass the largest float on its way to a smaller one.
            EXPECT_GT(std::abs(static_cast<double>(value)) * static_cast<double>(features) * 5 * deviation,
                      static_cast<double>(std::numeric_limits<float>::max()));
            ++refused;
          }
        }
      }
  EXPECT_GT(refused, 20U);
  EXPECT_GT(fine, 20U);
}

TEST(EncodedRows, OfWordsAndTriplesAreFiniteOrRefused) {
  struct Case {
    EncoderKind kind;
    bool layer;
  };
  const std::vector<float> ones(kWidth, 1.0F);
  for (const Case c : {Case{EncoderKind::context, false}, Case{EncoderKind::context, true},
                       Case{EncoderKind::cbow, false}, Case{EncoderKind::complex, false}})
    for (const double deviation : {0.1, 1e15, 1e20, 1e37}) {
      const std::size_t length = c.kind == EncoderKind::complex ? 2 : kWidth;
      Csr rows;
      for (FeatureId r = 0; r < 20; ++r) {
        const FeatureId words[] = {r, r + 20, r + 40};
        rows.add({std::span(words).first(length), std::span(ones).first(length)});
      }
      const EncoderTables tables = tables_of(c.kind, c.layer, deviation);
      Csr encoded;
      try {
        encode_rows(*make_row_encoder(c.kind, tables), rows.view(), encoded);
        for (const float x : encoded.value) EXPECT_TRUE(std::isfinite(x));
        EXPECT_TRUE(deviation < 1e18 || c.layer);
      } catch (const RowBeyondFloat&) {
        EXPECT_GT(deviation, 1e18);
      }
    }
}

}  // namespace
}  // namespace truemax
