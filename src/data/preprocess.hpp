// The steps of the preprocessing, shared by training, test and prediction data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "data/raw_rows.hpp"
#include "data/text_buckets.hpp"

namespace truemax {

struct RowFilter {
  std::uint64_t features = 0;  // values of features from here on are dropped
  bool drop_rows = true;       // drop rows without label or features
  Normalize normalize = Normalize::none;
  bool keep_zeros = false;  // not those without features: they tell how frequent classes are
};

// Drops the rows of weight 0 and counts them.
void drop_weightless_rows(RawRows& raw, DataStatistics& statistics);

// Cuts, drops and scales in place, and counts what was dropped.
void filter_rows(RawRows& raw, const RowFilter& filter, DataStatistics& statistics);

// Renumbers the features of fastText rows: word w becomes to[w], or is dropped if that is kDropFeature, and
// so do the buckets of n-grams, whose new numbers must ascend. Rows stay ascending.
void renumber_features(Csr& rows, const std::vector<FeatureId>& to, const BucketNumbers& buckets);

// The bucket of a feature under --hash-features, from its number (from 0) or the bytes of its word. Part of
// the model format (docs/formats.md): it must never change.
std::uint64_t bucket_of(std::uint64_t feature, std::uint64_t buckets);
std::uint64_t bucket_of(std::string_view word, std::uint64_t buckets);

// Hashes all features into their buckets. Values of a row that share a bucket are added in double; zero sums
// are dropped. Throws UserError if a sum is too large for float32.
void hash_features(RawRows& raw, std::uint64_t buckets);
// The same with the buckets of all words, which buckets_of_words() gives; empty: features are numbers.
void hash_features(RawRows& raw, std::uint64_t buckets, std::span<const FeatureId> of_word);
std::vector<FeatureId> buckets_of_words(const std::vector<std::string>& words, std::uint64_t buckets);

// New numbers for `count` items, by falling count, ties by their old number.
std::vector<FeatureId> ranks_by_count(const std::vector<double>& counts);

// Fills label_set, row_weight, and the examples with their rows and weights by the rule and
// data.class_weight. class_of: the class of each of raw.label_names. Takes the labels out of `raw`. Throws
// UserError if a weight is out of range or memory is short.
void add_labels(RawRows& raw, LabelRule rule, const std::vector<ClassId>& class_of, Dataset& data);

// The last step for training data, in data/load.cpp: classes, class weights and labels, from the labels and
// weights of `raw`. Throws UserError if no row, or only one class, is left.
void label_training_set(RawRows& raw, const PreprocessOptions& options, const std::string& class_weights,
                        Dataset& data);

}  // namespace truemax
