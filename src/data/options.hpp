// Options of reading and preprocessing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/memory_budget.hpp"
#include "core/options.hpp"
#include "core/row_encoder.hpp"

namespace truemax {

// cache: rows of another format (data/cache_file.hpp), which is the format of what is read.
// array: rows that were not read from a file.
enum class Format {
  automatic,
  xmlrepository,
  lshtc,
  libsvm,
  fasttext,
  triples,
  idx,
  npy,
  text,
  cache,
  array
};
// Features are words or names.
constexpr bool has_words(Format format) {
  return format == Format::fasttext || format == Format::text || format == Format::triples;
}
enum class LabelRule { first, all };
enum class Normalize { none, l2 };

const char* format_name(Format format);  // "auto", or as in the table of data/formats.hpp

// Which n-grams of fastText text are features, and into how many buckets they are hashed.
struct NgramRule {
  std::uint64_t words = 1;  // runs of 2 to this many words
  CountSpan characters;     // lengths of character n-grams
  std::uint64_t buckets = 1;

  bool any() const { return words > 1 || characters.high > 0; }
  std::string option() const;  // as typed: "--word-ngrams 2"
  bool operator==(const NgramRule&) const = default;
};

// Where rows come from. One per file read.
struct ReadOptions {
  Format format = Format::automatic;
  std::string label_file;  // the labels of idx and npy features; empty: searched for beside the features
  std::string split;       // XMLRepository split file: 1-based row numbers, one column per split
  std::uint64_t split_column = 1;
  // Not an option: the format of the model's training data, which decides if the content of a file is
  // ambiguous.
  Format expected = Format::automatic;

  // Not for prediction, hence described separately (describe_row_weights).
  std::string row_weights;  // a file with a weight for each row of the data file

  // Not options: the memory budget, with what is already charged to it (null: free memory), the feature
  // number from which on values are dropped (0: keep all), and the n-grams of PreprocessOptions.
  std::shared_ptr<MemoryBudget> memory;
  std::uint64_t max_features = 0;
  NgramRule ngrams;

  void describe(OptionTable& table);
};

// Preprocessing of the rows; stored in the model, so that test data gets the same.
struct PreprocessOptions {
  static constexpr std::uint64_t kDefaultNgramBuckets = 2'000'000;

  LabelRule labels = LabelRule::first;
  std::uint64_t max_features = 0;   // keep features numbered below this (0-based); 0: all
  std::uint64_t hash_features = 0;  // hash the features into this many buckets; 0: no hashing
  std::uint64_t word_ngrams = 1;    // fastText: runs of 2 to this many words are features too
  CountSpan char_ngrams;            // fastText: character n-grams of these lengths are features too
  std::uint64_t ngram_buckets = kDefaultNgramBuckets;
  Normalize normalize = Normalize::none;
  // Plain text:
  EncoderKind encoder = EncoderKind::automatic;  // not an option here: copied from those of training
  std::uint64_t context = 0;                     // words before, or on each side; 0: not given
  std::uint64_t min_count = 1;                   // rarer words are <unk>

  void describe(OptionTable& table);
  void check() const;  // throws UserError if options contradict each other
  NgramRule ngrams() const;
  bool operator==(const PreprocessOptions&) const = default;
};

// Options shared by several commands.
// --format; `written`: only formats that can be written.
void describe_format(OptionTable& table, Format* format, bool written, const std::string& help);
void describe_ngrams(OptionTable& table, std::uint64_t* words, CountSpan* characters, std::uint64_t* buckets);
void describe_max_rows(OptionTable& table, std::uint64_t* max_rows);
void describe_row_weights(OptionTable& table, std::string* row_weights);
void describe_class_weights(OptionTable& table, std::string* class_weights);
void describe_threads(OptionTable& table, const Place<std::uint64_t>& threads);
void describe_memory_limit(OptionTable& table, std::uint64_t* memory_limit);

}  // namespace truemax
