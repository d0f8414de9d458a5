#include "data/triples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "data/content_hash.hpp"
#include "data/hold_out.hpp"
#include "data/load.hpp"
#include "data/test_support.hpp"

namespace truemax {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Names = std::array<std::string, 3>;

// As the file has them; a missing tail is empty.
std::vector<Names> triples_of(const RawRows& raw) {
  std::vector<Names> out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const RowView x = raw.rows.row(i);
    out.push_back({raw.label_names[x.index[0]], raw.words[x.index[1]],
                   raw.has_label(i) ? raw.label_names[raw.label[raw.label_begin[i]]] : ""});
  }
  return out;
}

// The obvious reader.
std::vector<Names> slow_triples(const std::string& text) {
  std::vector<Names> out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const std::size_t first = line.find('\t'), second = line.find('\t', first + 1);
    out.push_back({line.substr(0, first), line.substr(first + 1, second - first - 1),
                   second == std::string::npos ? "" : line.substr(second + 1)});
  }
  return out;
}

std::string random_file(std::uint64_t seed, std::size_t lines) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::string text;
  for (std::size_t i = 0; i < lines; ++i) {
    const auto entity = [&] { return (below(3) == 0 ? "new york " : "é") + std::to_string(below(40)); };
    text += entity() + "\tlies in " + std::to_string(below(5)) + "\t" + entity();
    if (i + 1 < lines || below(2) == 0) text += below(3) == 0 ? "\r\n" : "\n";
    if (below(7) == 0 && i + 1 < lines) text += below(2) == 0 ? "\n" : "\r\n";
  }
  return text;
}

TEST(TriplesText, IsReadLikeTheObviousWayOnAnyNumberOfThreadsAndPieces) {
  const TempFolder folder;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const std::string text = random_file(seed, 300), path = folder.write("t.tsv", text);
    const RawRows whole = read_all(path, as(Format::triples));
    EXPECT_EQ(triples_of(whole), slow_triples(text));
    for (const std::size_t threads : {1U, 3U})
      for (const std::size_t piece : {1U, 50U, 1000U}) {
        StreamOptions stream;
        stream.threads = threads, stream.piece = piece, stream.window = 4 * piece;
        expect_same(whole, read_all(path, as(Format::triples), stream));
      }
  }
}

TEST(TriplesText, LinesAreKnownBehindEmptyOnes) {
  const TempFolder folder;
  const RawRows raw = read_all(folder.write("t.tsv", "\na\tr\tb\n\n\nc\tr\td\r\n"), as(Format::triples));
  ASSERT_EQ(raw.size(), 2U);
  EXPECT_EQ(raw.line_of(0), 2U);
  EXPECT_EQ(raw.line_of(1), 5U);
}

TEST(TriplesText, BadLinesAreRefusedWithFileLineAndAdvice) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& text) {
    return error_of([&] { read_all(folder.write("t.tsv", "a\tr\tb\n" + text), as(Format::triples)); });
  };
  EXPECT_THAT(refusal("a\tr\n"), HasSubstr("t.tsv:2: 2 columns where a triple has 3: 'a\\x09r'; write head, "
                                           "relation and tail, separated by tabs"));
  EXPECT_THAT(refusal("a r b\n"), HasSubstr("t.tsv:2: 1 column where a triple has 3"));
  EXPECT_THAT(refusal("a\tr\tb\tc\n"), HasSubstr("t.tsv:2: 4 columns where a triple has 3"));
  EXPECT_THAT(refusal("\tr\tb\n"), HasSubstr("t.tsv:2: the head has no name"));
  EXPECT_THAT(refusal("a\t\tb\n"), HasSubstr("t.tsv:2: the relation has no name"));
  EXPECT_THAT(refusal("a\tr\t\r\n"), HasSubstr("t.tsv:2: the tail has no name"));
  EXPECT_THAT(refusal("a\tr\t\xff\n"), HasSubstr("t.tsv:2: '\\xff' is not UTF-8 text"));
  EXPECT_THAT(refusal(std::string("a\tr\t\0\n", 6)), HasSubstr("t.tsv:2: looks like a binary file"));
  EXPECT_THAT(refusal("a\tr\t" + std::string(70000, 'x') + "\n"),
              HasSubstr("t.tsv:2: the tail has 70000 bytes, a name at most 65536"));
  EXPECT_THAT(refusal(std::string(3'000'000, 'x')), HasSubstr("t.tsv:2: 1 column where a triple has 3"));
}

