// Feature rows that stay in place: a CSR view or the windows of a text, with an owner, which may be our
// memory, a mapped file or the caller's arrays; or rows in a file (data/streamed_rows.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "core/csr.hpp"
#include "core/types.hpp"
#include "data/streamed_rows.hpp"

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

  explicit RowStore(std::shared_ptr<StreamedRows> streamed) : streamed_(std::move(streamed)) {}

  // Null: the rows are in memory. Otherwise row() is for the rows of the current window.
  StreamedRows* streamed() const { return streamed_.get(); }
  const std::shared_ptr<StreamedRows>& shared_stream() const { return streamed_; }
  bool has_windows() const { return !ones_.empty(); }
  std::span<const FeatureId> words() const { return words_; }
  std::size_t rows() const { return has_windows() ? windows_ : streamed_ ? streamed_->rows() : rows_.rows(); }
  std::size_t nonzeros() const {
    return has_windows() ? windows_ * ones_.size() : streamed_ ? streamed_->nonzeros() : rows_.nonzeros();
  }
  CsrView view() const { return rows_; }  // empty for windows and streams
  RowView row(RowId r) const {
    if (!rows_.begin.empty()) [[likely]]
      return rows_.row(number_of(r));
    return has_windows() ? RowView{words_.subspan(number_of(r), ones_.size()), ones_} : streamed_->row(r);
  }
  // Prefetches the offsets of a row that will be read soon.
  void prefetch(RowId r) const {
    if (!rows_.begin.empty()) __builtin_prefetch(&rows_.begin[number_of(r)]);
  }
  std::size_t bytes() const {
    return has_windows() ? words_.size_bytes()
           : streamed_   ? streamed_->buffer_bytes()
                         : rows_.begin.size_bytes() + rows_.nonzeros() * (sizeof(FeatureId) + sizeof(float));
  }
  bool operator==(const RowStore& other) const {
    return rows_.begin.data() == other.rows_.begin.data() && words_.data() == other.words_.data() &&
           streamed_ == other.streamed_;
  }

 private:
  CsrView rows_;
  std::span<const FeatureId> words_;
  std::span<const float> ones_;
  std::size_t windows_ = 0;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<StreamedRows> streamed_;
};

}  // namespace truemax
