#include "data/preprocess.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/text.hpp"

namespace truemax {
namespace {

// Far from both ends of double: sums over all examples stay finite.
constexpr double kLeastExample = 1e-60, kLargestExample = 1e60;

// Scales values to length 1. Squares of floats neither overflow nor vanish in a double, so the length of a
// row that holds a value is positive and finite.
void scale_to_unit(float* value, std::size_t count) {
  double sum = 0;
  for (std::size_t j = 0; j < count; ++j)
    sum += static_cast<double>(value[j]) * static_cast<double>(value[j]);
  const double length = std::sqrt(sum);
  for (std::size_t j = 0; j < count; ++j)
    value[j] = static_cast<float>(static_cast<double>(value[j]) / length);
}

}  // namespace

void drop_weightless_rows(RawRows& raw, DataStatistics& statistics) {
  if (std::find(raw.weight.begin(), raw.weight.end(), 0.0) == raw.weight.end()) return;
  std::vector<std::uint64_t> kept;
  for (std::size_t i = 0; i < raw.size(); ++i)
    if (raw.weight[i] > 0) kept.push_back(i);
  statistics.rows_of_weight_zero += raw.size() - kept.size();
  raw = gather_rows(raw, kept);
}

void filter_rows(RawRows& raw, const RowFilter& filter, DataStatistics& statistics) {
  Csr& rows = raw.rows;
  std::uint64_t used = 0, labels_used = 0, rows_used = 0;  // what is kept moves to the front
  std::vector<LineMark> no_lines;
  raw.lines.swap(no_lines);
  std::uint64_t begin = 0, label_begin = 0;
  for (std::size_t i = 0, n = raw.size(); i < n; ++i) {
    const std::uint64_t end = rows.begin[i + 1], label_end = raw.label_begin[i + 1];
    const std::uint64_t row_used = used;
    for (std::uint64_t j = begin; j < end; ++j) {
      if (rows.index[j] >= filter.features) {
        statistics.cut_features += end - j;  // ascending: the rest of the row goes too
        break;
      }
      rows.index[used] = rows.index[j];
      rows.value[used] = rows.value[j];
      ++used;
    }
    const bool has_label = label_end > label_begin, has_features = used > row_used;
    if (!has_label) ++statistics.rows_without_label;
    if (has_label && !has_features) ++statistics.rows_without_features;
    if (filter.drop_rows && !(has_label && has_features)) {
      used = row_used;
    } else {
      if (filter.normalize == Normalize::l2 && has_features) {
        scale_to_unit(rows.value.data() + row_used, used - row_used);
        // A value far below the largest one may have become zero, which no row stores.
        std::uint64_t to = row_used;
        for (std::uint64_t j = row_used; j < used; ++j) {
          if (rows.value[j] == 0.0F) continue;
          rows.index[to] = rows.index[j];
          rows.value[to] = rows.value[j];
          ++to;
        }
        used = to;
      }
      for (std::uint64_t j = label_begin; j < label_end; ++j) raw.label[labels_used++] = raw.label[j];
      if (!raw.weight.empty()) raw.weight[rows_used] = raw.weight[i];
      ++rows_used;
      rows.begin[rows_used] = used;
      raw.label_begin[rows_used] = labels_used;
    }
    begin = end;
    label_begin = label_end;
  }
  rows.begin.resize(rows_used + 1);
  rows.index.resize(used);
  rows.value.resize(used);
  raw.label_begin.resize(rows_used + 1);
  raw.label.resize(labels_used);
  if (!raw.weight.empty()) raw.weight.resize(rows_used);
  if (rows.begin.capacity() > rows.begin.size() + rows.begin.size() / 2) rows.begin.shrink_to_fit();
  release_room(rows.index);
  release_room(rows.value);
}

void renumber_features(Csr& rows, const std::vector<FeatureId>& to) {
  std::vector<std::pair<FeatureId, float>> row;
  std::uint64_t used = 0, begin = 0;
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    row.clear();
    for (std::uint64_t j = begin; j < rows.begin[i + 1]; ++j)
      if (to[rows.index[j]] != kDropFeature) row.emplace_back(to[rows.index[j]], rows.value[j]);
    std::sort(row.begin(), row.end());
    begin = rows.begin[i + 1];
    for (const auto& [feature, value] : row) {
      rows.index[used] = feature;
      rows.value[used] = value;
      ++used;
    }
    rows.begin[i + 1] = used;
  }
  rows.index.resize(used);
  rows.value.resize(used);
}

namespace {
// Every bit of the result depends on every bit of z: the finaliser of splitmix64.
std::uint64_t mixed(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}
}  // namespace

