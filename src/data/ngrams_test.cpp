// N-grams of fastText text: against a slow, obvious parser, for any threads and pieces, and within memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <sstream>

#include "core/checksum.hpp"
#include "data/load.hpp"
#include "data/test_support.hpp"
#include "data/text_buckets.hpp"
#include "data/text_ngrams.hpp"
#include "data/text_piece.hpp"

namespace truemax {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kManyBuckets = 1'000'000;

std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> out;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) out.emplace_back();
    out.back() += c;
  }
  return out;
}

// The n-grams of a line with their counts, by their text.
std::map<std::string, int> slow_ngrams(const std::vector<std::string>& words, const NgramRule& rule) {
  std::map<std::string, int> out;
  for (std::size_t from = 0; from < words.size(); ++from)
    for (std::size_t n = 2; n <= rule.words && from + n <= words.size(); ++n) {
      std::string text = words[from];
      for (std::size_t i = 1; i < n; ++i) text += " " + words[from + i];
      ++out[text];
    }
  for (const std::string& word : words) {
    const std::vector<std::string> all = characters_of("<" + word + ">");
    for (std::size_t from = 0; from < all.size(); ++from)
      for (std::size_t n = rule.characters.low; n <= rule.characters.high && from + n <= all.size(); ++n) {
        std::string text;
        for (std::size_t i = 0; i < n; ++i) text += all[from + i];
        const bool is_mark = n == 1 && (from == 0 || from + 1 == all.size());
        if (n > 0 && !is_mark) ++out[text];
      }
  }
  return out;
}

using SlowRow = std::map<std::string, float>;  // words by name, buckets as "#number"

SlowRow slow_row(const std::string& line, const NgramRule& rule) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    if (word.rfind("__label__", 0) != 0) words.push_back(word);
  SlowRow row;
  for (const std::string& word : words) row[word] += 1;
  for (const auto& [text, count] : slow_ngrams(words, rule))
    row["#" + std::to_string(xxh64(text) % rule.buckets)] += static_cast<float>(count);
  return row;
}

SlowRow named_row(const RawRows& raw, std::size_t i) {
  SlowRow out;
  const RowView row = raw.rows.row(i);
  for (std::size_t j = 0; j < row.index.size(); ++j) {
    EXPECT_TRUE(j == 0 || row.index[j - 1] < row.index[j]);
    out[row.index[j] < kFirstBucket ? raw.words[row.index[j]]
                                    : "#" + std::to_string(row.index[j] - kFirstBucket)] = row.value[j];
  }
  return out;
}

ReadOptions text_with(const NgramRule& rule) {
  ReadOptions options;
  options.format = Format::fasttext;
  options.ngrams = rule;
  return options;
}

std::string random_text(std::mt19937& random, int lines) {
  const std::vector<std::string> letters{"a", "b", "<", ">", "ö", "東", "🙂", "é"};
  std::string text;
  for (int i = 0; i < lines; ++i) {
    for (std::size_t words = random() % 9; words > 0; --words) {
      if (random() % 5 == 0) text += "__label__" + std::to_string(random() % 3) + " ";
      for (std::size_t length = 1 + random() % 6; length > 0; --length)
        text += letters[random() % letters.size()];
      text += random() % 6 == 0 ? "\t  " : " ";
    }
    text += '\n';
  }
  return text;
}

TEST(Ngrams, AreThoseOfTheSlowParserForAnyThreadsAndPieces) {
  const TempFolder folder;
  std::mt19937 random(1);
  for (const NgramRule& rule :
       {NgramRule{2, {}, kManyBuckets}, NgramRule{10, {}, kManyBuckets}, NgramRule{1, {1, 1}, kManyBuckets},
        NgramRule{1, {3, 6}, kManyBuckets}, NgramRule{3, {2, 20}, 50}, NgramRule{5, {1, 3}, 1}}) {
    const std::string text = random_text(random, 60), path = folder.write("f", text);
    const RawRows whole = read_all(path, text_with(rule));
    std::istringstream lines(text);
    std::string line;
    for (std::size_t i = 0; std::getline(lines, line); ++i)
      ASSERT_EQ(named_row(whole, i), slow_row(line, rule)) << rule.option() << ": " << line;
    for (const std::size_t window : {1U, 40U, 1000U}) {
      StreamOptions stream;
      stream.window = stream.piece = window;
      stream.threads = 3;
      expect_same(whole, read_all(path, text_with(rule), stream));
    }
  }
}

