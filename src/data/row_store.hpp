// Feature rows that stay in place: a CSR view with an owner, which may be our memory, a mapped file or the
// caller's arrays.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "core/csr.hpp"
#include "core/types.hpp"

namespace truemax {

class RowStore {
 public:
  RowStore() = default;
  // `owner` keeps the arrays alive; if null, the caller must, for as long as the store is used.
  RowStore(CsrView rows, std::shared_ptr<const void> owner) : rows_(rows), owner_(std::move(owner)) {}

  std::size_t rows() const { return rows_.rows(); }
  std::size_t nonzeros() const { return rows_.nonzeros(); }
  CsrView view() const { return rows_; }
  RowView row(RowId r) const { return rows_.row(number_of(r)); }
  // Prefetches the offsets of a row that will be read soon.
  void prefetch(RowId r) const { __builtin_prefetch(&rows_.begin[number_of(r)]); }
  std::size_t bytes() const {
    return rows_.begin.size_bytes() + nonzeros() * (sizeof(FeatureId) + sizeof(float));
  }
  bool operator==(const RowStore& other) const { return rows_.begin.data() == other.rows_.begin.data(); }

 private:
  CsrView rows_;
  std::shared_ptr<const void> owner_;
};

}  // namespace truemax
