#include "data/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "data/input.hpp"
#include "data/preprocess.hpp"
#include "data/text_ngrams.hpp"
#include "data/text_set.hpp"
#include "data/triples.hpp"
#include "data/weight_files.hpp"

namespace truemax {
namespace {

std::uint64_t limited(std::uint64_t features, std::uint64_t max_features) {
  return max_features == 0 ? features : std::min(features, max_features);
}

// The features of the rows may be elsewhere.
std::size_t labelled_rows(const RawRows& raw) {
  return raw.label_begin.size() - 1;
}

double weight_of(const RawRows& raw, std::size_t i) {
  return raw.weight.empty() ? 1.0 : raw.weight[i];
}

// " 3 have weight 0,", or empty.
std::string weightless_text(const DataStatistics& statistics) {
  const std::uint64_t rows = statistics.rows_of_weight_zero;
  return rows == 0 ? "" : fmt::format(" {} have weight 0,", rows);
}

// The features of text: the words by falling number of occurrences, ties by first occurrence, as many as
// --max-features keeps; then the buckets of n-grams that occur.
void number_words_by_count(RawRows& raw, const PreprocessOptions& options, FeatureSpace& space) {
  std::vector<double> counts(raw.words.size(), 0.0);
  for (std::size_t i = 0; i < raw.size(); ++i)
    for (std::uint64_t j = raw.rows.begin[i], end = end_of_words(raw.rows, i); j < end; ++j)
      counts[raw.rows.index[j]] += weight_of(raw, i) * static_cast<double>(raw.rows.value[j]);
  std::vector<FeatureId> rank = ranks_by_count(counts);
  std::vector<std::string> words(raw.words.size());
  for (std::size_t i = 0; i < words.size(); ++i) words[rank[i]] = std::move(raw.words[i]);
  words.resize(limited(words.size(), options.max_features));
  for (FeatureId& to : rank)
    if (to >= words.size()) to = kDropFeature;
  for (const FeatureId f : raw.rows.index)
    if (f < kFirstBucket && rank[f] == kDropFeature) ++raw.cut_features;
  const BucketNumbers buckets = used_buckets(raw, options.ngrams(), static_cast<FeatureId>(words.size()));
  renumber_features(raw.rows, rank, buckets);
  space.words = std::move(words);
  space.buckets = buckets.members();
  space.file_features = raw.words.size() + space.buckets.size();
  space.features = static_cast<FeatureId>(space.words.size() + space.buckets.size());
  raw.words = {};
}

std::shared_ptr<FeatureSpace> make_space(RawRows& raw, const PreprocessOptions& options,
                                         std::uint64_t least_features) {
  auto space = std::make_shared<FeatureSpace>();
  space->declared = raw.declared;
  space->file_features = raw.features;
  if (options.hash_features > 0) {
    space->hashed_words = raw.format == Format::fasttext;
    space->features = static_cast<FeatureId>(options.hash_features);
    hash_features(raw, options.hash_features);
    raw.words = {};
    return space;
  }
  if (raw.format == Format::fasttext) {
    number_words_by_count(raw, options, *space);
    return space;
  }
  if (!raw.declared) space->file_features = std::max(raw.features, least_features);
  space->features = static_cast<FeatureId>(limited(space->file_features, options.max_features));
  return space;
}

void require_rows(const RawRows& raw, const PreprocessOptions& options, const DataStatistics& statistics) {
  if (labelled_rows(raw) > 0) return;
  const std::string limit = options.max_features > 0 && statistics.cut_features > 0
                                ? fmt::format(" below --max-features {}", options.max_features)
                                : "";
  throw file_error(raw.path, 0,
                   fmt::format("no row to train on: of {} rows{} {} have no label and {} no feature{}",
                               statistics.rows_in_file, weightless_text(statistics),
                               statistics.rows_without_label, statistics.rows_without_features, limit),
                   !limit.empty()                ? "raise --max-features"
                   : raw.format == Format::array ? "give rows with labels"
                                                 : "check the file and its --format");
}

// The sum of row weights of each name's examples, with those of earlier data.
std::vector<double> count_labels(const RawRows& raw, LabelRule rule) {
  std::vector<double> counts = raw.name_counts;
  counts.resize(raw.label_names.size(), 0.0);
  for (std::size_t i = 0; i < labelled_rows(raw); ++i) {
    const std::uint64_t begin = raw.label_begin[i], end = raw.label_begin[i + 1];
    if (rule == LabelRule::first) {
      counts[raw.label[begin]] += weight_of(raw, i);
      continue;
    }
    for (std::uint64_t j = begin; j < end; ++j)
      counts[raw.label[j]] += weight_of(raw, i) / static_cast<double>(end - begin);
  }
  return counts;
}

std::shared_ptr<ClassList> make_classes(const RawRows& raw, LabelRule rule) {
  const std::vector<double> counts = count_labels(raw, rule);
  std::vector<std::string> names;
  std::vector<double> kept;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    names.push_back(raw.label_names[i]);
    kept.push_back(counts[i]);
  }
  if (names.size() == 1)
    throw file_error(
        raw.path, 0,
        fmt::format("all {} usable rows have the class {}", labelled_rows(raw), in_quotes(names[0])),
        "train on rows of two classes or more");
  return std::make_shared<ClassList>(std::move(names), std::move(kept));
}

// The class weights that came with the rows, by class; empty: all 1.
std::vector<double> weights_of_names(const RawRows& raw, const ClassList& classes) {
  if (std::all_of(raw.name_weights.begin(), raw.name_weights.end(), [](double w) { return w == 1; }))
    return {};
  std::vector<double> weights(classes.size(), 1.0);
  for (std::size_t i = 0; i < raw.name_weights.size(); ++i)
    if (const ClassId k = classes.find(raw.label_names[i]); k != kUnseenClass)
      weights[k] = raw.name_weights[i];
  return weights;
}

std::vector<ClassId> classes_of_names(const RawRows& raw, const ClassList& classes) {
  std::vector<ClassId> class_of;
  class_of.reserve(raw.label_names.size());
  for (const std::string& name : raw.label_names) class_of.push_back(classes.find(name));
  return class_of;
}

}  // namespace

