#include "data/streamed_set.hpp"

#include <gmock/gmock.h>

#include "data/content_hash.hpp"
#include "data/convert.hpp"
#include "data/data_view.hpp"
#include "data/generate.hpp"
#include "data/hold_out.hpp"
#include "data/load.hpp"
#include "data/test_support.hpp"

namespace truemax {
namespace {

using testing::HasSubstr;

class Streamed : public testing::Test {
 protected:
  std::string generated(Format format, std::uint64_t rows = 20000) const {
    GenerateOptions options;
    options.rows = rows, options.features = 400, options.classes = 30, options.format = format;
    const std::string path = folder_.path(std::string(format_name(format)) + ".txt");
    generate_file(options, Part::train, 2, path);
    return path;
  }

  DataView streamed(const std::string& from, const PreprocessOptions& options, const ReadOptions& read = {},
                    std::uint64_t window = 1 << 20, const std::string& class_weights = "") const {
    const std::string cache = folder_.path("rows.cache");
    std::vector<std::string> notes;
    convert_file(from, cache, read, 0, 2, notes);
    const auto memory = std::make_shared<MemoryBudget>();
    return make_streamed_set(std::make_shared<const CacheFile>(cache), options, 0, class_weights, window,
                             memory, 2);
  }

  static DataView in_memory(const std::string& from, const PreprocessOptions& options, ReadOptions read = {},
                            const std::string& class_weights = "") {
    read.max_features = options.max_features;
    return make_training_set(read_all(from, read), options, 0, class_weights);
  }

