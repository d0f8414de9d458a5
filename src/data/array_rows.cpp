#include "data/array_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/reading_memory.hpp"
#include "data/text_piece.hpp"
#include "data/weight_files.hpp"

namespace truemax {
namespace {

constexpr const char* kArrays = "the rows";  // in place of a file name

UserError array_error(std::string_view found, std::string_view advice) {
  return file_error(kArrays, 0, found, advice);
}

template <class T>
T number_at(const void* data, std::uint64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
  return value;
}

std::int64_t whole_at(const void* data, NumberType type, std::uint64_t i) {
  return type == NumberType::int32 ? number_at<std::int32_t>(data, i) : number_at<std::int64_t>(data, i);
}

double real_at(const void* at, NumberType type) {
  return type == NumberType::float32 ? static_cast<double>(number_at<float>(at, 0))
                                     : number_at<double>(at, 0);
}

float value_of(double value, std::uint64_t row, std::uint64_t column) {
  const auto small = static_cast<float>(value);
  if (std::isfinite(small)) return small;
  throw array_error(fmt::format("row {}, column {} is {}", row, column,
                                std::isnan(value) ? "NaN" : fmt::format("{:g}", value)),
                    std::isfinite(value) ? "values must fit into float32: scale them"
                                         : "values must be finite: impute them, or drop the row");
}

void require_shape(const ArrayRows& a) {
  if (a.rows > kMostRows)
    throw array_error(fmt::format("there are {}", a.rows), fmt::format("at most {} are possible", kMostRows));
  if (a.columns < 1 || a.columns >= kUnseenClass)
    throw array_error(fmt::format("there are {} columns", a.columns),
                      fmt::format("1 to {} are possible", kUnseenClass - 1));
  const auto whole = [](NumberType type) { return type == NumberType::int32 || type == NumberType::int64; };
  if (whole(a.value_type)) throw array_error("values are whole numbers", "give float32 or float64");
  if (a.offsets == nullptr) {
    if (a.values == nullptr && a.rows > 0) throw array_error("there is no array of values", "give one");
    return;
  }
  if (!whole(a.offset_type) || !whole(a.index_type))
    throw array_error("offsets or indices are not whole numbers", "give int32 or int64");
  if (a.numbers > 0 && (a.indices == nullptr || a.values == nullptr))
    throw array_error("there is no array of indices or of values", "give both for CSR");
}

void require_names(const ArrayRows& a) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : a.names) {
    if (name.size() > kLongestName)
      throw array_error(fmt::format("a label has {} bytes", name.size()),
                        fmt::format("at most {} are possible", kLongestName));
    if (!is_utf8(name)) throw array_error("a label is not UTF-8", "encode it as UTF-8");
    if (!seen.insert(name).second)
      throw array_error(fmt::format("the name {} is there twice", in_quotes(name)),
                        "give each label one name");
  }
  const auto require = [&](const std::vector<double>& of_names, const char* what, double low, double high) {
    for (std::size_t i = 0; i < of_names.size(); ++i)
      if (!(of_names[i] >= low && of_names[i] <= high))
        throw array_error(fmt::format("the {} of {} is {:g}", what, in_quotes(a.names[i]), of_names[i]),
                          fmt::format("give a number from {:g} to {:g}", low, high));
  };
  require(a.name_counts, "count", 0, kLargestWeight);
  require(a.name_weights, "weight", kLeastWeight, kLargestWeight);
}