TEST(TriplesText, TailsMayBeMissingOnlyWhereTheyAreNotNeeded) {
  const TempFolder folder;
  StreamOptions stream;
  stream.labels_required = false;
  const std::string path = folder.write("t.tsv", "a\tr\nb\tr\ta\n");
  EXPECT_THAT(triples_of(read_all(path, as(Format::triples), stream)),
              ElementsAre(Names{"a", "r", ""}, Names{"b", "r", "a"}));
  EXPECT_THAT(error_of([&] { read_all(folder.write("u.tsv", "a\n"), as(Format::triples), stream); }),
              HasSubstr("u.tsv:1: 1 column"));
  EXPECT_THAT(error_of([&] { make_training_set(read_all(path, as(Format::triples), stream), {}); }),
              HasSubstr("t.tsv:1: the triple has no tail"));
}

TEST(TriplesText, IsNeverRecognisedButSuggested) {
  const TempFolder folder;
  EXPECT_THAT(error_of([&] { read_all(folder.write("t.tsv", "a\tr\tb\nc\tr\td\n")); }),
              HasSubstr("for triples of head, relation and tail add --format triples"));
  ReadOptions of_model;
  of_model.expected = Format::triples;
  EXPECT_EQ(read_all(folder.write("t.tsv", "1\t2\t3\n"), of_model).format, Format::triples);
}

RawRows raw_of(const std::string& text) {
  const TempFolder folder;
  return read_all(folder.write("t.tsv", text), as(Format::triples));
}

TEST(TriplesSet, EveryTripleIsTwoRowsOfEntitiesAndRelations) {
  const DataView data = make_training_set(raw_of("a\tin\tb\nc\tin\tb\nb\tof\tr\n"), {});
  EXPECT_EQ(data.rows_together, 2U);
  EXPECT_THAT(data.classes->names(), ElementsAre("b", "a", "c", "r"));  // b occurs three times
  EXPECT_EQ(data.classes->count(0), 3);
  EXPECT_THAT(data.space->relations, ElementsAre("in", "of"));
  EXPECT_EQ(data.space->features, 4U + 2U * 2U);
  std::vector<std::vector<std::uint32_t>> rows;
  for (const ExampleId i : data.examples()) {
    const RowView x = data.x(i);
    EXPECT_THAT(x.value, ElementsAre(1, 1));
    rows.push_back({x.index[0], x.index[1], data.label(i)});
  }
  EXPECT_THAT(rows, ElementsAre(ElementsAre(1, 4, 0), ElementsAre(0, 6, 1), ElementsAre(2, 4, 0),
                                ElementsAre(0, 6, 2), ElementsAre(0, 5, 3), ElementsAre(3, 7, 0)));
  EXPECT_EQ(tails_of(data).size(), 3U);
}

TEST(TriplesSet, ATripleMayBeALoopAndNamesOfRelationsMayBeEntities) {
  const DataView data = make_training_set(raw_of("a\ta\ta\na\ta\tb\n"), {});
  EXPECT_EQ(data.size(), 4U);
  EXPECT_EQ(data.classes->count(0), 3);
  EXPECT_THAT(data.space->relations, ElementsAre("a"));
}

TEST(TriplesSet, OptionsOfFeaturesAreRefused) {
  for (const char* name : {"hash-features", "max-features", "normalize"}) {
    PreprocessOptions options;
    OptionTable table;
    options.describe(table);
    table.find(name)->parse(std::string_view(name) == "normalize" ? "l2" : "5");
    EXPECT_THAT(error_of([&] { make_training_set(raw_of("a\tr\tb\n"), options); }),
                HasSubstr(std::string("--") + name + ": triples have names"));
  }
  EXPECT_THAT(error_of([&] { make_training_set(raw_of("a\tr\ta\n"), {}); }),
              HasSubstr("two entities or more"));
}

TEST(TriplesSet, TestDataHaveTailsAndLeaveUnseenNamesOut) {
  const DataView train = make_training_set(raw_of("a\tin\tb\nc\tin\tb\n"), {});
  const auto prepared = [&](const std::string& text) {
    return make_test_set(raw_of(text), {}, train.classes, train.space, false);
  };
  const Dataset test = prepared("a\tin\tc\nnew\tin\tb\na\tnew\tb\na\tin\tnew\nc\tin\tb\n");
  EXPECT_THAT(test.label, ElementsAre(2U, 0U));
  EXPECT_EQ(test.statistics.unseen, 3U);
  EXPECT_EQ(test.rows.row(0).index[0], 1U);
  EXPECT_EQ(test.rows.row(0).index[1], 3U);
  EXPECT_THAT(error_of([&] { prepared("x\ty\tz\n"); }), HasSubstr("no row can be evaluated"));
  const Dataset asked =
      make_prediction_rows(raw_of("new\tin\tb\na\tin\tb\n"), {}, train.classes, train.space, false);
  ASSERT_EQ(asked.rows.rows(), 2U);
  EXPECT_TRUE(asked.rows.row(0).index.empty());
  EXPECT_EQ(asked.rows.row(1).index.size(), 2U);
  EXPECT_EQ(asked.statistics.unknown_words, 1U);
}