RawRows read_rows(const std::string& path, const ReadOptions& options, std::uint64_t max_rows,
                  std::size_t threads, std::vector<std::string>& notes) {
  StreamOptions stream;
  stream.threads = threads;
  RawRows rows = RowStream(path, options, stream, notes).next(max_rows == 0 ? ~0ULL : max_rows);
  if (!rows.weight.empty() &&
      std::all_of(rows.weight.begin(), rows.weight.end(), [](double w) { return w == 0; }))
    throw file_error(options.row_weights.empty() ? rows.path : shown_path(options.row_weights), 0,
                     rows.size() == 1 ? std::string("the only row has weight 0")
                                      : fmt::format("all {} rows have weight 0", rows.size()),
                     "give at least one row a weight above 0");
  return rows;
}

Dataset make_training_set(RawRows&& raw, const PreprocessOptions& options, std::uint64_t least_features,
                          const std::string& class_weights) {
  options.check();
  if (raw.format == Format::text) return make_text_set(std::move(raw), options, class_weights);
  require_no_text_options(options, raw);
  if (raw.format == Format::triples) return make_triples_set(std::move(raw), options, class_weights);
  Dataset data;
  data.format = raw.format;
  data.statistics.rows_in_file = raw.size();
  drop_weightless_rows(raw, data.statistics);
  const auto space = make_space(raw, options, least_features);
  // In the caller's arrays a row of zeros is a row like others, as for scikit-learn; in a file it is a line
  // with nothing in it.
  filter_rows(raw, {space->features, true, options.normalize, raw.format == Format::array}, data.statistics);
  data.space = space;
  label_training_set(raw, options, class_weights, data);
  data.rows = std::move(raw.rows);
  return data;
}

void label_training_set(RawRows& raw, const PreprocessOptions& options, const std::string& class_weights,
                        Dataset& data) {
  require_rows(raw, options, data.statistics);
  data.classes = make_classes(raw, options.labels);
  data.class_weight = raw.name_weights.empty()
                          ? make_class_weights(class_weights, *data.classes, raw.memory.budget())
                          : weights_of_names(raw, *data.classes);
  add_labels(raw, options.labels, classes_of_names(raw, *data.classes), data);
}

RowPreparer::RowPreparer(const PreprocessOptions& options, std::shared_ptr<const ClassList> classes,
                         std::shared_ptr<const FeatureSpace> space, bool drop_unknown_features,
                         std::vector<double> class_weight)
    : options_(options),
      classes_(std::move(classes)),
      space_(std::move(space)),
      drop_unknown_features_(drop_unknown_features),
      class_weight_(std::move(class_weight)) {
  for (const std::string& word : space_->of_triples() ? space_->relations : space_->words) words_.add(word);
  const auto first = static_cast<FeatureId>(space_->words.size());
  if (!space_->buckets.empty()) buckets_ = BucketNumbers(options_.ngrams().buckets, first, space_->buckets);
}

Dataset RowPreparer::test_set(RawRows&& raw) const {
  const std::string path = raw.path;
  if (reads_words(space_->encoder)) {
    check_kind(raw);
    return text_of_model(std::move(raw), classes_, space_, class_weight_);
  }
  const bool drop_rows = raw.format != Format::array;  // of arrays all are evaluated: the caller counts them
  Dataset data = prepare(std::move(raw), drop_rows);
  const DataStatistics& s = data.statistics;
  if (data.label.empty())
    throw file_error(
        path, 0,
        fmt::format(
            "no row can be evaluated: of {} rows{} {} have no label, {} no features, and {} examples a "
            "label that training never saw",
            s.rows_in_file, weightless_text(s), s.rows_without_label, s.rows_without_features, s.unseen),
        "give rows with labels of the training data, or use 'truemax predict'");
  return data;
}

Dataset RowPreparer::prediction_rows(RawRows&& raw) const {
  if (reads_words(space_->encoder)) {
    check_kind(raw);
    return prompts_of_model(std::move(raw), classes_, space_);
  }
  return prepare(std::move(raw), false);
}