void copy_labels(const ArrayRows& a, RawRows& raw) {
  raw.label_names = a.names;
  raw.label_begin.reserve(a.rows + 1);
  std::uint64_t begin = 0;
  for (std::uint64_t r = 0; r < a.rows; ++r) {
    const std::uint64_t end = a.label == nullptr         ? begin
                              : a.label_begin != nullptr ? a.label_begin[r + 1]
                                                         : r + 1;
    if (a.label_begin != nullptr && (end < begin || (r == 0 && a.label_begin[0] != 0)))
      throw array_error(fmt::format("the labels of row {} end at {}", r, end),
                        "offsets of labels begin at 0 and do not fall");
    for (std::uint64_t j = begin; j < end; ++j) {
      const std::int32_t label = a.label[j];
      if (label < 0 || static_cast<std::size_t>(label) >= a.names.size())
        throw array_error(fmt::format("row {} has label number {}", r, label),
                          fmt::format("labels are numbers of the {} names, from 0", a.names.size()));
      const auto number = static_cast<std::uint32_t>(label);
      const auto first = raw.label.begin() + static_cast<std::ptrdiff_t>(raw.label_begin.back());
      if (std::find(first, raw.label.end(), number) == raw.label.end()) raw.label.push_back(number);
    }
    raw.label_begin.push_back(raw.label.size());
    begin = end;
  }
}

void copy_weights(const ArrayRows& a, RawRows& raw) {
  if (a.weights == nullptr) return;
  raw.weight.assign(a.weights, a.weights + a.rows);
  bool any = a.rows == 0;
  for (std::uint64_t r = 0; r < a.rows; ++r) {
    const double w = raw.weight[r];
    if (w != 0 && !(w >= kLeastWeight && w <= kLargestWeight))
      throw array_error(fmt::format("the weight of row {} is {:g}", r, w),
                        fmt::format("give 0, or a number from {:g} to {:g}", kLeastWeight, kLargestWeight));
    any |= w > 0;
  }
  if (!any)
    throw array_error(fmt::format("all {} have weight 0", a.rows), "give at least one row a weight above 0");
}

void copy_offsets(const ArrayRows& a, std::vector<std::uint64_t>& begin) {
  begin.resize(a.rows + 1);
  std::int64_t before = 0;
  for (std::uint64_t r = 0; r <= a.rows; ++r) {
    const std::int64_t at = whole_at(a.offsets, a.offset_type, r);
    if (r == 0 ? at != 0 : at < before || static_cast<std::uint64_t>(at) > a.numbers)
      throw array_error(fmt::format("offset {} is {}", r, at),
                        "offsets of CSR begin at 0, do not fall and end at the number of values");
    begin[r] = static_cast<std::uint64_t>(at);
    before = at;
  }
}

FeatureId feature_at(const ArrayRows& a, std::uint64_t row, std::uint64_t j) {
  const std::int64_t feature = whole_at(a.indices, a.index_type, j);
  if (feature < 0 || static_cast<std::uint64_t>(feature) >= a.columns)
    throw array_error(fmt::format("row {} has column {}", row, feature),
                      fmt::format("columns are 0 to {}", a.columns - 1));
  return static_cast<FeatureId>(feature);
}

const char* value_place(const ArrayRows& a, std::uint64_t j) {
  return static_cast<const char*>(a.values) +
         j * (a.value_type == NumberType::float32 ? sizeof(float) : sizeof(double));
}

// Leaves the values where they are and copies the features. False if the values do not allow it.
bool borrow_sparse(const ArrayRows& a, RawRows& raw) {
  const auto* const values = static_cast<const float*>(a.values);
  if (a.value_type != NumberType::float32 || reinterpret_cast<std::uintptr_t>(values) % alignof(float) != 0)
    return false;
  Csr& rows = raw.rows;
  const std::uint64_t count = rows.begin.back();
  if (count == 0) return false;
  raw.memory.add(count * sizeof(FeatureId));
  rows.index.resize(count);
  for (std::uint64_t r = 0; r < a.rows; ++r) {
    // A row that is dropped would leave a gap in the values.
    const bool dropped =
        (!raw.weight.empty() && raw.weight[r] == 0) || (a.label != nullptr && !raw.has_label(r));
    if (dropped && rows.begin[r + 1] > rows.begin[r]) return false;
    for (std::uint64_t j = rows.begin[r]; j < rows.begin[r + 1]; ++j) {
      rows.index[j] = feature_at(a, r, j);
      if (j > rows.begin[r] && rows.index[j] <= rows.index[j - 1]) return false;
      if (value_of(static_cast<double>(number_at<float>(values, j)), r, rows.index[j]) == 0.0F) return false;
    }
  }
  rows.elsewhere = values;
  rows.owner = a.owner;
  return true;
}

