// Plain text: words in order, windows, unknown words, contiguous validation rows, prompts.
#include "data/text_set.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "data/content_hash.hpp"
#include "data/hold_out.hpp"
#include "data/load.hpp"
#include "data/test_support.hpp"

namespace truemax {
namespace {

RawRows read_text(const std::string& text, std::size_t threads = 1, std::uint64_t max_rows = 0) {
  const TempFolder folder;
  ReadOptions options;
  options.format = Format::text;
  std::vector<std::string> notes;
  return read_rows(folder.write("text.txt", text), options, max_rows, threads, notes);
}

std::vector<std::string> names_of(const DataView& data, std::span<const FeatureId> words) {
  std::vector<std::string> out;
  for (const FeatureId w : words) out.push_back(data.classes->name(w));
  return out;
}

std::vector<std::string> row_of(const DataView& data, std::uint32_t i) {
  std::vector<std::string> out = names_of(data, data.x(ExampleId{i}).index);
  out.push_back("-> " + data.classes->name(data.label(ExampleId{i})));
  return out;
}

PreprocessOptions context_of(std::uint64_t words, EncoderKind kind = EncoderKind::context) {
  PreprocessOptions options;
  options.encoder = kind, options.context = words;
  return options;
}

using Words = std::vector<std::string>;

TEST(TextSet, EveryWordIsPredictedFromThoseBeforeItAcrossLineEnds) {
  const Dataset made = make_text_set(read_text("a b\n\nb  c\td\n"), context_of(2), "");
  const DataView data(made);
  ASSERT_EQ(data.size(), 8U);
  EXPECT_EQ(row_of(data, 4), (Words{"<eos>", "<eos>", "-> b"}));
  EXPECT_EQ(row_of(data, 6), (Words{"b", "c", "-> d"}));
}

TEST(TextSet, RowsAreWindowsOfTheText) {
  const DataView data(make_text_set(read_text("a b\nb c\n"), context_of(2), ""));
  ASSERT_EQ(data.size(), 6U);
  EXPECT_EQ(row_of(data, 0), (Words{"<eos>", "<eos>", "-> a"}));
  EXPECT_EQ(row_of(data, 1), (Words{"<eos>", "a", "-> b"}));
  EXPECT_EQ(row_of(data, 2), (Words{"a", "b", "-> <eos>"}));
  EXPECT_EQ(row_of(data, 3), (Words{"b", "<eos>", "-> b"}));
  EXPECT_EQ(row_of(data, 5), (Words{"b", "c", "-> <eos>"}));
  EXPECT_EQ(data.nonzeros(), 12U);
  EXPECT_TRUE(data.is_text());
  Csr scratch;
  const RowSlice slice = data.slice(1, 3, scratch);
  ASSERT_EQ(slice.rows(), 3U);
  EXPECT_EQ(names_of(data, slice.x().row(0).index), (Words{"<eos>", "a"}));
  EXPECT_EQ(slice.labels(0).size(), 1U);
  EXPECT_EQ(data.classes->name(slice.labels(0)[0]), "b");
}

TEST(TextSet, CbowHasWordsOnBothSides) {
  const DataView data(make_text_set(read_text("a b c\n"), context_of(2, EncoderKind::cbow), ""));
  ASSERT_EQ(data.size(), 4U);
  EXPECT_EQ(row_of(data, 1), (Words{"<eos>", "a", "b", "c", "<eos>", "-> b"}));
  EXPECT_EQ(row_of(data, 3), (Words{"b", "c", "<eos>", "<eos>", "<eos>", "-> <eos>"}));
}

TEST(TextSet, SkipGramPairsAWordWithThoseAroundIt) {
  const DataView data(make_text_set(read_text("a b a\n"), context_of(2, EncoderKind::skipgram), ""));
  std::vector<Words> pairs;
  for (const ExampleId i : data.examples()) pairs.push_back(row_of(data, number_of(i)));
  EXPECT_EQ(pairs, (std::vector<Words>{{"a", "-> b"},
                                       {"a", "-> a"},
                                       {"b", "-> a"},
                                       {"b", "-> a"},
                                       {"b", "-> <eos>"},
                                       {"a", "-> a"},
                                       {"a", "-> b"},
                                       {"a", "-> <eos>"},
                                       {"<eos>", "-> b"},
                                       {"<eos>", "-> a"}}));
  EXPECT_EQ(data.row_count(), 4U);
  ASSERT_TRUE(data.shares_inputs());
  EXPECT_EQ(data.inputs(), data.classes->size());
  EXPECT_EQ(data.input_of(ExampleId{0}), data.input_of(ExampleId{6}));
  EXPECT_NE(data.input_of(ExampleId{0}), data.input_of(ExampleId{2}));
  Csr scratch;
  EXPECT_EQ(data.slice(1, 1, scratch).labels(0).size(), 3U);
  const DataView part = data.rows_where([](std::size_t place) { return place > 1; });
  ASSERT_EQ(part.size(), 5U);
  EXPECT_EQ(part.input_of(ExampleId{0}), data.input_of(ExampleId{0}));
}

TEST(TextSet, SkipGramOfAShortText) {
  const DataView data(make_text_set(read_text("a\n"), context_of(5, EncoderKind::skipgram), ""));
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(row_of(data, 0), (Words{"a", "-> <eos>"}));
  EXPECT_EQ(row_of(data, 1), (Words{"<eos>", "-> a"}));
}

TEST(TextSet, RareWordsAndThoseOfLaterTextsAreUnknown) {
  PreprocessOptions options = context_of(1);
  options.min_count = 2;
  const Dataset made = make_text_set(read_text("a a b\na c\n"), options, "");
  EXPECT_EQ(made.classes->size(), 3U);  // a, <eos>, <unk>
  EXPECT_EQ(made.classes->count(made.classes->find("<unk>")), 2);
  const DataView test(text_of_model(read_text("a z\nb\n"), made.classes, made.space, {}));
  EXPECT_EQ(row_of(test, 1), (Words{"a", "-> <unk>"}));
  EXPECT_EQ(row_of(test, 3), (Words{"<eos>", "-> <unk>"}));
  EXPECT_EQ(test.statistics.unk_words, 2U);
  EXPECT_EQ(test.statistics.unseen, 0U);
}

TEST(TextSet, TextWithoutRareWordsCanScoreUnknownOnes) {
  const Dataset made = make_text_set(read_text("a b\n"), context_of(1), "");
  EXPECT_EQ(made.classes->count(made.classes->find("<unk>")), 1);
  const DataView test(text_of_model(read_text("new\n"), made.classes, made.space, {}));
  EXPECT_EQ(row_of(test, 0), (Words{"<eos>", "-> <unk>"}));
}

TEST(TextSet, DoesNotDependOnThreadsOrPieces) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "w" + std::to_string(i * 7919 % 301) + (i % 13 == 0 ? "\n" : " ");
  const DataView one(make_text_set(read_text(text, 1), context_of(4), ""));
  const DataView four(make_text_set(read_text(text, 4), context_of(4), ""));
  EXPECT_EQ(content_hash(one, 1), content_hash(four, 3));
  const DataView other(make_text_set(read_text(text, 1), context_of(5), ""));
  EXPECT_NE(content_hash(one, 1), content_hash(other, 1));
}

TEST(TextSet, ValidationRowsAreContiguousPieces) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "w" + std::to_string(i % 50) + " ";
  const DataView data(make_text_set(read_text(text + "\n"), context_of(3), ""));
  const RowSplit split = set_aside(data, 0.1, 1);
  EXPECT_EQ(split.valid.size() + split.rest.size(), data.size());
  EXPECT_NEAR(static_cast<double>(split.valid.size()), 0.1 * static_cast<double>(data.size()), 1);
  std::size_t pieces = 1;
  for (std::uint32_t i = 1; i < split.valid.size(); ++i)
    pieces +=
        number_of(split.valid.row_of(ExampleId{i})) != number_of(split.valid.row_of(ExampleId{i - 1})) + 1;
  EXPECT_LE(pieces, 10U);
  EXPECT_NE(content_hash(split.valid, 1), content_hash(split.rest, 1));
  // A part keeps the words of its rows and their labels.
  const ExampleId last{static_cast<std::uint32_t>(split.valid.size() - 1)};
  const RowId row = split.valid.row_of(last);
  EXPECT_EQ(split.valid.label(last), data.label(ExampleId{number_of(row)}));
  Csr scratch;
  const RowSlice slice = split.valid.slice(split.valid.size() - 1, 1, scratch);
  EXPECT_EQ(slice.labels(0)[0], split.valid.label(last));
}

