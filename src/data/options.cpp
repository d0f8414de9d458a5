#include "data/options.hpp"

#include <fmt/format.h>

#include "data/formats.hpp"

namespace truemax {
namespace {
constexpr char kAutomaticContext[] = "auto";
constexpr double kMostBuckets = 1e9;  // near the largest feature number: more would save nothing
// A set of n-gram buckets takes 2 bits for each that is possible (data/text_buckets.hpp).
constexpr double kMostNgramBuckets = 1e8;
constexpr double kMostWordNgrams = 10, kMostCharNgrams = 20;

void add_ngrams(OptionTable& table, std::uint64_t* words, CountSpan* characters, std::uint64_t* buckets,
                const std::string& more) {
  table.count(
      "word-ngrams", words, {1, kMostWordNgrams},
      "fastText data: besides the words, every run of 2 to this many consecutive words of a line is a "
      "feature, hashed into --ngram-buckets.",
      {.elsewhere = {"wordNgrams", "ngram-range"}});
  table.span_or("char-ngrams", characters, {1, kMostCharNgrams}, "none",
                "fastText data: besides the words, every run of MIN to MAX characters of '<word>' is a "
                "feature, hashed into --ngram-buckets. Words unknown to the model have them too.",
                {.elsewhere = {"minn", "maxn"}});
  table.count("ngram-buckets", buckets, {1, kMostNgramBuckets},
              "Buckets of n-grams. Only those that occur in the training data take memory." + more,
              {.elsewhere = {"bucket"}});
}
}  // namespace

const char* format_name(Format format) {
  if (format == Format::array) return "array";
  return format == Format::automatic ? "auto" : find_format(format).name;
}

void describe_format(OptionTable& table, Format* format, bool written, const std::string& help) {
  std::vector<std::pair<std::string, Format>> values;
  if (!written) values.emplace_back("auto", Format::automatic);
  for (const FormatInfo& info : formats())
    if (!written || info.can_be_generated) values.emplace_back(info.name, info.format);
  table.choice("format", format, values, help, {.brief = true});
}

void ReadOptions::describe(OptionTable& table) {
  table.group("Data");
  describe_format(
      table, &format, false,
      "Format of the data files; auto recognises it by the content. gzip and zstd are recognised in "
      "every format.");
  table.text(
      "label-file", "FILE", &label_file,
      "The labels of idx or npy features. If left out, a file with a matching name in the same folder is "
      "used (images -> labels, X -> y), but not by predict.",
      {.one_file = true});
  table.text(
      "split", "FILE", &split,
      "Take only the rows whose numbers (from 1) are listed in this file, in its order: an XMLRepository "
      "split file.",
      {.one_file = true});
  table.count("split-column", &split_column, {.low = 1}, "The column of the split file, counted from 1.");
}

void PreprocessOptions::describe(OptionTable& table) {
  table.group("Data");
  table.choice(
      "labels", &labels, {{"first", LabelRule::first}, {"all", LabelRule::all}},
      "A row with several labels counts once for its first label, or once for each of its labels with "
      "weight 1 / their number.");
  table.count_alias(
      "max-features", &max_features, {.low = 1}, kUnlimited,
      "Keep only the features numbered below this (from 0), the commonest words in fastText data.");
  table.count_or(
      "hash-features", &hash_features, {1, kMostBuckets}, "none", 0,
      "Hash the features into this many buckets; values of a row that fall into one are added. W then "
      "has that many columns whatever the data have, and no words are kept with the model.");
  add_ngrams(table, &word_ngrams, &char_ngrams, &ngram_buckets,
             " With --hash-features, n-grams go into its buckets instead.");
  table.choice("normalize", &normalize, {{"none", Normalize::none}, {"l2", Normalize::l2}},
               "Scale each row to Euclidean length 1, or leave it as it is.", {.brief = true});
  table.count_or(
      "context", &context, {1, 1000}, kAutomaticContext, 0,
      "How many words of plain text predict the next one, or for cbow and skipgram how many on each side. "
      "auto: 8, for cbow and skipgram 5.",
      {.elsewhere = {"window", "ws", "context-size"}});
  table.count("min-count", &min_count, {.low = 1},
              "Words of plain text that occur less often than this in the training data become <unk>.",
              {.elsewhere = {"minCount", "min-frequency"}});
}

void PreprocessOptions::check() const {
  if (max_features > 0 && hash_features > 0)
    throw UserError(
        fmt::format("--max-features {} and --hash-features {}: a feature is cut or hashed, not both; leave "
                    "one of the two out",
                    max_features, hash_features));
  if (ngram_buckets == kDefaultNgramBuckets) return;
  if (hash_features > 0)
    throw UserError(
        fmt::format("--ngram-buckets {} and --hash-features {}: with hashed features, n-grams share their "
                    "buckets; leave --ngram-buckets out",
                    ngram_buckets, hash_features));
  if (!ngrams().any())
    throw UserError(fmt::format(
        "--ngram-buckets {}: there are no n-grams; add --word-ngrams 2 or --char-ngrams 3-6, or leave it out",
        ngram_buckets));
}

NgramRule PreprocessOptions::ngrams() const {
  return {word_ngrams, char_ngrams, hash_features > 0 ? hash_features : ngram_buckets};
}

std::string NgramRule::option() const {
  return words > 1 ? fmt::format("--word-ngrams {}", words)
                   : fmt::format("--char-ngrams {}-{}", characters.low, characters.high);
}

void describe_ngrams(OptionTable& table, std::uint64_t* words, CountSpan* characters,
                     std::uint64_t* buckets) {
  add_ngrams(table, words, characters, buckets, "");
}

void describe_max_rows(OptionTable& table, std::uint64_t* max_rows) {
  table.group("Data");
  table.count_alias("max-rows", max_rows, {1, 4e9}, kUnlimited,
                    "Read at most this many rows of each file, counted before any are dropped.");
}

void describe_row_weights(OptionTable& table, std::string* row_weights) {
  table.group("Data");
  table.text(
      "row-weights", "FILE", row_weights,
      "A weight for each row of the data file, dropped ones and those of other splits too: numbers from "
      "0 up, one per line or as a one-dimensional npy array. A row of weight 2 counts as two rows, one of "
      "weight 0 is dropped.",
      {.one_file = true});
}

void describe_class_weights(OptionTable& table, std::string* class_weights) {
  table.group("Data");
  table.text(
      "class-weights", "balanced|FILE", class_weights,
      "Class weights, multiplied with the row weights. 'balanced' gives all classes the same total weight: "
      "rows / (classes x rows of the class) each. A file has lines of a class and its weight above 0; "
      "classes that it does not name have weight 1.");
}

void describe_threads(OptionTable& table, const Place<std::uint64_t>& threads) {
  table.group("Machine");
  table.count_alias("threads", threads, {1, 4096}, kAllCores, "Threads. Never changes a result.",
                    {.brief = true, .of_machine = true, .replay = Replay::free});
}

void describe_memory_limit(OptionTable& table, std::uint64_t* memory_limit) {
  table.group("Machine");
  table.size_alias("memory-limit", memory_limit, "free",
                   "Memory to take at most, such as 16G; free: what the machine has free.",
                   {.of_machine = true, .replay = Replay::free});
}

}  // namespace truemax
