// Learnt vectors, one row each, and the rows x that encoders make of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/huge_pages.hpp"
#include "core/row_encoder.hpp"
#include "weights/block_share.hpp"
#include "weights/dense.hpp"

namespace truemax {

struct Embedding {
  Embedding() = default;
  Embedding(std::size_t row_count, std::size_t length, std::size_t threads = 1)
      : rows(row_count), columns(length) {
    resize_with(numbers, row_count * length, threads);
  }

  float* row(std::size_t r) { return numbers.data() + r * columns; }
  const float* row(std::size_t r) const { return numbers.data() + r * columns; }
  bool empty() const { return numbers.empty(); }

  std::size_t rows = 0, columns = 0;
  HugeVector<float> numbers;
};

// Independent normal numbers of this deviation: functions of the seed, the table's number and the place
// alone. `share`: which rows of the whole table these are; null: all of them.
void fill_normal(Embedding& table, double deviation, std::uint64_t seed, std::uint64_t number,
                 std::size_t threads, const BlockShare* share = nullptr);

// The cosine of the angle between two vectors; -2 if one of them has length zero.
double cosine_of(std::span<const float> a, std::span<const float> b);

// The vectors of a row's words, one after the other.
void side_by_side(RowView words, const Embedding& vectors, float* out);

// The parameters of an encoder.
struct EncoderTables {
  // One of several ranks may have no vector of its own.
  bool empty() const { return features.columns == 0; }

  Embedding features;  // E [D][h]
  // Of one of several ranks that share E out: which of its rows `features` has, numbered from 0. Null: all.
  std::shared_ptr<const BlockShare> share;
  // Of the places of a context: [c][h], the factors of each place; or with a layer [c h + 1][h], a tanh layer
  // over the vectors side by side, whose last row is its bias. Else empty.
  Embedding mixing;
  std::uint64_t layers = 0;
};

// Rows of the data as the encoder makes them. The tables outlive it. If E is shared out, all ranks encode the
// same rows at the same time.
std::shared_ptr<const RowEncoder> make_row_encoder(EncoderKind kind, const EncoderTables& tables);

// x = sum_f v_f E_f
class BagRows final : public RowEncoder {
 public:
  explicit BagRows(const Embedding& features) : features_(features) {}

  std::size_t columns() const override { return features_.columns; }
  void encode(CsrView rows, float* out) const override {
    for (std::size_t r = 0; r < rows.rows(); ++r) encode_row(rows.row(r), out + r * columns());
  }
  void encode_row(RowView x, float* out) const {
    std::fill(out, out + features_.columns, 0.0F);
    for (std::size_t j = 0; j < x.index.size(); ++j)
      add_scaled(out, features_.row(x.index[j]), x.value[j], features_.columns);
  }

 private:
  const Embedding& features_;
};

// x = sum_p C_p o E[word_p], or x = tanh(sum_p L_p E[word_p] + a). Row r of the data is the words of a
// context in order; with cbow the word in the middle is not part of it.
class ContextRows final : public RowEncoder {
 public:
  ContextRows(const Embedding& features, const EncoderTables& tables)
      : features_(features), mixing_(tables.mixing), layers_(tables.layers) {}

  std::size_t columns() const override { return features_.columns; }
  void encode(CsrView rows, float* out) const override;
  void encode_row(RowView x, float* out) const;  // without a layer

 private:
  const Embedding &features_, &mixing_;
  std::uint64_t layers_;
};

}  // namespace truemax
