#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <random>

#include "data/cache_file.hpp"
#include "data/convert.hpp"
#include "data/generate.hpp"
#include "data/load.hpp"
#include "data/test_support.hpp"

namespace truemax {
namespace {

using testing::HasSubstr;

std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

ConvertResult converted(const std::string& from, const std::string& to, const ReadOptions& options = {},
                        std::uint64_t max_rows = 0, std::size_t threads = 2) {
  std::vector<std::string> notes;
  return convert_file(from, to, options, max_rows, threads, notes);
}

// A cache has no lines.
void expect_same_rows(const RawRows& cached, RawRows direct) {
  direct.lines.clear();
  expect_same(cached, direct);
  EXPECT_EQ(cached.weight, direct.weight);
}

// Reads `text` directly and through a cache.
void expect_round_trip(const TempFolder& folder, const std::string& from, const ReadOptions& options = {}) {
  const std::string cache = folder.path("rows.cache");
  converted(from, cache, options);
  ReadOptions of_cache;
  of_cache.ngrams = options.ngrams;
  expect_same_rows(read_all(cache, of_cache), read_all(from, options));
  // Fewer rows than a block has, in batches: the same rows, whatever their numbers.
  std::vector<std::string> notes;
  RowStream direct(from, options, {}, notes), batches(cache, of_cache, {}, notes);
  for (std::size_t rows = 1; rows > 0;) {
    const RawRows a = direct.next(3), b = batches.next(3);
    rows = a.size();
    ASSERT_EQ(b.size(), rows);
    if (a.words.empty() && a.format != Format::triples) {
      EXPECT_EQ(shown(a), shown(b));
    }
    EXPECT_EQ(a.words.size(), b.words.size());
    EXPECT_EQ(a.rows.begin, b.rows.begin);
  }
}

TEST(Cache, HoldsTheRowsOfEveryTextFormat) {
  const TempFolder folder;
  for (const Format format : {Format::xmlrepository, Format::lshtc, Format::libsvm, Format::fasttext}) {
    const std::string path = folder.path(std::string(format_name(format)) + ".txt");
    GenerateOptions options;
    options.rows = 700, options.features = 300, options.classes = 20, options.format = format;
    generate_file(options, Part::train, 1, path);
    expect_round_trip(folder, path, as(format));
  }
  expect_round_trip(folder, folder.write("several.txt", "3 9 5\n0,4 0:1.5 8:-2\n 3:0.25\n1,2,3\n"));
  expect_round_trip(folder, folder.write("zeros.txt", "a 1:0 7:0\nb 2:1e-38 3:3e38\n"), as(Format::libsvm));
}

TEST(Cache, HoldsWordsAndNgrams) {
  const TempFolder folder;
  const std::string text = folder.write(
      "words.txt",
      "__label__a the cat saw the dog\n__label__b a dog the cat\n__label__a __label__c z y x w\n");
  expect_round_trip(folder, text);
  ReadOptions options;
  options.ngrams = {2, {3, 4}, 50};
  expect_round_trip(folder, text, options);
  expect_round_trip(folder, folder.write("text.txt", "one two one\n\nthree one <unk>\n"), as(Format::text));
  expect_round_trip(folder, folder.write("triples.txt", "a\tr\tb\nb\ts\ta\nc\tr\tb\nd\ts\td\n"),
                    as(Format::triples));
}

TEST(Cache, HoldsDenseArraysPackedFilesWeightsAndSplits) {
  const TempFolder folder;
  // idx: 5 rows of 2 x 2 bytes, and their labels.
  std::string features("\0\0\x08\x03\0\0\0\x05\0\0\0\x02\0\0\0\x02", 16), labels("\0\0\x08\x01\0\0\0\x05", 8);
  for (int i = 0; i < 20; ++i) features += static_cast<char>(i % 7 == 0 ? 0 : 11 * i);
  labels += std::string("\x04\x01\x04\x02\x01", 5);
  const std::string images = folder.write("a-images-idx3-ubyte", features);
  folder.write("a-labels-idx1-ubyte", labels);
  expect_round_trip(folder, images);

  const std::string rows = "1 1:0.5 4:2\n2 2:1\n1 3:4\n3 1:1\n";
  expect_round_trip(folder, folder.write("a.gz", gzip(rows)));
  expect_round_trip(folder, folder.write("a.zst", zstd(rows)));
  ReadOptions options;
  options.row_weights = folder.write("weights.txt", "1\n0\n2.5\n1e-3\n");
  const std::string path = folder.write("a.txt", rows);
  expect_round_trip(folder, path, options);
  options.split = folder.write("split.txt", "4\n2\n1\n");
  expect_round_trip(folder, path, options);
}

TEST(Cache, DoesNotDependOnThreadsOrBatches) {
  const TempFolder folder;
  GenerateOptions options;
  options.rows = 30000, options.features = 500, options.classes = 50, options.format = Format::fasttext;
  const std::string path = folder.path("a.txt");
  generate_file(options, Part::train, 2, path);
  const ConvertResult one = converted(path, folder.path("one"), {}, 0, 1);
  EXPECT_GT(one.info.block_count, 2U);
  ReadOptions tight;
  tight.memory = std::make_shared<MemoryBudget>(std::uint64_t{20} << 20);
  converted(path, folder.path("two"), tight, 0, 3);
  EXPECT_EQ(bytes_of_file(folder.path("one")), bytes_of_file(folder.path("two")));
  std::string weights;
  for (int i = 0; i < 30000; ++i) weights += std::to_string(i % 5) + "\n";
  ReadOptions weighted = tight;
  weighted.row_weights = folder.write("weights.txt", weights);
  converted(path, folder.path("weighted"), weighted, 0, 2);
  EXPECT_EQ(read_all(folder.path("weighted")).weight, read_all(path, weighted).weight);
  weighted.row_weights = folder.write("weights.txt", weights + "1\n");
  EXPECT_THAT(error_of([&] { converted(path, folder.path("weighted"), weighted); }),
              HasSubstr("weights.txt"));
  expect_same_rows(read_all(folder.path("one")), read_all(path));
  // The first rows are those of a shorter file.
  expect_same_rows(read_all(folder.path("one"), {}, {}, 12345), read_all(path, {}, {}, 12345));
  converted(path, folder.path("short"), {}, 12345);
  expect_same_rows(read_all(folder.path("short")), read_all(path, {}, {}, 12345));
}

TEST(Cache, ReadsInMemoryOnlyWhatTheBudgetAllows) {
  const TempFolder folder;
  GenerateOptions options;
  options.rows = 100000, options.features = 1000, options.nonzeros = 40, options.classes = 10;
  generate_file(options, Part::train, 2, folder.path("a.txt"));
  converted(folder.path("a.txt"), folder.path("a.cache"));
  ReadOptions tight;
  tight.memory = std::make_shared<MemoryBudget>(std::uint64_t{17} << 20);
  EXPECT_THAT(error_of([&] { read_all(folder.path("a.cache"), tight); }),
              testing::AllOf(HasSubstr("a.cache"), HasSubstr("--stream")));
}

class DamagedCache : public testing::Test {
 protected:
  DamagedCache() {
    converted(folder_.write("a.txt", "__label__a the cat\n__label__b a dog the\n"), folder_.path("a.cache"));
    good_ = bytes_of_file(folder_.path("a.cache"));
  }
  // Reads everything, as a program would.
  static void read(const std::string& bytes) {
    const CacheFile file("damaged.cache", bytes);
    RawRows rows;
    for (std::size_t b = 0; b < file.blocks().size(); ++b) file.read_block(b, rows);
  }