TEST(Ngrams, HaveTheTextsOfTheDocuments) {
  const NgramRule rule{3, {3, 4}, kManyBuckets};
  std::vector<std::string> texts;
  for (const auto& [text, count] : slow_ngrams({"as", "is"}, rule)) texts.push_back(text);
  EXPECT_EQ(texts, (std::vector<std::string>{"<as", "<as>", "<is", "<is>", "as is", "as>", "is>"}));
  EXPECT_EQ(ngram_bucket("as is", kManyBuckets), xxh64(std::string_view("as is")) % kManyBuckets);
}

TEST(Ngrams, SkipLabelsBetweenWords) {
  const TempFolder folder;
  const NgramRule rule{2, {}, kManyBuckets};
  const RawRows raw = read_all(folder.write("f", "a __label__x b\nb\na\n"), text_with(rule));
  EXPECT_EQ(named_row(raw, 0).count("#" + std::to_string(ngram_bucket("a b", kManyBuckets))), 1U);
  EXPECT_EQ(named_row(raw, 1).size(), 1U) << "no run crosses a line";
}

TEST(Ngrams, AreRefusedInOtherFormats) {
  const TempFolder folder;
  const std::string libsvm = folder.write("f", "1 1:1\n2 2:1\n");
  ReadOptions options;
  options.ngrams = {2, {}, kManyBuckets};
  EXPECT_THAT(error_of([&] { read_all(libsvm, options); }), HasSubstr("no words for --word-ngrams 2; give"));
  options.ngrams = {1, {3, 6}, kManyBuckets};
  options.format = Format::libsvm;
  EXPECT_THAT(error_of([&] { read_all(libsvm, options); }),
              HasSubstr("no words for --char-ngrams 3-6; give"));
}

