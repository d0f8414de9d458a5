// N-grams of fastText text, hashed into buckets: runs of words of a line, and runs of characters of a word.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/csr.hpp"
#include "core/memory_budget.hpp"
#include "core/types.hpp"
#include "data/options.hpp"

namespace truemax {

// A feature of RawRows from here on is a bucket: this plus its number. Numbers of words are below.
inline constexpr FeatureId kFirstBucket = FeatureId{1} << 31;

// Where the words of row i end and its buckets begin.
inline std::uint64_t end_of_words(const Csr& rows, std::size_t i) {
  const FeatureId *const first = rows.index.data() + rows.begin[i], *const last =
                                                                        rows.index.data() + rows.begin[i + 1];
  return rows.begin[i] +
         static_cast<std::uint64_t>(
             std::partition_point(first, last, [](FeatureId f) { return f < kFirstBucket; }) - first);
}

// The bucket of an n-gram: XXH64 of its bytes, modulo `buckets`. The words of a run are joined by one blank;
// an n-gram of characters has no blank, so the two kinds never have the same text. Part of the model format
// (docs/formats.md): it must never change.
std::uint64_t ngram_bucket(std::string_view text, std::uint64_t buckets);

// Bound on the features of a word of one byte, for memory estimates: the word and its n-grams.
std::uint64_t features_per_word(const NgramRule& rule);

// Adds the n-grams of a line, word by word, to the features of its row. Memory is charged before it grows, so
// a long word or line ends in OverBudget, not in a full machine.
class LineNgrams {
 public:
  LineNgrams(const NgramRule& rule, const std::shared_ptr<MemoryBudget>& memory)
      : rule_(rule), memory_(memory), begin_(rule.words) {}

  void begin_line();
  // `word` is UTF-8. Room in `row` is charged to `row_memory`.
  void add_word(std::string_view word, std::vector<FeatureId>& row, MemoryCharge& row_memory);

 private:
  void add_runs_of_words(std::string_view word, std::vector<FeatureId>& row, MemoryCharge& row_memory);
  void add_runs_of_characters(std::string_view word, std::vector<FeatureId>& row, MemoryCharge& row_memory);
  FeatureId bucket(const std::vector<char>& text, std::size_t from, std::size_t to) const;

  NgramRule rule_;
  MemoryCharge memory_;             // of the texts
  std::vector<char> line_;          // "word word word", up to the current word
  std::vector<char> marked_;        // "<word>"
  std::vector<std::size_t> begin_;  // of the last rule_.words words in line_; word w is at w % rule_.words
  std::size_t words_ = 0;           // of the line so far
};

}  // namespace truemax
