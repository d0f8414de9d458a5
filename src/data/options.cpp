#include "data/options.hpp"

#include <fmt/format.h>

namespace truemax {
namespace {
constexpr double kMostBuckets = 1e9;  // more is no saving: it is near the largest feature number
}

const char* format_name(Format format) {
  switch (format) {
    case Format::automatic:
      return "auto";
    case Format::xmlrepository:
      return "xmlrepository";
    case Format::lshtc:
      return "lshtc";
    case Format::libsvm:
      return "libsvm";
    case Format::fasttext:
      return "fasttext";
    case Format::idx:
      return "idx";
    case Format::npy:
      return "npy";
  }
  return "unknown";
}

void ReadOptions::describe(OptionTable& table) {
  table.choice("format", &format,
               {{"auto", Format::automatic},
                {"xmlrepository", Format::xmlrepository},
                {"lshtc", Format::lshtc},
                {"libsvm", Format::libsvm},
                {"fasttext", Format::fasttext},
                {"idx", Format::idx},
                {"npy", Format::npy}},
               "Format of the data files; auto recognises it by the content. gzip and zstd are recognised in "
               "every format.");
  table.text(
      "label-file", "FILE", &label_file,
      "The labels of idx or npy features; left out, a file of a fitting name beside the features is taken "
      "(images -> labels, X -> y), but not by predict.");
  table.text(
      "split", "FILE", &split,
      "Take only the rows whose numbers (from 1) stand in this file, in its order: an XMLRepository split "
      "file.");
  table.count("split-column", &split_column, {.low = 1}, "The column of the split file, counted from 1.");
}

void PreprocessOptions::describe(OptionTable& table) {
  table.choice(
      "labels", &labels, {{"first", LabelRule::first}, {"all", LabelRule::all}},
      "A row with several labels counts once for its first label, or once for each of its labels with "
      "weight 1 / their number.");
  table.count(
      "max-features", &max_features, {.low = 0},
      "Keep only the features numbered below this (from 0), the commonest words in fastText data; 0 keeps "
      "all.");
  table.count_or(
      "hash-features", &hash_features, {1, kMostBuckets}, "none", 0,
      "Hash the features into so many buckets; values of a row that fall into one are added. W then "
      "has that many columns whatever the data have, and no words are kept with the model.");
  table.choice("normalize", &normalize, {{"none", Normalize::none}, {"l2", Normalize::l2}},
               "Scale each row to Euclidean length 1, or leave it as it is.");
}

void PreprocessOptions::check() const {
  if (max_features > 0 && hash_features > 0)
    throw UserError(
        fmt::format("--max-features {} and --hash-features {}: a feature is cut or hashed, not both; leave "
                    "one of the two out",
                    max_features, hash_features));
}

void describe_max_rows(OptionTable& table, std::uint64_t* max_rows) {
  table.count("max-rows", max_rows, {0, 4e9},
              "Read at most so many rows of each file, counted before any are dropped; 0: all.");
}

void describe_row_weights(OptionTable& table, std::string* row_weights) {
  table.text(
      "row-weights", "FILE", row_weights,
      "A weight for each row of the data file, dropped ones and those of other splits too: numbers from "
      "0 up, one a line or as a one-dimensional npy array. A row of weight 2 counts as two rows, one of "
      "weight 0 is dropped.");
}

void describe_class_weights(OptionTable& table, std::string* class_weights) {
  table.text(
      "class-weights", "balanced|FILE", class_weights,
      "Weights that the examples of a class get besides those of their rows: 'balanced' gives all classes "
      "the same weight in sum, rows / (classes x rows of the class) each; a file has lines of a class and "
      "its weight above 0, classes it does not name have weight 1.");
}

void describe_threads(OptionTable& table, std::uint64_t* threads) {
  table.count("threads", threads, {0, 4096}, "Threads; 0: all cores. Never changes a result.");
}

void describe_memory_limit(OptionTable& table, std::uint64_t* memory_limit) {
  table.size("memory-limit", memory_limit,
             "Memory to take at most, such as 16G, instead of what the machine has free. 0: what is free.");
}

}  // namespace truemax
