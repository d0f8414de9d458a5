// What a data set is made of: classes, features, and the arrays of its rows and examples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/csr.hpp"
#include "core/types.hpp"
#include "data/options.hpp"

namespace truemax {

// The classes of a model: inside, ids by falling label count (ties by name order); outside, names.
class ClassList {
 public:
  ClassList() = default;
  // names and counts in any order; sorts them by falling count, ties by name_less.
  ClassList(std::vector<std::string> names, std::vector<double> counts);

  std::size_t size() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }  // by id
  const std::string& name(ClassId k) const { return names_[k]; }
  double count(ClassId k) const { return counts_[k]; }  // sum of the row weights of its examples in training
  ClassId find(std::string_view name) const;            // kUnseenClass where there is none
  // The classes in the order of their names (numbers by value, before words): the row order of a model file.
  std::vector<ClassId> by_name() const;
  // The place of each class in that order: how ties between equal scores are broken.
  std::vector<std::uint32_t> name_ranks() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  std::vector<std::string> names_;
  std::vector<double> counts_;
  std::unordered_map<std::string, ClassId, Hash, std::equal_to<>> ids_;
};

// Whole numbers by value, before everything else by bytes.
bool name_less(std::string_view a, std::string_view b);

// What the features of a model are: their number, and for text formats their names.
struct FeatureSpace {
  std::uint64_t file_features = 0;  // D as the file has it, before --max-features or --hash-features
  FeatureId features = 0;           // D of the weights
  bool declared = false;           // the format states D (header, dense shape): other data must agree exactly
  std::vector<std::string> words;  // fastText: the word of each feature, by falling count; else empty
  bool hashed_words = false;       // --hash-features of words: they are not kept
  bool of_words() const { return hashed_words || !words.empty(); }
};

struct DataStatistics {
  std::uint64_t rows_in_file = 0;           // rows read (after --max-rows and the split)
  std::uint64_t rows_of_weight_zero = 0;    // dropped, and not counted below
  std::uint64_t rows_without_label = 0;     // dropped
  std::uint64_t rows_without_features = 0;  // dropped (counted after the feature limit)
  std::uint64_t unseen = 0;                 // examples whose label training never saw: left out
  std::uint64_t unknown_words = 0;          // fastText: words that training never saw, left out
  std::uint64_t unknown_features = 0;       // numbered features above the model's D, left out where asked
  std::uint64_t cut_features = 0;           // values dropped by --max-features
};

// The arrays of a data set while it is made. Who only reads takes a DataView of it.
struct Dataset {
  Csr rows;                        // distinct feature rows
  std::vector<RowId> example_row;  // the row of each example, ascending; empty: example i is row i
  std::vector<ClassId> label;      // of each example; kUnseenClass never stands here
  // Of each example: that of its row, times the label's share of the row, times that of the class; empty: all
  // 1.
  std::vector<double> weight;
  std::vector<double> row_weight;    // of each row, for precision at k; empty: all 1
  std::vector<double> class_weight;  // by class; empty: all 1
  // All labels of each row, for precision at k; labels that are no class stand as kUnseenClass.
  std::vector<std::uint64_t> label_begin{0};
  std::vector<ClassId> label_set;

  std::shared_ptr<const ClassList> classes;
  std::shared_ptr<const FeatureSpace> space;
  Format format = Format::automatic;  // as read
  DataStatistics statistics;

  std::size_t size() const { return label.size(); }  // N: examples
  double weight_of_class(ClassId k) const { return class_weight.empty() ? 1.0 : class_weight[k]; }
};

}  // namespace truemax
