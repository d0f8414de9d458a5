// The parts of a data set: classes, features, and the arrays of rows and examples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/csr.hpp"
#include "core/lazy.hpp"
#include "core/row_encoder.hpp"
#include "core/types.hpp"
#include "data/name_index.hpp"
#include "data/options.hpp"

namespace truemax {

class StreamedRows;

// The classes of a model: internally ids by falling label count (ties by name order), externally names.
class ClassList {
 public:
  ClassList() = default;
  // Takes names and counts in any order; sorts by falling count, ties by name_less. *ids: the id of each name
  // in the given order, if not null.
  ClassList(std::vector<std::string> names, std::vector<double> counts, std::vector<ClassId>* ids = nullptr);

  std::size_t size() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }  // by id
  const std::string& name(ClassId k) const { return names_[k]; }
  double count(ClassId k) const { return counts_[k]; }  // sum of the row weights of its training examples
  ClassId find(std::string_view name) const;            // kUnseenClass if there is none
  // The classes in name order (numbers by value, before words): the row order of a model file.
  std::vector<ClassId> by_name() const;
  // The place of each class in that order, which breaks ties between equal scores.
  const std::vector<std::uint32_t>& name_ranks() const;

 private:
  std::vector<std::string> names_;
  std::vector<double> counts_;
  NameIndex index_;
  Lazy<std::vector<std::uint32_t>>
      ranks_;  // name_ranks: sorting many names takes longer than predicting a row
};

// Whole numbers by value, then everything else by bytes.
bool name_less(std::string_view a, std::string_view b);

// The features of a model: their number and, for text formats, their names.
struct FeatureSpace {
  std::uint64_t file_features = 0;  // D in the file, before --max-features or --hash-features
  FeatureId features = 0;           // D of the weights
  bool declared = false;  // the format states D (header, dense shape), so other data must agree exactly
  std::vector<std::string> words;      // fastText: the word of each feature, by falling count; else empty
  std::vector<std::uint32_t> buckets;  // n-grams: feature words.size() + i is bucket buckets[i]; ascending
  bool hashed_words = false;           // words were hashed (--hash-features) and are not kept
  bool of_words() const { return hashed_words || !words.empty(); }

  // Plain text: a row is the words before a word, or around it, or a word alone.
  EncoderKind encoder = EncoderKind::linear;
  std::uint64_t context = 0;   // words before, or on each side
  std::size_t width() const {  // words of a row
    if (encoder == EncoderKind::skipgram) return 1;
    return encoder == EncoderKind::cbow ? 2 * context + 1 : context;
  }
  // Triples: by falling count. The features are the classes, the relations and their inverses
  // (data/triples.hpp).
  std::vector<std::string> relations;
  bool of_triples() const { return !relations.empty(); }
};

struct DataStatistics {
  std::uint64_t rows_in_file = 0;           // rows read, after --max-rows and the split
  std::uint64_t rows_of_weight_zero = 0;    // dropped, not counted below
  std::uint64_t rows_without_label = 0;     // dropped
  std::uint64_t rows_without_features = 0;  // dropped (counted after the feature limit)
  std::uint64_t unseen = 0;                 // examples left out because training never saw their label
  std::uint64_t unknown_words = 0;          // words or names left out because training never saw them
  std::uint64_t unknown_ngrams = 0;    // fastText: n-grams left out because training never saw their bucket
  std::uint64_t unk_words = 0;         // plain text: words that count as <unk>
  std::uint64_t unknown_features = 0;  // features numbered above the model's D, left out if asked
  std::uint64_t cut_features = 0;      // values dropped by --max-features
};

// The arrays of a data set under construction. Readers use a DataView of it.
struct Dataset {
  Csr rows;                                // distinct feature rows
  std::shared_ptr<StreamedRows> streamed;  // instead of `rows`, if they stay in a file
  // Plain text: the words before, in and after the rows; row i is words [i, i + ones.size()). `rows` is
  // empty.
  std::vector<FeatureId> words;
  std::vector<float> ones;
  std::vector<RowId> example_row;  // the row of each example, ascending; empty: example i is row i
  std::vector<ClassId> label;      // of each example; never kUnseenClass
  // Of each example: row weight times the label's share of the row times class weight; empty: all 1.
  std::vector<double> weight;
  std::vector<double> row_weight;    // of each row, for precision at k; empty: all 1
  std::vector<double> class_weight;  // by class; empty: all 1
  // All labels of each row, for precision at k; unknown labels are kUnseenClass. Empty: each row has the
  // label of its example. Only label_set empty: those of its examples.
  std::vector<std::uint64_t> label_begin{0};
  std::vector<ClassId> label_set;

  // Rows that recur, by row: rows with the same number are equal, and share one estimate of their normaliser
  // (train/learnt_lane.hpp). Empty: each example has its own. Numbers are below `inputs`.
  std::vector<std::uint32_t> row_input;
  std::size_t inputs = 0;

  std::shared_ptr<const ClassList> classes;
  std::shared_ptr<const FeatureSpace> space;
  Format format = Format::automatic;  // as read
  DataStatistics statistics;
  std::size_t rows_together = 1;  // 2: rows 2 i and 2 i + 1 are one triple, and are set aside together

  std::size_t size() const { return label.size(); }  // N: examples
  double weight_of_class(ClassId k) const { return class_weight.empty() ? 1.0 : class_weight[k]; }
};

}  // namespace truemax
