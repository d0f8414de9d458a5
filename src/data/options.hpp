// What a reader and the preprocessing are told.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/memory_budget.hpp"
#include "core/options.hpp"

namespace truemax {

enum class Format { automatic, xmlrepository, lshtc, libsvm, fasttext, idx, npy };
enum class LabelRule { first, all };
enum class Normalize { none, l2 };

const char* format_name(Format format);  // "auto", or as in the table of data/formats.hpp

// Where rows come from. One per file read.
struct ReadOptions {
  Format format = Format::automatic;
  std::string label_file;  // the labels of idx and npy features; empty: found beside the features
  std::string split;       // XMLRepository split file: 1-based row numbers, one column per split
  std::uint64_t split_column = 1;
  // The format of the data a model was trained on, no option: it decides where the content of a file leaves
  // it open.
  Format expected = Format::automatic;

  // Not for prediction, so described apart (describe_row_weights).
  std::string row_weights;  // a file with a weight for each row of the data file

  // No options either: what reading may take of the memory, with all that is charged to it already (null:
  // what is free), and the feature number from which on no value is wanted (0: all are).
  std::shared_ptr<MemoryBudget> memory;
  std::uint64_t max_features = 0;

  void describe(OptionTable& table);
};

// What is done to the rows; kept in the model, so that test data gets the same.
struct PreprocessOptions {
  LabelRule labels = LabelRule::first;
  std::uint64_t max_features = 0;   // keep features numbered below this (0-based); 0: all
  std::uint64_t hash_features = 0;  // hash the features into so many buckets; 0: keep them as they are
  Normalize normalize = Normalize::none;

  void describe(OptionTable& table);
  void check() const;  // throws UserError where options contradict each other
  bool operator==(const PreprocessOptions&) const = default;
};

// Options that several commands have.
// --format; `written`: only those that can be written.
void describe_format(OptionTable& table, Format* format, bool written, const std::string& help);
void describe_max_rows(OptionTable& table, std::uint64_t* max_rows);
void describe_row_weights(OptionTable& table, std::string* row_weights);
void describe_class_weights(OptionTable& table, std::string* class_weights);
void describe_threads(OptionTable& table, std::uint64_t* threads);
void describe_memory_limit(OptionTable& table, std::uint64_t* memory_limit);

}  // namespace truemax
