// Feature rows that stay in place: a CSR view or the windows of a text, with an owner, which may be our
// memory, a mapped file or the caller's arrays.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "core/csr.hpp"
#include "core/types.hpp"

namespace truemax {

class RowStore {
 public:
  RowStore() = default;
  // `owner` keeps the arrays alive; if null, the caller must, for as long as the store is used.
  RowStore(CsrView rows, std::shared_ptr<const void> owner) : rows_(rows), owner_(std::move(owner)) {}

  // Row r is words [r, r + ones.size()), each with the value 1: windows of a text.
  RowStore(std::span<const FeatureId> words, std::span<const float> ones, std::size_t rows,
           std::shared_ptr<const void> owner)
      : words_(words), ones_(ones), windows_(rows), owner_(std::move(owner)) {}

  bool has_windows() const { return !ones_.empty(); }
  std::span<const FeatureId> words() const { return words_; }
  std::size_t rows() const { return has_windows() ? windows_ : rows_.rows(); }
  std::size_t nonzeros() const { return has_windows() ? windows_ * ones_.size() : rows_.nonzeros(); }
  CsrView view() const { return rows_; }  // empty for windows
  RowView row(RowId r) const {
    return has_windows() ? RowView{words_.subspan(number_of(r), ones_.size()), ones_}
                         : rows_.row(number_of(r));
  }
  // Prefetches the offsets of a row that will be read soon.
  void prefetch(RowId r) const {
    if (!has_windows()) __builtin_prefetch(&rows_.begin[number_of(r)]);
  }
  std::size_t bytes() const {
    return has_windows() ? words_.size_bytes()
                         : rows_.begin.size_bytes() + rows_.nonzeros() * (sizeof(FeatureId) + sizeof(float));
  }
  bool operator==(const RowStore& other) const {
    return rows_.begin.data() == other.rows_.begin.data() && words_.data() == other.words_.data();
  }

 private:
  CsrView rows_;
  std::span<const FeatureId> words_;
  std::span<const float> ones_;
  std::size_t windows_ = 0;
  std::shared_ptr<const void> owner_;
};

}  // namespace truemax
