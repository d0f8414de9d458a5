// Sparse rows: arrays that own them, and a view. Row i is index/value [begin[i], begin[i + 1]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/huge_pages.hpp"
#include "core/types.hpp"

namespace truemax {

struct RowView {
  std::span<const FeatureId> index;  // strictly ascending
  std::span<const float> value;      // finite, not zero
};

// Prefetches a row that will be read some time later.
inline void prefetch_row(const RowView& x) {
  constexpr std::size_t kPerLine = 16;
  for (std::size_t j = 0; j < x.index.size(); j += kPerLine) {
    __builtin_prefetch(x.index.data() + j);
    __builtin_prefetch(x.value.data() + j);
  }
  if (x.index.empty()) return;
  __builtin_prefetch(&x.index.back());  // a row may begin anywhere in a cache line
  __builtin_prefetch(&x.value.back());
}

struct CsrView {
  std::span<const std::uint64_t> begin;  // rows + 1 offsets
  const FeatureId* index = nullptr;
  const float* value = nullptr;

  std::size_t rows() const { return begin.empty() ? 0 : begin.size() - 1; }
  std::size_t nonzeros() const { return begin.empty() ? 0 : begin.back() - begin.front(); }
  CsrView slice(std::size_t first, std::size_t count) const {
    return {begin.subspan(first, count + 1), index, value};
  }
  RowView row(std::size_t i) const {
    const std::size_t first = begin[i], length = begin[i + 1] - begin[i];
    return {{index + first, length}, {value + first, length}};
  }
};

struct Csr {
  std::vector<std::uint64_t> begin{0};
  HugeVector<FeatureId> index;
  HugeVector<float> value;
  // The values, if they are not in `value` but in an array of the caller, which `owner` keeps alive.
  const float* elsewhere = nullptr;
  std::shared_ptr<const void> owner = nullptr;

  std::size_t rows() const { return begin.size() - 1; }
  std::size_t nonzeros() const { return index.size(); }
  CsrView view() const { return {begin, index.data(), elsewhere != nullptr ? elsewhere : value.data()}; }
  RowView row(std::size_t i) const { return view().row(i); }
  void add(RowView row) {
    index.insert(index.end(), row.index.begin(), row.index.end());
    value.insert(value.end(), row.value.begin(), row.value.end());
    begin.push_back(index.size());
  }
  // Bytes in use: capacity beyond the end was never touched, or has been given back.
  std::size_t bytes() const {
    return begin.size() * sizeof(begin[0]) + index.size() * sizeof(index[0]) +
           value.size() * sizeof(value[0]);
  }
};

}  // namespace truemax
