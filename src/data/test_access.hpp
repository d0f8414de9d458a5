// For tests: the arrays of a data set, without a view, and copies of views.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "data/data_view.hpp"

namespace truemax {

inline std::size_t row_of(const Dataset& data, std::size_t example) {
  return data.example_row.empty() ? example : number_of(data.example_row[example]);
}
inline RowView x_of(const Dataset& data, std::size_t example) {
  return data.rows.row(row_of(data, example));
}
inline double weight_of(const Dataset& data, std::size_t example) {
  return data.weight.empty() ? 1.0 : data.weight[example];
}
inline double weight_of_row(const Dataset& data, std::size_t row) {
  return data.row_weight.empty() ? 1.0 : data.row_weight[row];
}
inline std::vector<RowId> row_ids(const std::vector<std::uint32_t>& numbers) {
  std::vector<RowId> ids;
  for (const std::uint32_t n : numbers) ids.push_back(RowId{n});
  return ids;
}

// A data set of just the rows of a view. `several`: list the row of each example, as if some row had several.
inline Dataset copy_of(const DataView& data, bool several) {
  Dataset out;
  out.class_weight = {data.class_weights().begin(), data.class_weights().end()};
  out.classes = data.classes, out.space = data.space, out.format = data.format;
  Csr scratch;
  bool weighs = false;
  std::vector<double> row_weight;
  for (std::size_t first = 0; first < data.row_count();) {
    const RowSlice slice = data.slice(first, 7, scratch);
    for (std::size_t r = 0; r < slice.rows(); ++r) {
      out.rows.add(slice.x().row(r));
      out.label_set.insert(out.label_set.end(), slice.labels(r).begin(), slice.labels(r).end());
      out.label_begin.push_back(out.label_set.size());
      row_weight.push_back(slice.weight(r));
      weighs |= slice.weight(r) != 1;
      for (const ExampleId i : slice.examples(r, slice.first_example(r))) {
        out.label.push_back(data.label(i));
        if (several) out.example_row.push_back(RowId{static_cast<std::uint32_t>(first + r)});
        if (data.has_example_weights()) out.weight.push_back(data.weight(i));
      }
    }
    first += slice.rows();
  }
  if (weighs) out.row_weight = std::move(row_weight);
  return out;
}

}  // namespace truemax
