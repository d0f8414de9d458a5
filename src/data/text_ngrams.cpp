#include "data/text_ngrams.hpp"

#include "core/checksum.hpp"
#include "data/reading_memory.hpp"

namespace truemax {
namespace {

// Bytes of a UTF-8 character after its first.
bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

}  // namespace

std::uint64_t ngram_bucket(std::string_view text, std::uint64_t buckets) {
  return xxh64(text) % buckets;
}

std::uint64_t features_per_word(const NgramRule& rule) {
  const CountSpan& length = rule.characters;
  return rule.words + (length.high > 0 ? 3 * (length.high - length.low + 1) : 0);  // '<a>' has 3 characters
}

void LineNgrams::begin_line() {
  line_.clear();
  words_ = 0;
}

void LineNgrams::add_word(std::string_view word, std::vector<FeatureId>& row, MemoryCharge& row_memory) {
  if (rule_.words > 1) add_runs_of_words(word, row, row_memory);
  if (rule_.characters.high > 0) add_runs_of_characters(word, row, row_memory);
}

FeatureId LineNgrams::bucket(const std::vector<char>& text, std::size_t from, std::size_t to) const {
  return kFirstBucket + static_cast<FeatureId>(ngram_bucket({text.data() + from, to - from}, rule_.buckets));
}

// The runs that end in this word.
void LineNgrams::add_runs_of_words(std::string_view word, std::vector<FeatureId>& row,
                                   MemoryCharge& row_memory) {
  grow(line_, word.size() + 1, memory_);
  if (words_ > 0) line_.push_back(' ');
  begin_[words_ % rule_.words] = line_.size();
  line_.insert(line_.end(), word.begin(), word.end());
  ++words_;
  const std::size_t longest = std::min<std::size_t>(words_, rule_.words);
  grow(row, longest, row_memory);
  for (std::size_t n = 2; n <= longest; ++n)
    row.push_back(bucket(line_, begin_[(words_ - n) % rule_.words], line_.size()));
}

// As fastText has them: '<' and '>' count as characters, but are no n-grams of their own.
void LineNgrams::add_runs_of_characters(std::string_view word, std::vector<FeatureId>& row,
                                        MemoryCharge& row_memory) {
  marked_.clear();
  grow(marked_, word.size() + 2, memory_);
  marked_.push_back('<');
  marked_.insert(marked_.end(), word.begin(), word.end());
  marked_.push_back('>');
  const std::size_t size = marked_.size();
  const auto next = [this, size](std::size_t at) {
    do ++at;
    while (at < size && continues_character(marked_[at]));
    return at;
  };
  const auto [low, high] = rule_.characters;
  const auto characters = static_cast<std::size_t>(
      std::count_if(marked_.begin(), marked_.end(), [](char c) { return !continues_character(c); }));
  grow(row,
       characters * (std::min<std::size_t>(high, characters) - std::min<std::size_t>(low, characters) + 1),
       row_memory);
  for (std::size_t from = 0; from < size; from = next(from)) {
    std::size_t to = from;
    for (std::uint64_t n = 1; n <= high && to < size; ++n) {
      to = next(to);
      const bool is_mark = n == 1 && (from == 0 || to == size);
      if (n >= low && !is_mark) row.push_back(bucket(marked_, from, to));
    }
  }
}

}  // namespace truemax