  TempFolder folder_;
};

void expect_same_view(const DataView& a, const DataView& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(a.row_count(), b.row_count());
  EXPECT_EQ(a.classes->names(), b.classes->names());
  EXPECT_EQ(a.space->words, b.space->words);
  EXPECT_EQ(a.space->buckets, b.space->buckets);
  EXPECT_EQ(a.space->features, b.space->features);
  EXPECT_EQ(a.space->file_features, b.space->file_features);
  EXPECT_EQ(a.statistics.rows_without_features, b.statistics.rows_without_features);
  EXPECT_EQ(a.statistics.rows_without_label, b.statistics.rows_without_label);
  EXPECT_EQ(a.statistics.rows_of_weight_zero, b.statistics.rows_of_weight_zero);
  EXPECT_EQ(a.statistics.cut_features, b.statistics.cut_features);
  for (const ExampleId i : a.examples()) {
    ASSERT_EQ(a.label(i), b.label(i));
    ASSERT_EQ(a.weight(i), b.weight(i));
    ASSERT_EQ(a.row_of(i), b.row_of(i));
  }
  Csr of_a, of_b;
  for (std::size_t first = 0; first < a.row_count();) {
    const RowSlice x = a.slice(first, 100, of_a), y = b.slice(first, 100, of_b);
    ASSERT_EQ(x.rows(), y.rows());
    for (std::size_t r = 0; r < x.rows(); ++r) {
      ASSERT_TRUE(std::ranges::equal(x.x().row(r).index, y.x().row(r).index));
      ASSERT_TRUE(std::ranges::equal(x.x().row(r).value, y.x().row(r).value));
      ASSERT_TRUE(std::ranges::equal(x.labels(r), y.labels(r)));
      ASSERT_EQ(x.weight(r), y.weight(r));
    }
    first += x.rows();
  }
}

TEST_F(Streamed, HasTheExamplesOfTheSameRowsInMemory) {
  PreprocessOptions plain, scaled, cut, hashed;
  scaled.normalize = Normalize::l2;
  cut.max_features = 50;
  hashed.hash_features = 64;
  for (const Format format : {Format::xmlrepository, Format::libsvm, Format::fasttext}) {
    const std::string path = generated(format);
    for (const PreprocessOptions& options : {plain, scaled, cut, hashed})
      expect_same_view(streamed(path, options), in_memory(path, options));
  }
}

TEST_F(Streamed, HasLabelsWeightsAndNgramsOfTheSameRowsInMemory) {
  std::string text, weights;
  for (int i = 0; i < 3000; ++i) {
    text += "__label__" + std::to_string(i % 7);
    if (i % 3 == 0) text += " __label__x";
    text += " w" + std::to_string(i % 11) + " v" + std::to_string(i % 13) + " u\n";
    weights += i % 10 == 4 ? "0\n" : std::to_string(1 + i % 3) + "\n";
  }
  text += "no label\n__label__1\n", weights += "1\n1\n";
  const std::string path = folder_.write("a.txt", text);
  ReadOptions read;
  read.row_weights = folder_.write("weights.txt", weights);
  PreprocessOptions options;
  options.labels = LabelRule::all;
  expect_same_view(streamed(path, options, read, 1, "balanced"), in_memory(path, options, read, "balanced"));
  options.word_ngrams = 2, options.ngram_buckets = 300;
  read.ngrams = options.ngrams();
  expect_same_view(streamed(path, options, read), in_memory(path, options, read));
}

TEST_F(Streamed, WindowsHoldTheRowsOfTheirBlocks) {
  const std::string path = generated(Format::libsvm, 50000);
  const DataView stream = streamed(path, {}), memory = in_memory(path, {});
  ASSERT_GT(stream.streamed()->blocks(), 4U);
  EXPECT_THROW(static_cast<void>(stream.x(ExampleId{0})), std::logic_error);
  const std::vector<std::uint32_t> begin = stream.examples_of_blocks();
  RowWindows windows(stream.shared_stream());
  for (std::uint32_t b = 0; b < stream.streamed()->blocks(); ++b) {
    const std::vector<std::uint32_t> now{b}, next{(b + 2) % static_cast<std::uint32_t>(begin.size() - 1)};
    windows.enter(now, next);
    for (std::uint32_t i = begin[b]; i < begin[b + 1]; ++i)
      ASSERT_TRUE(std::ranges::equal(stream.x(ExampleId{i}).value, memory.x(ExampleId{i}).value));
  }
}

TEST_F(Streamed, PartsAndCopiesAreThoseOfTheRowsInMemory) {
  const std::string path = generated(Format::fasttext);
  const DataView stream = streamed(path, {}), memory = in_memory(path, {});
  const RowSplit a = set_aside(stream, 0.1, 3), b = set_aside(memory, 0.1, 3);
  expect_same_view(a.rest, b.rest);
  expect_same_view(a.valid, b.valid);
  const DataView sample = sample_part(stream, 500, 9), other = sample_part(memory, 500, 9);
  EXPECT_EQ(sample.streamed(), nullptr);
  EXPECT_EQ(content_hash(sample, 1), content_hash(other.copied(), 1));
  std::size_t seen = 0;
  a.rest.each_x([&](ExampleId i, const RowView& x) {
    ASSERT_TRUE(std::ranges::equal(x.index, b.rest.x(i).index));
    ++seen;
  });
  EXPECT_EQ(seen, b.rest.size());
}

TEST_F(Streamed, ReportsABlockThatCannotBeRead) {
  const std::string path = generated(Format::libsvm, 50000);
  const DataView stream = streamed(path, {});
  std::filesystem::resize_file(folder_.path("rows.cache"), 1000);
  EXPECT_THAT(error_of([&] { stream.each_x([](ExampleId, const RowView&) {}); }), HasSubstr("cut off"));
  RowWindows windows(stream.shared_stream());
  const std::vector<std::uint32_t> now{1}, next{2};
  EXPECT_THAT(error_of([&] { windows.enter(now, next); }), HasSubstr("rows.cache"));
}

TEST_F(Streamed, RefusesTextAndTriples) {
  const std::string text = folder_.write("a.txt", "one two\nthree\n");
  EXPECT_THAT(error_of([&] { streamed(text, {}, as(Format::text)); }), HasSubstr("leave --stream out"));
  const std::string triples = folder_.write("t.txt", "a\tr\tb\nb\tr\ta\n");
  EXPECT_THAT(error_of([&] { streamed(triples, {}, as(Format::triples)); }), HasSubstr("triples"));
}

}  // namespace
}  // namespace truemax