TEST(TriplesSet, OtherDataAreRefusedForAModelOfTriplesAndTriplesForAnotherModel) {
  const TempFolder folder;
  const DataView train = make_training_set(raw_of("a\tin\tb\nc\tin\tb\n"), {});
  const std::string libsvm = folder.write("l", "1 1:1\n2 2:1\n");
  EXPECT_THAT(error_of([&] { make_test_set(read_all(libsvm), {}, train.classes, train.space, false); }),
              HasSubstr("is libsvm data, but the model was trained on triples"));
  const DataView rows = make_training_set(read_all(libsvm), {});
  EXPECT_THAT(error_of([&] { make_test_set(raw_of("a\tin\tb\n"), {}, rows.classes, rows.space, false); }),
              HasSubstr("is triples data, but the model was trained on rows of features"));
}

TEST(TriplesSet, HeldOutTriplesAreNotInTheRestInEitherDirection) {
  const DataView data = make_training_set(raw_of(random_file(1, 400)), {});
  const RowSplit split = set_aside(data, 0.25, 7);
  std::set<std::uint32_t> held;
  for (const ExampleId i : split.valid.examples()) {
    EXPECT_EQ(number_of(split.valid.row_of(i)) % 2, 0U) << "a tail";
    held.insert(number_of(split.valid.row_of(i)) / 2);
  }
  EXPECT_EQ(held.size(), data.size() / 8);
  EXPECT_EQ(split.rest.size(), data.size() - 2 * held.size());
  for (const ExampleId i : split.rest.examples())
    EXPECT_FALSE(held.contains(number_of(split.rest.row_of(i)) / 2));
  const DataView some = sample_part(split.rest, 101, 3);
  ASSERT_EQ(some.size(), 100U);
  for (std::uint32_t i = 0; i < 100; i += 2)
    EXPECT_EQ(number_of(some.row_of(ExampleId{i})) + 1, number_of(some.row_of(ExampleId{i + 1})));
}

TEST(RankingTask, NumbersUnseenNamesAfterTheModelsAndKnowsEveryTripleOnce) {
  const DataView train = make_training_set(raw_of("a\tin\tb\nc\tin\tb\n"), {});
  RankingBuilder builder(train.classes, *train.space, nullptr);
  builder.add_test(raw_of("a\tin\tb\nnew\tby\ta\n"));
  builder.add_known(train);
  builder.add_known(raw_of("a\tin\tb\nother\tin\tb\n"));
  const auto task = builder.finish();
  EXPECT_TRUE(task->filtered);
  EXPECT_EQ(task->entities, 3U);
  EXPECT_EQ(task->all_entities, 5U);
  EXPECT_EQ(task->all_relations, 2U);
  EXPECT_THAT(task->queries, ElementsAre(TripleQuery{1, 0, 0}, TripleQuery{0, 2, 1}, TripleQuery{3, 1, 1},
                                         TripleQuery{1, 3, 3}));
  EXPECT_THAT(task->known, ElementsAre(TripleQuery{0, 2, 1}, TripleQuery{0, 2, 2}, TripleQuery{0, 2, 4},
                                       TripleQuery{1, 0, 0}, TripleQuery{1, 3, 3}, TripleQuery{2, 0, 0},
                                       TripleQuery{3, 1, 1}, TripleQuery{4, 0, 0}));
  EXPECT_EQ(task->answers({0, 2, 1}).size(), 3U);
  EXPECT_TRUE(task->answers({2, 2, 0}).empty());
}

TEST(RankingTask, MemoryIsChargedAndRefusedWithAdvice) {
  const RawRows raw = raw_of(random_file(1, 400));
  std::string many;
  for (int i = 0; i < 400000; ++i) many += "a" + std::to_string(i % 7) + "\tr\tb\n";
  const RawRows large = raw_of(many);
  const DataView train = make_training_set(RawRows(raw), {});
  RankingBuilder builder(train.classes, *train.space, std::make_shared<MemoryBudget>(1));
  EXPECT_THAT(error_of([&] { builder.add_known(large); }),
              HasSubstr("to filter by, or raise --memory-limit"));
}

TEST(TriplesSet, ContentHashDependsOnNames) {
  const auto hash = [](const char* text) {
    return content_hash(DataView(make_training_set(raw_of(text), {})), 1);
  };
  EXPECT_EQ(hash("a\tr\tb\n"), hash("a\tr\tb\r\n"));
  EXPECT_NE(hash("a\tr\tb\n"), hash("a\ts\tb\n"));
  EXPECT_NE(hash("a\tr\tb\n"), hash("a\tr\tc\n"));
}

}  // namespace
}  // namespace truemax