TEST(TextSet, PromptsAreTheLastWordsOfEachLine) {
  const Dataset made = make_text_set(read_text("a b c d\n"), context_of(2), "");
  const Dataset rows = prompts_of_model(read_text("a b c\n\nd z\n"), made.classes, made.space);
  ASSERT_EQ(rows.rows.rows(), 3U);
  const DataView data(rows);
  EXPECT_EQ(names_of(data, rows.rows.row(0).index), (Words{"b", "c"}));
  EXPECT_EQ(names_of(data, rows.rows.row(1).index), (Words{"<eos>", "<eos>"}));
  EXPECT_EQ(names_of(data, rows.rows.row(2).index), (Words{"d", "<unk>"}));
  EXPECT_EQ(rows.statistics.unk_words, 1U);
}

TEST(TextSet, RefusesWhatItCannotUse) {
  const auto refused = [](const std::string& text, PreprocessOptions options, const char* part) {
    try {
      make_text_set(read_text(text), options, "");
      FAIL() << "not refused: " << part;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused("\n\n", context_of(2), "no word");
  PreprocessOptions rare = context_of(2);
  rare.min_count = 5;
  refused("a b\n", rare, "lower --min-count");
  PreprocessOptions all;
  all.labels = LabelRule::all;
  refused("a b\n", all, "--labels all");
  PreprocessOptions scaled;
  scaled.normalize = Normalize::l2;
  refused("a b\n", scaled, "--normalize");
  PreprocessOptions hashed;
  hashed.hash_features = 10;
  refused("a b\n", hashed, "--hash-features");
  PreprocessOptions cut;
  cut.max_features = 10;
  refused("a b\n", cut, "--min-count");
}

}  // namespace
}  // namespace truemax
