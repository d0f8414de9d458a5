#include "data/triples.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "data/preprocess.hpp"
#include "data/reading_memory.hpp"
#include "data/weight_files.hpp"

namespace truemax {
namespace {

constexpr const char* kFewerTriples = "read fewer triples (--max-rows), or raise --memory-limit";

double weight_of_triple(const RawRows& raw, std::size_t i) {
  return raw.weight.empty() ? 1.0 : raw.weight[i];
}

// Heads, relations and tails as the file has them.
std::uint32_t head_of(const RawRows& raw, std::size_t i) {
  return raw.rows.index[2 * i];
}
std::uint32_t relation_of(const RawRows& raw, std::size_t i) {
  return raw.rows.index[2 * i + 1];
}
std::uint32_t tail_of(const RawRows& raw, std::size_t i) {
  if (!raw.has_label(i))
    throw raw.error(i, "the triple has no tail", "write head, relation and tail, separated by tabs");
  return raw.label[raw.label_begin[i]];
}

// Every end of a triple is the label of one of its two rows.
std::shared_ptr<ClassList> entities_of(const RawRows& raw) {
  std::vector<double> counts(raw.label_names.size(), 0.0);
  for (std::size_t i = 0; i < raw.size(); ++i)
    for (const std::uint32_t end : {head_of(raw, i), tail_of(raw, i)})
      counts[end] += weight_of_triple(raw, i);
  std::vector<std::string> names;
  std::vector<double> kept;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    if (counts[e] == 0) continue;  // only in rows of weight 0
    names.push_back(raw.label_names[e]);
    kept.push_back(counts[e]);
  }
  if (names.size() == 1)
    throw file_error(raw.path, 0,
                     fmt::format("the head and the tail of all {} are {}", counted(raw.size(), "triple"),
                                 in_quotes(names[0])),
                     "train on triples of two entities or more");
  return std::make_shared<ClassList>(std::move(names), std::move(kept));
}

// Numbers the relations by falling count; returns the new number of each.
std::vector<FeatureId> number_relations(const RawRows& raw, std::vector<std::string>& names) {
  std::vector<double> counts(raw.words.size(), 0.0);
  for (std::size_t i = 0; i < raw.size(); ++i) counts[relation_of(raw, i)] += weight_of_triple(raw, i);
  std::vector<FeatureId> rank = ranks_by_count(counts);
  names.resize(static_cast<std::size_t>(
      std::count_if(counts.begin(), counts.end(), [](double count) { return count > 0; })));
  for (std::size_t r = 0; r < rank.size(); ++r)
    if (rank[r] < names.size()) names[rank[r]] = raw.words[r];
  return rank;
}

std::vector<ClassId> classes_of_entities(const RawRows& raw, const ClassList& classes) {
  std::vector<ClassId> class_of;
  class_of.reserve(raw.label_names.size());
  for (const std::string& name : raw.label_names) class_of.push_back(classes.find(name));
  return class_of;
}

void charge_rows(RawRows& raw, std::uint64_t rows) {
  constexpr std::uint64_t kRowBytes = 2 * sizeof(std::uint64_t) + 2 * (sizeof(FeatureId) + sizeof(float)) +
                                      2 * sizeof(std::uint32_t) + sizeof(double) +
                                      2 * sizeof(std::uint64_t);  // numbering them
  try {
    raw.memory.add(rows * kRowBytes);
  } catch (const OverBudget& over) {
    throw memory_error(over, raw.path, 0, counted(raw.size(), "triple"), kFewerTriples);
  }
}

// Numbers the distinct rows of two features each.
void number_inputs(Dataset& data) {
  const std::size_t n = data.rows.rows();
  std::vector<std::pair<std::uint64_t, std::uint32_t>> pairs(n);
  for (std::size_t i = 0; i < n; ++i)
    pairs[i] = {std::uint64_t{data.rows.index[2 * i]} << 32 | data.rows.index[2 * i + 1],
                static_cast<std::uint32_t>(i)};
  std::sort(pairs.begin(), pairs.end());
  data.row_input.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    data.inputs += i == 0 || pairs[i].first != pairs[i - 1].first;
    data.row_input[pairs[i].second] = static_cast<std::uint32_t>(data.inputs - 1);
  }
}

// Both rows of every triple. Labels stay numbers of label_names.
void add_inverse_rows(RawRows& raw, const std::vector<ClassId>& class_of,
                      const std::vector<FeatureId>& relation, FeatureId entities, FeatureId relations) {
  const std::size_t n = raw.size();
  charge_rows(raw, 2 * n);
  Csr rows;
  rows.begin.reserve(2 * n + 1);
  rows.index.reserve(4 * n);
  std::vector<std::uint32_t> label;
  label.reserve(2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    const FeatureId r = entities + relation[relation_of(raw, i)];
    for (const FeatureId f : {class_of[head_of(raw, i)], r, class_of[tail_of(raw, i)], r + relations})
      rows.index.push_back(f);
    label.push_back(tail_of(raw, i));
    label.push_back(head_of(raw, i));
    rows.begin.push_back(4 * i + 2);
    rows.begin.push_back(4 * i + 4);
  }
  rows.value.assign(4 * n, 1.0F);
  std::vector<double> weight(raw.weight.empty() ? 0 : 2 * n);
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = raw.weight[i / 2];
  raw.weight = std::move(weight);
  raw.rows = std::move(rows);
  raw.label = std::move(label);
  raw.label_begin.resize(2 * n + 1);
  for (std::size_t i = 0; i <= 2 * n; ++i) raw.label_begin[i] = i;
  raw.lines.clear();
}

}  // namespace