TEST(Ngrams, LongWordsAndLinesStayWithinTheBudget) {
  const TempFolder folder;
  std::mt19937 random(5);
  std::string word(1'000'000, 'a'), line;
  for (char& c : word) c = static_cast<char>('a' + random() % 26);
  for (std::size_t at = kLongestName; at < word.size(); at += kLongestName + 1) word[at] = ' ';
  for (int i = 0; i < 500'000; ++i) line += std::to_string(random() % 1000) + " ";
  for (const auto& [text, rule] : {std::pair{&word, NgramRule{1, {1, 20}, kManyBuckets}},
                                   std::pair{&line, NgramRule{10, {}, kManyBuckets}}}) {
    ReadOptions options = text_with(rule);
    const std::string path = folder.write("f", "a b\n" + *text + "\n");
    options.memory = std::make_shared<MemoryBudget>(std::uint64_t{20} << 20);
    const std::string error = error_of([&] { read_all(path, options); });
    EXPECT_THAT(error, HasSubstr("f:2: not enough memory to read on after 1 row"));
    EXPECT_THAT(error, HasSubstr("fewer n-grams (--word-ngrams, --char-ngrams)"));
    EXPECT_EQ(options.memory->held(), 0U);
    options.memory = std::make_shared<MemoryBudget>(std::uint64_t{4} << 30);
    EXPECT_EQ(read_all(path, options).size(), 2U);
  }
}

TEST(BucketNumbers, NumberTheirMembersInOrder) {
  std::mt19937 random(3);
  for (const std::uint64_t buckets : {1U, 63U, 64U, 65U, 1000U}) {
    std::set<std::uint32_t> wanted;
    for (int i = 0; i < 40; ++i) wanted.insert(static_cast<std::uint32_t>(random() % buckets));
    const std::vector<std::uint32_t> members(wanted.begin(), wanted.end());
    const BucketNumbers set(buckets, 7, members);
    EXPECT_EQ(set.members(), members);
    for (std::uint32_t b = 0; b < buckets + 200; ++b) {
      const auto at = std::lower_bound(members.begin(), members.end(), b);
      const bool known = at != members.end() && *at == b;
      ASSERT_EQ(set.find(b), known ? 7 + static_cast<FeatureId>(at - members.begin()) : kDropFeature) << b;
    }
  }
  EXPECT_EQ(BucketNumbers().find(0), kDropFeature);
}

class NgramSets : public ::testing::Test {
 protected:
  Dataset training(const std::string& text) {
    return make_training_set(read_all(folder_.write("f", text), text_with(options_.ngrams())), options_);
  }
  Dataset later(const std::string& text, const Dataset& of) {
    return make_test_set(read_all(folder_.write("g", text), text_with(options_.ngrams())), options_,
                         of.classes, of.space, false);
  }
  // The feature of an n-gram; kDropFeature if training never saw its bucket.
  FeatureId feature(const Dataset& data, const std::string& text) const {
    const auto& buckets = data.space->buckets;
    const auto bucket = static_cast<std::uint32_t>(ngram_bucket(text, options_.ngrams().buckets));
    const auto at = std::lower_bound(buckets.begin(), buckets.end(), bucket);
    if (at == buckets.end() || *at != bucket) return kDropFeature;
    return static_cast<FeatureId>(data.space->words.size() + static_cast<std::size_t>(at - buckets.begin()));
  }
  TempFolder folder_;
  PreprocessOptions options_;
};

constexpr const char* kTwoLines = "__label__x the cat the cat\n__label__y the dog\n";

TEST_F(NgramSets, OnlyBucketsThatOccurAreFeatures) {
  options_.word_ngrams = 2;
  const Dataset data = training(kTwoLines);
  EXPECT_EQ(data.space->words, (std::vector<std::string>{"the", "cat", "dog"}));
  EXPECT_EQ(data.space->buckets.size(), 3U);  // the cat, cat the, the dog
  EXPECT_EQ(data.space->features, 6U);
  EXPECT_EQ(data.space->file_features, 6U);
  std::map<FeatureId, float> first;
  const RowView row = data.rows.row(0);
  for (std::size_t j = 0; j < row.index.size(); ++j) first[row.index[j]] = row.value[j];
  EXPECT_EQ(first, (std::map<FeatureId, float>{
                       {0, 2}, {1, 2}, {feature(data, "the cat"), 2}, {feature(data, "cat the"), 1}}));
}

TEST_F(NgramSets, UnknownNgramsAreDroppedAndCounted) {
  options_.word_ngrams = 2;
  const Dataset data = training(kTwoLines), test = later("__label__x new cat the new cat\n", data);
  EXPECT_EQ(test.statistics.unknown_words, 2U);
  EXPECT_EQ(test.statistics.unknown_ngrams, 3U);  // new cat (twice), the new
  EXPECT_EQ(test.rows.row(0).index.size(), 3U);   // the, cat, cat the
}

TEST_F(NgramSets, UnknownWordsKeepTheirCharacters) {
  options_.char_ngrams = {3, 3};
  const Dataset data = training(kTwoLines), test = later("__label__y cats\n", data);
  EXPECT_EQ(test.statistics.unknown_words, 1U);
  EXPECT_EQ(test.statistics.unknown_ngrams, 2U);  // ats, ts>
  const std::span<const FeatureId> index = test.rows.row(0).index;
  EXPECT_EQ(std::set<FeatureId>(index.begin(), index.end()),
            (std::set<FeatureId>{feature(data, "<ca"), feature(data, "cat")}));
}

TEST_F(NgramSets, MaxFeaturesCutsWordsAndKeepsNgrams) {
  options_.word_ngrams = 2;
  options_.max_features = 1;
  const Dataset data = training(kTwoLines);
  EXPECT_EQ(data.space->words, (std::vector<std::string>{"the"}));
  EXPECT_EQ(data.space->features, 4U);
  EXPECT_EQ(data.space->file_features, 6U);
  EXPECT_EQ(data.statistics.cut_features, 2U);
}

TEST_F(NgramSets, HashFeaturesTakesWordsAndNgrams) {
  options_.word_ngrams = 2;
  options_.hash_features = 1;
  const Dataset data = training(kTwoLines);
  EXPECT_EQ(data.space->features, 1U);
  EXPECT_TRUE(data.space->buckets.empty());
  EXPECT_EQ(data.rows.row(0).value[0], 7.0F);  // four words, three pairs
}

TEST(NgramOptions, ContradictionsAreRefused) {
  PreprocessOptions options;
  options.ngram_buckets = 10;
  EXPECT_THAT(error_of([&] { options.check(); }), HasSubstr("--ngram-buckets 10: there are no n-grams"));
  options.word_ngrams = 2;
  options.check();
  options.hash_features = 5;
  EXPECT_THAT(error_of([&] { options.check(); }), HasSubstr("--ngram-buckets 10 and --hash-features 5"));
}

TEST(Fuzz, FasttextNgrams) {
  const TempFolder folder;
  std::mt19937 random(11);
  const NgramRule rule{3, {2, 4}, 97};
  for (int i = 0; i < 1000; ++i) {
    std::string text = random_text(random, 4);
    for (std::size_t changes = random() % 4; changes > 0 && !text.empty(); --changes)
      text[random() % text.size()] = static_cast<char>(random());
    if (text.empty()) text = "x";
    const std::string path = folder.write("f", text);
    const auto rows_or_error = [&](std::size_t window) {
      StreamOptions stream;
      stream.window = stream.piece = window;
      try {
        return shown(read_all(path, text_with(rule), stream));
      } catch (const UserError& error) {
        return std::string(error.what());
      }
    };
    ASSERT_EQ(rows_or_error(5), rows_or_error(1 << 16)) << text;
  }
}

}  // namespace
}  // namespace truemax
