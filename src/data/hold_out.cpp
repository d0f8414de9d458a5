#include "data/hold_out.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"

namespace truemax {
namespace {

// The rows with the smallest random numbers: exactly so many, and a row's number does not depend on the
// share, so that a larger share holds out the rows of a smaller one too.
std::vector<bool> choose(std::size_t rows, std::size_t count, std::uint64_t seed) {
  const CounterRandom random(seed, Stream::hold_out, 0);
  std::vector<std::pair<std::uint64_t, std::size_t>> order(rows);
  for (std::size_t i = 0; i < rows; ++i) order[i] = {random.at(i).first, i};
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(order.begin(), middle, order.end());
  std::vector<bool> held(rows, false);
  for (auto it = order.begin(); it != middle; ++it) held[it->second] = true;
  return held;
}

// The rows that were chosen, with their examples, in their order.
Dataset chosen_rows(const Dataset& data, const std::vector<bool>& held) {
  Dataset out;
  out.class_weight = data.class_weight;
  out.classes = data.classes, out.space = data.space, out.format = data.format;
  std::vector<RowId> new_row(data.rows.rows());
  for (std::size_t r = 0; r < data.rows.rows(); ++r) {
    if (!held[r]) continue;
    new_row[r] = static_cast<RowId>(out.rows.rows());
    const RowView x = data.rows.row(r);
    out.rows.index.insert(out.rows.index.end(), x.index.begin(), x.index.end());
    out.rows.value.insert(out.rows.value.end(), x.value.begin(), x.value.end());
    out.rows.begin.push_back(out.rows.index.size());
    for (std::uint64_t j = data.label_begin[r]; j < data.label_begin[r + 1]; ++j)
      out.label_set.push_back(data.label_set[j]);
    out.label_begin.push_back(out.label_set.size());
    if (!data.row_weight.empty()) out.row_weight.push_back(data.row_weight[r]);
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::size_t r = data.row_of(i);
    if (!held[r]) continue;
    out.label.push_back(data.label[i]);
    if (!data.example_row.empty()) out.example_row.push_back(new_row[r]);
    if (!data.weight.empty()) out.weight.push_back(data.weight[i]);
  }
  return out;
}

// The others move together where they are: a second copy of large data may not fit. A
// place is written after it was read.
void drop_rows(Dataset& data, const std::vector<bool>& held) {
  std::vector<RowId> new_row(data.rows.rows());
  std::vector<std::uint64_t> ends{0}, label_ends{0};
  std::size_t row = 0, example = 0;
  std::uint64_t at = 0, label_at = 0;
  for (std::size_t r = 0; r < held.size(); ++r) {
    if (held[r]) continue;
    new_row[r] = static_cast<RowId>(row);
    const std::uint64_t end = data.rows.begin[r + 1], label_end = data.label_begin[r + 1];
    for (std::uint64_t j = data.rows.begin[r]; j < end; ++j, ++at) {
      data.rows.index[at] = data.rows.index[j];
      data.rows.value[at] = data.rows.value[j];
    }
    for (std::uint64_t j = data.label_begin[r]; j < label_end; ++j)
      data.label_set[label_at++] = data.label_set[j];
    if (!data.row_weight.empty()) data.row_weight[row] = data.row_weight[r];
    ++row;
    ends.push_back(at);
    label_ends.push_back(label_at);
  }
  for (std::size_t i = 0; i < data.label.size(); ++i) {
    const std::size_t r = data.row_of(i);
    if (held[r]) continue;
    data.label[example] = data.label[i];
    if (!data.weight.empty()) data.weight[example] = data.weight[i];
    if (!data.example_row.empty()) data.example_row[example] = new_row[r];
    ++example;
  }
  data.rows.begin = std::move(ends);
  data.label_begin = std::move(label_ends);
  data.rows.index.resize(at);
  data.rows.value.resize(at);
  data.label_set.resize(label_at);
  data.label.resize(example);
  if (!data.row_weight.empty()) data.row_weight.resize(row);
  if (!data.weight.empty()) data.weight.resize(example);
  if (!data.example_row.empty()) data.example_row.resize(example);
}

}  // namespace

Dataset sample_rows(const Dataset& data, std::size_t count, std::uint64_t seed) {
  if (count >= data.rows.rows()) return data;
  return chosen_rows(data, choose(data.rows.rows(), count, seed));
}

namespace {
std::size_t rows_to_hold(std::size_t rows, double share) {
  return static_cast<std::size_t>(std::llround(share * static_cast<double>(rows)));
}
}  // namespace

void require_share(std::size_t rows, double share) {
  const std::size_t count = rows_to_hold(rows, share);
  if (count == 0 || count >= rows)
    throw UserError(fmt::format(
        "--valid-share {:g}: of {} rows this leaves none to {}; give another share, or --valid FILE", share,
        rows, count == 0 ? "validate on" : "train on"));
}

Dataset hold_out(Dataset& data, double share, std::uint64_t seed) {
  const std::size_t rows = data.rows.rows(), count = rows_to_hold(rows, share);
  require_share(rows, share);
  const std::vector<bool> held = choose(rows, count, seed);
  Dataset valid = chosen_rows(data, held);
  valid.statistics.rows_in_file = count;
  drop_rows(data, held);
  return valid;
}

}  // namespace truemax