void require_options_of_triples(const PreprocessOptions& options) {
  const char* const set = options.hash_features > 0              ? "hash-features"
                          : options.max_features > 0             ? "max-features"
                          : options.normalize != Normalize::none ? "normalize"
                                                                 : nullptr;
  if (set != nullptr)
    throw UserError(
        fmt::format("--{}: triples have names, no features to cut, hash or scale; leave it out", set));
}

Dataset make_triples_set(RawRows&& raw, const PreprocessOptions& options, const std::string& class_weights) {
  require_options_of_triples(options);
  Dataset data;
  data.format = raw.format;
  data.rows_together = 2;
  data.statistics.rows_in_file = raw.size();
  drop_weightless_rows(raw, data.statistics);
  if (raw.size() == 0)
    throw file_error(raw.path, 0, "no triple to train on", "check the file and its --format");
  if (raw.size() > kMostRows / 2)
    throw file_error(raw.path, 0, fmt::format("{} triples, {} are possible", raw.size(), kMostRows / 2),
                     "read fewer by --max-rows");
  data.classes = entities_of(raw);
  data.class_weight = make_class_weights(class_weights, *data.classes, raw.memory.budget());
  auto space = std::make_shared<FeatureSpace>();
  space->encoder = EncoderKind::complex;
  const std::vector<FeatureId> relation = number_relations(raw, space->relations);
  const std::uint64_t entities = data.classes->size(), relations = space->relations.size();
  space->file_features = entities + 2 * relations;
  if (space->file_features >= kUnseenClass)
    throw file_error(raw.path, 0, fmt::format("{} entities and {} relations", entities, relations),
                     fmt::format("entities and twice the relations stay below {}", kUnseenClass));
  space->features = static_cast<FeatureId>(space->file_features);
  data.space = space;
  const std::vector<ClassId> class_of = classes_of_entities(raw, *data.classes);
  add_inverse_rows(raw, class_of, relation, static_cast<FeatureId>(entities),
                   static_cast<FeatureId>(relations));
  add_labels(raw, LabelRule::first, class_of, data);
  data.rows = std::move(raw.rows);
  number_inputs(data);
  return data;
}

// In place: kept triples move to the front.
void prepare_triples(RawRows& raw, const ClassList& classes, const NameViews& relations, bool drop_rows,
                     Dataset& data) {
  const std::vector<ClassId> class_of = classes_of_entities(raw, classes);
  std::vector<FeatureId> relation_number;
  for (const std::string& name : raw.words) relation_number.push_back(relations.find(name));
  static_assert(NameViews::kNone == kUnseenClass);
  std::uint64_t rows = 0, used = 0, labels = 0;
  for (std::size_t i = 0, n = raw.size(); i < n; ++i) {
    const ClassId head = class_of[head_of(raw, i)];
    const FeatureId relation = relation_number[relation_of(raw, i)];
    const bool known = head != kUnseenClass && relation != kUnseenClass, has_tail = raw.has_label(i);
    const std::uint32_t tail = has_tail ? tail_of(raw, i) : 0;
    if (drop_rows && !(known && class_of[tail] != kUnseenClass)) {
      ++data.statistics.unseen;
      continue;
    }
    if (known) {
      raw.rows.index[used++] = head;
      raw.rows.index[used++] = static_cast<FeatureId>(classes.size()) + relation;
    } else {
      data.statistics.unknown_words +=
          (head == kUnseenClass ? 1U : 0U) + (relation == kUnseenClass ? 1U : 0U);
    }
    if (has_tail) raw.label[labels++] = tail;
    if (!raw.weight.empty()) raw.weight[rows] = raw.weight[i];
    ++rows;
    raw.rows.begin[rows] = used;
    raw.label_begin[rows] = labels;
  }
  raw.rows.begin.resize(rows + 1);
  raw.rows.index.resize(used);
  raw.rows.value.resize(used);
  raw.label_begin.resize(rows + 1);
  raw.label.resize(labels);
  if (!raw.weight.empty()) raw.weight.resize(rows);
  raw.lines.clear();
  add_labels(raw, LabelRule::first, class_of, data);
}

DataView tails_of(const DataView& data) {
  if (data.rows_together == 1) return data;
  DataView tails = data.rows_where([](std::size_t place) { return place % 2 == 0; });
  tails.rows_together = 1;
  return tails;
}

}  // namespace truemax
