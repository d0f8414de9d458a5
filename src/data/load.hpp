// From files to data sets: reading whole files, and the preprocessing that a model applies to later data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/names.hpp"
#include "data/options.hpp"
#include "data/raw_rows.hpp"
#include "data/row_stream.hpp"
#include "data/text_buckets.hpp"

namespace truemax {

// All rows of a file, or its first `max_rows` (0: all; of the split, if there is one). The result does not
// depend on `threads`. Throws UserError with file and line.
RawRows read_rows(const std::string& path, const ReadOptions& options, std::uint64_t max_rows,
                  std::size_t threads, std::vector<std::string>& notes);

// Preprocessing of training data, in this order: rows of weight 0 are dropped; features from max_features on
// are dropped, or all are hashed; each row gets its examples by the label rule; rows without label or
// features are dropped; rows are scaled. The classes are the labels of the examples. If the format does not
// state D, `least_features` widens it to cover the test data. `class_weights` takes the values of
// --class-weights. Throws UserError if no row, or only one class, is left.
Dataset make_training_set(RawRows&& raw, const PreprocessOptions& options, std::uint64_t least_features = 0,
                          const std::string& class_weights = "");

// The same preprocessing for later data of a model. Built once for many batches: it keeps an index of the
// model's words.
class RowPreparer {
 public:
  RowPreparer(const PreprocessOptions& options, std::shared_ptr<const ClassList> classes,
              std::shared_ptr<const FeatureSpace> space, bool drop_unknown_features,
              std::vector<double> class_weight = {});

  // Rows of weight 0, without label or without features are dropped and counted. A label that training never
  // saw makes no example, but its row stays. Throws UserError if no example is left.
  Dataset test_set(RawRows&& raw) const;
  // Drops no row: row i of the result is row i of `raw`, perhaps without features or labels.
  Dataset prediction_rows(RawRows&& raw) const;

 private:
  Dataset prepare(RawRows&& raw, bool drop_rows) const;
  void check_kind(const RawRows& raw) const;
  void check_features(RawRows& raw, DataStatistics& statistics) const;
  void look_up_words(RawRows& raw, DataStatistics& statistics) const;

  PreprocessOptions options_;
  std::shared_ptr<const ClassList> classes_;
  std::shared_ptr<const FeatureSpace> space_;
  bool drop_unknown_features_;
  std::vector<double> class_weight_;  // by class; empty: all 1
  NameViews words_;                   // of space_->words or space_->relations
  BucketNumbers buckets_;             // of space_->buckets
};

// RowPreparer for one set of rows.
Dataset make_test_set(RawRows&& raw, const PreprocessOptions& options,
                      std::shared_ptr<const ClassList> classes, std::shared_ptr<const FeatureSpace> space,
                      bool drop_unknown_features, std::vector<double> class_weight = {});
Dataset make_prediction_rows(RawRows&& raw, const PreprocessOptions& options,
                             std::shared_ptr<const ClassList> classes,
                             std::shared_ptr<const FeatureSpace> space, bool drop_unknown_features);

}  // namespace truemax