  TempFolder folder_;
  std::string good_;
};

TEST_F(DamagedCache, IsRefusedIfCutOffAnywhere) {
  read(good_);
  for (std::size_t size = 0; size < good_.size(); ++size)
    EXPECT_THAT(error_of([&] { read(good_.substr(0, size)); }), HasSubstr("damaged.cache")) << size;
  EXPECT_THAT(error_of([&] { read(good_ + "x"); }), HasSubstr("too long"));
}

TEST_F(DamagedCache, IsRefusedIfAnyBitIsFlipped) {
  for (std::size_t at = 0; at < good_.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good_;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      EXPECT_THAT(error_of([&] { read(bad); }), HasSubstr("damaged.cache")) << at << " " << bit;
    }
}

TEST_F(DamagedCache, NamesTheBlock) {
  std::string bad = good_;
  bad[kCacheHeaderBytes + 3] = static_cast<char>(bad[kCacheHeaderBytes + 3] ^ 4);
  EXPECT_THAT(error_of([&] { read(bad); }), HasSubstr("block 1 of 1 is damaged"));
}

// Bytes behind a right checksum, as a hostile file has them.
TEST_F(DamagedCache, DecodesNoBlockThatDoesNotFitItsTables) {
  const CacheFile file("good.cache", good_);
  const CacheBlock& block = file.blocks()[0];
  const std::string bytes = good_.substr(block.offset, block.bytes);
  std::mt19937 random(1);
  std::size_t accepted = 0;
  for (int trial = 0; trial < 100000; ++trial) {
    std::string bad = bytes;
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes)
      bad[random() % bad.size()] = static_cast<char>(random());
    RawRows rows;
    if (!decode_block(bad, file.info(), block, rows)) continue;
    ++accepted;
    ASSERT_EQ(rows.size(), block.rows);
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (const FeatureId f : rows.rows.row(i).index) ASSERT_LT(f, file.words().size());
    for (const std::uint32_t label : rows.label) ASSERT_LT(label, file.names().size());
  }
  EXPECT_LT(accepted, 50000U);
}

TEST(Cache, SaysWhatDoesNotFit) {
  const TempFolder folder;
  const std::string words = folder.write("a.txt", "__label__a the cat\n__label__b a dog the\n");
  converted(words, folder.path("plain"));
  ReadOptions ngrams;
  ngrams.ngrams = {2, {}, 100};
  EXPECT_THAT(error_of([&] { read_all(folder.path("plain"), ngrams); }),
              HasSubstr("convert again: truemax convert DATA CACHE --word-ngrams 2 --ngram-buckets 100"));
  converted(words, folder.path("runs"), ngrams);
  EXPECT_THAT(error_of([&] { read_all(folder.path("runs")); }),
              HasSubstr("add --word-ngrams 2 --ngram-buckets 100"));
  EXPECT_THAT(error_of([&] { read_all(folder.path("plain"), as(Format::triples)); }),
              HasSubstr("is a cache of fasttext data, not of triples data"));
  EXPECT_THAT(error_of([&] { read_all(words, as(Format::cache)); }), HasSubstr("cache"));
  EXPECT_EQ(format_in_cache(Format::automatic, folder.path("plain")), Format::fasttext);
  EXPECT_EQ(format_in_cache(Format::fasttext, folder.path("plain")), Format::fasttext);
  EXPECT_EQ(format_in_cache(Format::libsvm, words), Format::libsvm);
  EXPECT_THAT(error_of([&] { format_in_cache(Format::libsvm, folder.path("plain")); }),
              HasSubstr("is a cache of fasttext data, not of libsvm data; leave --format libsvm out"));
  EXPECT_THAT(error_of([&] { read_all(folder.write("a.gz", gzip(bytes_of_file(folder.path("plain"))))); }),
              HasSubstr("unpack it"));
  EXPECT_THAT(error_of([&] { converted(folder.path("absent"), folder.path("x")); }), HasSubstr("absent"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("x")));
}

}  // namespace
}  // namespace truemax
