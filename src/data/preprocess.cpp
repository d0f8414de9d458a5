#include "data/preprocess.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/text.hpp"
#include "data/reading_memory.hpp"
#include "data/text_ngrams.hpp"

namespace truemax {
namespace {

// Far from both ends of double, so that sums over all examples stay finite.
constexpr double kLeastExample = 1e-60, kLargestExample = 1e60;

// Scales the values to length 1. Squares of floats neither overflow nor underflow in double, so the length of
// a non-empty row is positive and finite.
void scale_to_unit(float* value, std::size_t count) {
  double sum = 0;
  for (std::size_t j = 0; j < count; ++j)
    sum += static_cast<double>(value[j]) * static_cast<double>(value[j]);
  const double length = std::sqrt(sum);
  for (std::size_t j = 0; j < count; ++j)
    value[j] = static_cast<float>(static_cast<double>(value[j]) / length);
}

}  // namespace

// In place: kept values move to the front.
void drop_weightless_rows(RawRows& raw, DataStatistics& statistics) {
  if (std::find(raw.weight.begin(), raw.weight.end(), 0.0) == raw.weight.end()) return;
  RawRows before;  // where the rows are in the file
  before.lines.swap(raw.lines);
  std::uint64_t kept = 0, used = 0, labels_used = 0, begin = 0, label_begin = 0;
  for (std::size_t i = 0, n = raw.size(); i < n; ++i) {
    const std::uint64_t end = raw.rows.begin[i + 1], label_end = raw.label_begin[i + 1];
    if (raw.weight[i] > 0) {
      if (!before.lines.empty()) raw.mark_line(kept, before.line_of(i));
      for (std::uint64_t j = begin; j < end; ++j, ++used) {
        raw.rows.index[used] = raw.rows.index[j];
        raw.rows.value[used] = raw.rows.value[j];
      }
      for (std::uint64_t j = label_begin; j < label_end; ++j) raw.label[labels_used++] = raw.label[j];
      raw.weight[kept++] = raw.weight[i];
      raw.rows.begin[kept] = used;
      raw.label_begin[kept] = labels_used;
    }
    begin = end;
    label_begin = label_end;
  }
  statistics.rows_of_weight_zero += raw.size() - kept;
  raw.rows.begin.resize(kept + 1);
  raw.rows.index.resize(used);
  raw.rows.value.resize(used);
  raw.label_begin.resize(kept + 1);
  raw.label.resize(labels_used);
  raw.weight.resize(kept);
}

void filter_rows(RawRows& raw, const RowFilter& filter, DataStatistics& statistics) {
  Csr& rows = raw.rows;
  std::uint64_t used = 0, labels_used = 0, rows_used = 0;  // kept values move to the front
  std::vector<LineMark> no_lines;
  raw.lines.swap(no_lines);
  statistics.cut_features += std::exchange(raw.cut_features, 0);
  std::uint64_t begin = 0, label_begin = 0;
  for (std::size_t i = 0, n = raw.size(); i < n; ++i) {
    const std::uint64_t end = rows.begin[i + 1], label_end = raw.label_begin[i + 1];
    const std::uint64_t row_used = used;
    for (std::uint64_t j = begin; j < end; ++j) {
      if (rows.index[j] >= filter.features) {
        statistics.cut_features += end - j;  // ascending: the rest of the row is cut too
        break;
      }
      rows.index[used] = rows.index[j];
      if (rows.elsewhere == nullptr) rows.value[used] = rows.value[j];  // else nothing moves
      ++used;
    }
    const bool has_label = label_end > label_begin, has_features = used > row_used;
    if (!has_label) ++statistics.rows_without_label;
    if (has_label && !has_features) ++statistics.rows_without_features;
    if (filter.drop_rows && !(has_label && (has_features || filter.keep_zeros))) {
      used = row_used;
    } else {
      if (filter.normalize == Normalize::l2 && has_features) {
        scale_to_unit(rows.value.data() + row_used, used - row_used);
        // A value far below the largest one may have become zero; zeros are not stored.
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
  if (rows.elsewhere == nullptr) rows.value.resize(used);
  raw.label_begin.resize(rows_used + 1);
  raw.label.resize(labels_used);
  if (!raw.weight.empty()) raw.weight.resize(rows_used);
  if (rows.begin.capacity() > rows.begin.size() + rows.begin.size() / 2) rows.begin.shrink_to_fit();
  release_room(rows.index);
  release_room(rows.value);
}

void renumber_features(Csr& rows, const std::vector<FeatureId>& to, const BucketNumbers& buckets) {
  std::vector<std::pair<FeatureId, float>> row;
  std::uint64_t used = 0, begin = 0;
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    row.clear();
    std::size_t words = 0;
    for (std::uint64_t j = begin; j < rows.begin[i + 1]; ++j) {
      const FeatureId old = rows.index[j];
      const FeatureId feature = old < kFirstBucket ? to[old] : buckets.find(old - kFirstBucket);
      if (feature == kDropFeature) continue;
      row.emplace_back(feature, rows.value[j]);
      words += old < kFirstBucket;
    }
    std::sort(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(words));
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
// The finaliser of splitmix64: every bit of the result depends on every bit of z.
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
  std::uint64_t h = 0xCBF29CE484222325ULL;  // FNV-1a: byte by byte, so the same on every machine
  for (const char c : word) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return mixed(h) % buckets;
}

std::vector<FeatureId> buckets_of_words(const std::vector<std::string>& words, std::uint64_t buckets) {
  std::vector<FeatureId> of_word(words.size());
  for (std::size_t w = 0; w < of_word.size(); ++w)
    of_word[w] = static_cast<FeatureId>(bucket_of(words[w], buckets));
  return of_word;
}

void hash_features(RawRows& raw, std::uint64_t buckets) {
  hash_features(raw, buckets, buckets_of_words(raw.words, buckets));
}

void hash_features(RawRows& raw, std::uint64_t buckets, std::span<const FeatureId> of_word) {
  Csr& rows = raw.rows;
  const bool words = raw.format == Format::fasttext;
  const auto hashed = [&](FeatureId f) {
    if (!words) return static_cast<FeatureId>(bucket_of(std::uint64_t{f}, buckets));
    return f < kFirstBucket ? of_word[f] : f - kFirstBucket;  // n-grams are in their buckets already
  };
  std::vector<std::pair<FeatureId, float>> row;
  std::uint64_t used = 0, begin = 0;
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    row.clear();
    for (std::uint64_t j = begin; j < rows.begin[i + 1]; ++j)
      row.emplace_back(hashed(rows.index[j]), rows.value[j]);
    // Sorted by value within a bucket, so that a sum does not depend on how words were numbered.
    std::sort(row.begin(), row.end());
    begin = rows.begin[i + 1];
    for (std::size_t at = 0; at < row.size();) {
      const FeatureId bucket = row[at].first;
      double sum = 0;
      for (; at < row.size() && row[at].first == bucket; ++at) sum += static_cast<double>(row[at].second);
      const auto value = static_cast<float>(sum);
      if (!std::isfinite(value))
        throw raw.error(
            i,
            fmt::format("values in one bucket of --hash-features {} add up to {:g}, too large for a "
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

void add_labels(RawRows& raw, LabelRule rule, const std::vector<ClassId>& class_of, Dataset& data) {
  const std::size_t rows = raw.label_begin.size() - 1;  // the features may be elsewhere
  const std::size_t most = rule == LabelRule::first ? rows : raw.label.size();
  bool shares = false;  // some row has several examples
  for (std::size_t i = 0; i < rows && rule == LabelRule::all && !shares; ++i)
    shares = raw.label_begin[i + 1] - raw.label_begin[i] > 1;
  const bool weighs = shares || !raw.weight.empty() || !data.class_weight.empty();
  try {
    raw.memory.add(most * (sizeof(ClassId) + (shares ? sizeof(RowId) : 0) + (weighs ? sizeof(double) : 0)));
  } catch (const OverBudget& over) {
    throw memory_error(over, raw.path, 0, counted(rows, "row"),
                       fmt::format("read fewer rows (--max-rows){}, or raise --memory-limit",
                                   shares ? ", take one label of each (--labels first)" : ""));
  }
  if (std::any_of(raw.weight.begin(), raw.weight.end(), [](double w) { return w != 1; }))
    data.row_weight = raw.weight;
  for (std::uint32_t& label : raw.label) label = class_of[label];
  data.label_set = std::move(raw.label);
  data.label_begin = std::move(raw.label_begin);
  data.label.reserve(most);
  if (weighs) data.weight.reserve(most);
  bool one_each = true, all_weigh_one = true;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint64_t begin = data.label_begin[i], end = data.label_begin[i + 1];
    const std::uint64_t examples =
        rule == LabelRule::first ? std::min<std::uint64_t>(1, end - begin) : end - begin;
    for (std::uint64_t j = begin; j < begin + examples; ++j) {
      const ClassId label = data.label_set[j];
      if (label == kUnseenClass) {
        ++data.statistics.unseen;
        continue;
      }
      if (one_each && data.label.size() != i) {  // from here on, example i is no longer row i
        one_each = false;
        data.example_row.reserve(most);
        for (std::size_t e = 0; e < data.label.size(); ++e) data.example_row.push_back(static_cast<RowId>(e));
      }
      const double row_weight = raw.weight.empty() ? 1.0 : raw.weight[i];
      const double weight = row_weight / static_cast<double>(examples) * data.weight_of_class(label);
      if (!(weight >= kLeastExample && weight <= kLargestExample))
        throw file_error(raw.path, 0,
                         fmt::format("an example of class {} would weigh {:g}, its row {:g}",
                                     in_quotes(data.classes->name(label)), weight, row_weight),
                         "give row and class weights nearer to 1");
      all_weigh_one &= weight == 1;
      data.label.push_back(label);
      if (!one_each) data.example_row.push_back(static_cast<RowId>(i));
      if (weighs) data.weight.push_back(weight);
    }
  }
  // Rows after the last example have none: example i is row i only if there are as many of each.
  if (one_each && data.label.size() != rows) {
    data.example_row.reserve(data.label.size());
    for (std::size_t e = 0; e < data.label.size(); ++e) data.example_row.push_back(static_cast<RowId>(e));
  }
  if (all_weigh_one) data.weight = {};
}

}  // namespace truemax