std::uint64_t bucket_of(std::uint64_t feature, std::uint64_t buckets) {
  return mixed(feature) % buckets;
}

std::uint64_t bucket_of(std::string_view word, std::uint64_t buckets) {
  std::uint64_t h = 0xCBF29CE484222325ULL;  // FNV-1a: bytes in their order, the same on every machine
  for (const char c : word) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return mixed(h) % buckets;
}

void hash_features(RawRows& raw, std::uint64_t buckets) {
  Csr& rows = raw.rows;
  const bool words = raw.format == Format::fasttext;
  std::vector<FeatureId> of_word(raw.words.size());
  for (std::size_t w = 0; w < of_word.size(); ++w)
    of_word[w] = static_cast<FeatureId>(bucket_of(raw.words[w], buckets));
  std::vector<std::pair<FeatureId, float>> row;
  std::uint64_t used = 0, begin = 0;
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    row.clear();
    for (std::uint64_t j = begin; j < rows.begin[i + 1]; ++j)
      row.emplace_back(words ? of_word[rows.index[j]]
                             : static_cast<FeatureId>(bucket_of(std::uint64_t{rows.index[j]}, buckets)),
                       rows.value[j]);
    // By value within a bucket, so that a sum does not depend on how words were numbered.
    std::sort(row.begin(), row.end());
    begin = rows.begin[i + 1];
    for (std::size_t at = 0; at < row.size();) {
      const FeatureId bucket = row[at].first;
      double sum = 0;
      for (; at < row.size() && row[at].first == bucket; ++at) sum += static_cast<double>(row[at].second);
      const auto value = static_cast<float>(sum);
      if (!std::isfinite(value))
        throw raw.error(i,
                        fmt::format("values that --hash-features {} adds come to {:g}, too much for a "
                                    "32-bit float",
                                    buckets, sum),
                        "scale the values down, or give more buckets");
      if (value == 0.0F) continue;
      rows.index[used] = bucket;
      rows.value[used] = value;
      ++used;
    }
    rows.begin[i + 1] = used;
  }
  rows.index.resize(used);
  rows.value.resize(used);
}

std::vector<FeatureId> ranks_by_count(const std::vector<double>& counts) {
  std::vector<FeatureId> order(counts.size());
  std::iota(order.begin(), order.end(), FeatureId{0});
  std::sort(order.begin(), order.end(),
            [&](FeatureId a, FeatureId b) { return counts[a] != counts[b] ? counts[a] > counts[b] : a < b; });
  std::vector<FeatureId> rank(counts.size());
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<FeatureId>(i);
  return rank;
}

void add_labels(const RawRows& raw, LabelRule rule, const std::vector<ClassId>& class_of, Dataset& data) {
  const std::size_t rows = raw.size();
  bool one_each = true, all_weigh_one = true;
  if (std::any_of(raw.weight.begin(), raw.weight.end(), [](double w) { return w != 1; }))
    data.row_weight = raw.weight;
  data.label_set.reserve(raw.label.size());
  data.label_begin.reserve(rows + 1);
  data.label.reserve(rule == LabelRule::first ? rows : raw.label.size());
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint64_t begin = raw.label_begin[i], end = raw.label_begin[i + 1];
    for (std::uint64_t j = begin; j < end; ++j) data.label_set.push_back(class_of[raw.label[j]]);
    data.label_begin.push_back(data.label_set.size());
    const std::uint64_t examples =
        rule == LabelRule::first ? std::min<std::uint64_t>(1, end - begin) : end - begin;
    for (std::uint64_t j = begin; j < begin + examples; ++j) {
      const ClassId label = class_of[raw.label[j]];
      if (label == kUnseenClass) {
        ++data.statistics.unseen;
        continue;
      }
      one_each &= data.label.size() == i;
      const double row_weight = raw.weight.empty() ? 1.0 : raw.weight[i];
      const double weight = row_weight / static_cast<double>(examples) * data.weight_of_class(label);
      if (!(weight >= kLeastExample && weight <= kLargestExample))
        throw file_error(raw.path, 0,
                         fmt::format("an example of class {} would weigh {:g}, its row {:g}",
                                     in_quotes(data.classes->name(label)), weight, row_weight),
                         "give row and class weights nearer to 1");
      all_weigh_one &= weight == 1;
      data.label.push_back(label);
      data.example_row.push_back(static_cast<RowId>(i));
      data.weight.push_back(weight);
    }
  }
  if (one_each && data.label.size() == rows) data.example_row = {};
  if (all_weigh_one) data.weight = {};
}

}  // namespace truemax