Dataset RowPreparer::prepare(RawRows&& raw, bool drop_rows) const {
  Dataset data;
  data.format = raw.format;
  data.statistics.rows_in_file = raw.size();
  data.space = space_;
  data.classes = classes_;
  data.class_weight = class_weight_;
  check_kind(raw);
  if (drop_rows || !raw.weight.empty()) drop_weightless_rows(raw, data.statistics);
  if (raw.format == Format::triples) {
    prepare_triples(raw, *classes_, words_, drop_rows, data);
    data.rows = std::move(raw.rows);
    return data;
  }
  if (options_.hash_features > 0)
    hash_features(raw, options_.hash_features);
  else if (raw.format == Format::fasttext)
    look_up_words(raw, data.statistics);
  else
    check_features(raw, data.statistics);
  filter_rows(raw, {space_->features, drop_rows, options_.normalize}, data.statistics);
  add_labels(raw, options_.labels, classes_of_names(raw, *classes_), data);
  data.rows = std::move(raw.rows);
  return data;
}

void RowPreparer::check_kind(const RawRows& raw) const {
  const bool text_here = raw.format == Format::text, text_there = reads_words(space_->encoder);
  if (text_here != text_there)
    throw file_error(
        raw.path, 0,
        fmt::format("is {} data, but the model was trained on {}", format_name(raw.format),
                    text_there ? "plain text" : "rows with labels"),
        text_there ? "give plain text, with --format text" : "give data in the format of the training data");
  if (text_here) return;
  if ((raw.format == Format::triples) != space_->of_triples())
    throw file_error(raw.path, 0,
                     fmt::format("is {} data, but the model was trained on {}", format_name(raw.format),
                                 space_->of_triples() ? "triples" : "rows of features"),
                     "give data in the format of the training data");
  const bool words_here = raw.format == Format::fasttext, words_there = space_->of_words();
  if (words_here && !words_there)
    throw file_error(raw.path, 0, "is fastText text, but the model was trained on numbered features",
                     "give data in the format of the training data");
  if (!words_here && words_there)
    throw file_error(raw.path, 0,
                     fmt::format("is {} data, but the model was trained on words (fastText text)",
                                 format_name(raw.format)),
                     "give fastText text");
  if (raw.declared && space_->declared && raw.features != space_->file_features)
    throw file_error(
        raw.path, 0,
        fmt::format("has {} features, the model's data had {}", raw.features, space_->file_features),
        "give data with the features of the training data");
}

// Features above the model's D. If --max-features cut the training data, they are cut too.
void RowPreparer::check_features(RawRows& raw, DataStatistics& statistics) const {
  const std::uint64_t known = space_->file_features;
  if (raw.features <= known || space_->features < known) return;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const RowView row = raw.rows.row(i);
    if (row.index.empty() || row.index.back() < known) continue;
    if (!drop_unknown_features_) {
      const std::uint64_t base = raw.format == Format::libsvm ? 1 : 0;
      throw raw.error(i,
                      fmt::format("feature number {} is above the {} features of the model",
                                  row.index.back() + base, known),
                      "use --unknown-features drop to leave such features out");
    }
    const auto first = std::lower_bound(row.index.begin(), row.index.end(), known);
    statistics.unknown_features += static_cast<std::uint64_t>(row.index.end() - first);
  }
}

void RowPreparer::look_up_words(RawRows& raw, DataStatistics& statistics) const {
  std::vector<FeatureId> number(raw.words.size());
  for (std::size_t i = 0; i < number.size(); ++i) number[i] = words_.find(raw.words[i]);
  for (std::size_t j = 0; j < raw.rows.nonzeros(); ++j) {
    const FeatureId f = raw.rows.index[j];
    const auto count = static_cast<std::uint64_t>(raw.rows.value[j]);
    if (f >= kFirstBucket)
      statistics.unknown_ngrams += buckets_.find(f - kFirstBucket) == kDropFeature ? count : 0;
    else if (number[f] == NameViews::kNone)
      statistics.unknown_words += count;
  }
  static_assert(NameViews::kNone == kDropFeature);
  renumber_features(raw.rows, number, buckets_);
}

Dataset make_test_set(RawRows&& raw, const PreprocessOptions& options,
                      std::shared_ptr<const ClassList> classes, std::shared_ptr<const FeatureSpace> space,
                      bool drop_unknown_features, std::vector<double> class_weight) {
  return RowPreparer(options, std::move(classes), std::move(space), drop_unknown_features,
                     std::move(class_weight))
      .test_set(std::move(raw));
}

Dataset make_prediction_rows(RawRows&& raw, const PreprocessOptions& options,
                             std::shared_ptr<const ClassList> classes,
                             std::shared_ptr<const FeatureSpace> space, bool drop_unknown_features) {
  return RowPreparer(options, std::move(classes), std::move(space), drop_unknown_features)
      .prediction_rows(std::move(raw));
}

}  // namespace truemax
