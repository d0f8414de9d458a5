// Vectors E of which each rank has a part, and the rows of the data as an encoder reads them there.
//
// If x is a sum over the features of a row (bag, skip-gram), each rank encodes its own features and the x of
// all ranks are added up: h numbers a row, however many features it has. Otherwise the vectors that the rows
// use are brought together first, each once, and every rank encodes whole rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/csr.hpp"
#include "core/row_encoder.hpp"
#include "ranks/ranks.hpp"
#include "weights/embedding.hpp"

namespace truemax {

class SharedVectors {
 public:
  static constexpr FeatureId kNotOwn = 0xFFFFFFFF;

  // `share`: of the vectors; outlives this.
  SharedVectors(EncoderKind kind, const BlockShare& share, std::size_t h);

  // Takes the memory for so many rows with so many features in all.
  void reserve(std::size_t rows, std::size_t uses);
  static std::uint64_t bytes(EncoderKind kind, std::uint64_t features, std::uint64_t uses, std::uint64_t h);

  void clear();
  void add(RowView x);
  // After the last row. All ranks have added the same rows. `own`: the vectors of this rank.
  void fetch(Ranks& ranks, const Embedding& own);

  // The rows, with features numbered as vectors() is.
  CsrView rows() const { return rows_.view(); }
  RowView row(std::size_t i) const { return rows_.view().row(i); }
  const Embedding& vectors() const { return *vectors_; }
  // The number of a vector among those of this rank; kNotOwn if another rank has it.
  FeatureId own(FeatureId v) const { return adds_up_ ? v : own_[v]; }
  // What an encoder made of rows() is only a part of x, to be added up over the ranks.
  bool adds_up() const { return adds_up_; }

 private:
  FeatureId number_of_vector(FeatureId f);

  const BlockShare& share_;
  bool adds_up_;
  Csr rows_;
  std::vector<std::uint32_t> place_;  // by feature: its number among the fetched ones
  std::vector<FeatureId> used_;       // the fetched ones,
  std::vector<FeatureId> own_;        // and their numbers here
  Embedding fetched_;
  const Embedding* vectors_ = nullptr;
};

// Encodes rows on all ranks at the same time.
class RowsOverRanks final : public RowEncoder {
 public:
  RowsOverRanks(EncoderKind kind, const EncoderTables& tables) : kind_(kind), tables_(tables) {}

  std::size_t columns() const override { return tables_.features.columns; }
  void encode(CsrView rows, float* out) const override;

 private:
  EncoderKind kind_;
  const EncoderTables& tables_;
};

}  // namespace truemax
