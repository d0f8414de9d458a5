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
std::vector<bool> choose(std::size_t rows, std::size_t count, std::uint64_t seed,
                         Stream stream = Stream::hold_out) {
  const CounterRandom random(seed, stream, 0);
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
  std::uint64_t rows = 0, nonzeros = 0, labels = 0;
  for (std::size_t r = 0; r < data.rows.rows(); ++r) {
    if (!held[r]) continue;
    ++rows, nonzeros += data.rows.row(r).index.size(), labels += data.labels_of_row(r).size();
  }
  out.rows.begin.reserve(rows + 1);
  out.rows.index.reserve(nonzeros);
  out.rows.value.reserve(nonzeros);
  out.label_begin.reserve(rows + 1);
  out.label_set.reserve(labels);
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

// The rows with held[place] == side, as a part of the set that `data` is, or is a part of.
Dataset part_of(const Dataset& data, const std::vector<bool>& held, bool side) {
  Dataset out;
  out.whole = data.whole == nullptr ? &data : data.whole;
  out.rows.borrowed = &out.whole->rows;
  out.class_weight = data.class_weight;
  out.classes = data.classes, out.space = data.space, out.format = data.format;
  const auto rows = static_cast<std::size_t>(std::count(held.begin(), held.end(), side));
  out.part.reserve(rows);
  for (std::size_t place = 0; place < held.size(); ++place)
    if (held[place] == side) out.part.push_back(static_cast<RowId>(data.row_at(place)));
  // Examples stand in the order of their rows.
  std::size_t examples = 0;
  for (const bool counting : {true, false}) {
    std::size_t place = 0;
    for (std::size_t i = 0; i < data.size(); ++i) {
      const std::size_t row = data.row_of(i);
      while (data.row_at(place) < row) ++place;
      if (held[place] != side) continue;
      if (counting) {
        ++examples;
        continue;
      }
      out.label.push_back(data.label[i]);
      out.example_row.push_back(static_cast<RowId>(row));
      if (!data.weight.empty()) out.weight.push_back(data.weight[i]);
    }
    out.label.reserve(examples);
    out.example_row.reserve(examples);
    if (!data.weight.empty()) out.weight.reserve(examples);
  }
  return out;
}

// The others move together where they are: a second copy of large data may not fit. A
// place is written after it was read.
void drop_rows(Dataset& data, const std::vector<bool>& held) {
  std::vector<RowId> new_row(data.rows.rows());
  std::size_t row = 0, example = 0;
  std::uint64_t at = 0, label_at = 0, begin = 0, label_begin = 0;
  for (std::size_t r = 0; r < held.size(); ++r) {
    const std::uint64_t end = data.rows.begin[r + 1], label_end = data.label_begin[r + 1];
    const std::uint64_t first = std::exchange(begin, end),
                        first_label = std::exchange(label_begin, label_end);
    if (held[r]) continue;
    new_row[r] = static_cast<RowId>(row);
    for (std::uint64_t j = first; j < end; ++j, ++at) {
      data.rows.index[at] = data.rows.index[j];
      data.rows.value[at] = data.rows.value[j];
    }
    for (std::uint64_t j = first_label; j < label_end; ++j) data.label_set[label_at++] = data.label_set[j];
    if (!data.row_weight.empty()) data.row_weight[row] = data.row_weight[r];
    ++row;
    data.rows.begin[row] = at;  // never beyond the row that was read last
    data.label_begin[row] = label_at;
  }
  for (std::size_t i = 0; i < data.label.size(); ++i) {
    const std::size_t r = data.row_of(i);
    if (held[r]) continue;
    data.label[example] = data.label[i];
    if (!data.weight.empty()) data.weight[example] = data.weight[i];
    if (!data.example_row.empty()) data.example_row[example] = new_row[r];
    ++example;
  }
  data.rows.begin.resize(row + 1);
  data.label_begin.resize(row + 1);
  data.rows.index.resize(at);
  data.rows.value.resize(at);
  release_room(data.rows.index);
  release_room(data.rows.value);
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

RowSplit set_aside(const Dataset& data, double share, std::uint64_t seed) {
  const std::size_t rows = data.row_count(), count = rows_to_hold(rows, share);
  require_share(rows, share);
  const std::vector<bool> held = choose(rows, count, seed);
  RowSplit split{part_of(data, held, false), part_of(data, held, true)};
  split.valid.statistics.rows_in_file = count;
  return split;
}

Dataset sample_part(const Dataset& data, std::size_t count, std::uint64_t seed, Stream stream) {
  const std::size_t rows = data.row_count();
  return part_of(data, choose(rows, std::min(count, rows), seed, stream), true);
}

Dataset with_labels_of(Dataset part, const Dataset& seen) {
  std::vector<bool> known(part.classes->size(), false);
  for (const ClassId label : seen.label) known[label] = true;
  const auto kept = [&](std::size_t i) { return known[part.label[i]]; };
  std::size_t count = 0;
  for (std::size_t i = 0; i < part.size(); ++i) count += kept(i);
  if (count == 0 || count == part.size()) return part;
  std::size_t at = 0;
  part.part.clear();
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (!kept(i)) continue;
    part.label[at] = part.label[i];
    part.example_row[at] = part.example_row[i];
    if (!part.weight.empty()) part.weight[at] = part.weight[i];
    if (part.part.empty() || part.part.back() != part.example_row[at])
      part.part.push_back(part.example_row[at]);
    ++at;
  }
  part.label.resize(count);
  part.example_row.resize(count);
  if (!part.weight.empty()) part.weight.resize(count);
  return part;
}

}  // namespace truemax