// Sorts the features of a row, adds duplicates in double and drops zeros.
void append_sorted(std::uint64_t row, std::vector<std::pair<FeatureId, double>>& numbers, RawRows& raw) {
  const auto before = [](const auto& x, const auto& y) { return x.first < y.first; };
  if (!std::is_sorted(numbers.begin(), numbers.end(), before))
    std::stable_sort(numbers.begin(), numbers.end(), before);
  Csr& to = raw.rows;
  grow(to.index, numbers.size(), raw.memory);
  grow(to.value, numbers.size(), raw.memory);
  for (std::size_t j = 0; j < numbers.size();) {
    const FeatureId feature = numbers[j].first;
    double sum = 0;
    for (; j < numbers.size() && numbers[j].first == feature; ++j) sum += numbers[j].second;
    const float value = value_of(sum, row, feature);
    if (value == 0.0F) continue;
    to.index.push_back(feature);
    to.value.push_back(value);
  }
  to.begin.push_back(to.index.size());
}

void copy_sparse(const ArrayRows& a, RawRows& raw) {
  const std::vector<std::uint64_t> begin = std::move(raw.rows.begin);
  raw.rows = {};
  raw.rows.begin.reserve(a.rows + 1);
  std::vector<std::pair<FeatureId, double>> row;
  for (std::uint64_t r = 0; r < a.rows; ++r) {
    row.clear();
    for (std::uint64_t j = begin[r]; j < begin[r + 1]; ++j) {
      const FeatureId feature = feature_at(a, r, j);
      const double value = real_at(value_place(a, j), a.value_type);
      value_of(value, r, feature);
      row.emplace_back(feature, value);
    }
    append_sorted(r, row, raw);
  }
}

void copy_dense(const ArrayRows& a, RawRows& raw) {
  Csr& to = raw.rows;
  to.begin.reserve(a.rows + 1);
  for (std::uint64_t r = 0; r < a.rows; ++r) {
    const char* const row = static_cast<const char*>(a.values) + static_cast<std::int64_t>(r) * a.row_stride;
    grow(to.index, a.columns, raw.memory);
    grow(to.value, a.columns, raw.memory);
    for (std::uint64_t c = 0; c < a.columns; ++c) {
      const float value =
          value_of(real_at(row + static_cast<std::int64_t>(c) * a.column_stride, a.value_type), r, c);
      if (value == 0.0F) continue;
      to.index.push_back(static_cast<FeatureId>(c));
      to.value.push_back(value);
    }
    to.begin.push_back(to.index.size());
  }
}

}  // namespace

RawRows rows_of_arrays(const ArrayRows& a, bool may_borrow, std::shared_ptr<MemoryBudget> memory) {
  require_shape(a);
  require_names(a);
  RawRows raw;
  raw.path = kArrays;
  raw.format = Format::array;
  raw.features = a.columns;
  raw.declared = true;
  try {
    raw.memory = MemoryCharge(std::move(memory), a.rows * 4 * sizeof(std::uint64_t));
    copy_labels(a, raw);
    copy_weights(a, raw);
    raw.name_counts = a.name_counts;
    raw.name_weights = a.name_weights;
    if (a.offsets == nullptr) {
      copy_dense(a, raw);
      return raw;
    }
    copy_offsets(a, raw.rows.begin);
    if (!may_borrow || !borrow_sparse(a, raw)) copy_sparse(a, raw);
  } catch (const OverBudget& over) {
    throw memory_error(over, raw.path, 0, counted(raw.rows.rows(), "row"),
                       "give fewer rows, float32 values in CSR, or raise memory-limit");
  }
  return raw;
}

}  // namespace truemax
