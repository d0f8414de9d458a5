// Rows in arrays of the caller, sparse (CSR) or dense, as RawRows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/raw_rows.hpp"

namespace truemax {

enum class NumberType { int32, int64, float32, float64 };

// As tmx_rows of truemax/c.h describes them. The arrays may change while they are read: every number is
// copied before it is checked.
struct ArrayRows {
  std::uint64_t rows = 0, columns = 0;
  const void *offsets = nullptr, *indices = nullptr, *values = nullptr;
  NumberType offset_type = NumberType::int64, index_type = NumberType::int32,
             value_type = NumberType::float32;
  std::uint64_t numbers = 0;                       // in `indices` and `values`, if sparse
  std::int64_t row_stride = 0, column_stride = 0;  // bytes, if dense
  const std::uint64_t* label_begin = nullptr;      // [rows + 1]; null: one label each
  const std::int32_t* label = nullptr;             // null: no labels
  std::vector<std::string> names;                  // of labels
  std::vector<double> name_counts, name_weights;   // by name; empty: all 0, all 1
  const double* weights = nullptr;                 // of rows; null: all 1
  std::shared_ptr<const void> owner;               // keeps the values alive
};

// `may_borrow`: nothing will change the values, so they stay where they are if their form allows it. Throws
// UserError.
RawRows rows_of_arrays(const ArrayRows& arrays, bool may_borrow, std::shared_ptr<MemoryBudget> memory);

}  // namespace truemax
