#include "data/row_stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "data/sniff.hpp"
#include "data/test_support.hpp"

namespace truemax {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Format sniffed(std::string_view text) {
  return sniff_format("f", text).format;
}

TEST(Sniff, DetectsTheFormatFromTheContent) {
  EXPECT_EQ(sniffed("3 5 6\n1 1:1\n"), Format::xmlrepository);
  EXPECT_EQ(sniffed("\xef\xbb\xbf 3\t5 6 \r\n1 1:1\n"), Format::xmlrepository);
  EXPECT_EQ(sniffed("hello __label__x\n"), Format::fasttext);
  EXPECT_EQ(sniffed("3, 4 5:1\n"), Format::lshtc);
  EXPECT_EQ(sniffed("3,4 5:1\n6 0:1\n"), Format::lshtc);
  EXPECT_EQ(sniffed("3,4 5:1\n"), Format::libsvm);
  EXPECT_EQ(sniffed("# 0:1\n+1 5:1\n"), Format::libsvm);
  EXPECT_EQ(sniffed("my__label__x 5:1 7:1\ny 5:1\n"), Format::libsvm);
  EXPECT_EQ(sniffed(std::string_view("\0\0\x08\x03\0\0\0\x01", 8)), Format::idx);
  EXPECT_EQ(sniffed("\x93NUMPY\x01"), Format::npy);
}

TEST(Sniff, RefusesUnknownFormats) {
  EXPECT_EQ(error_of([] { sniffed("hello world\n"); }),
            "f:1: unknown format: neither feature:value pairs nor __label__name in 'hello world'; give the "
            "format with --format (see docs/formats.md)");
  EXPECT_THAT(error_of([] { sniffed(std::string_view("1 1:1\n\0", 7)); }),
              HasSubstr("f: looks like a binary file"));
}

TEST(Sniff, TextWithATimeIsNotLibsvm) {
  for (const char* text : {"meet 12:30\n", "meet 12:30\ncall 14:15\n", "12:30 meet\n", "meet me 12:30\n"})
    EXPECT_THAT(error_of([&] { sniffed(text); }),
                AllOf(HasSubstr("unknown format"), HasSubstr("--format libsvm")))
        << text;
  EXPECT_EQ(sniffed("1 12:30\n"), Format::libsvm);
  EXPECT_EQ(sniffed("meet 1:30 2:15\ncall 4:1\n"), Format::libsvm) << "names as labels, several features";
}

TEST(Sniff, WordModelReadsText) {
  const auto for_words = [](std::string_view text) {
    return sniff_format("f", text, Format::fasttext).format;
  };
  for (const char* text : {"meet 12:30\n", "meet 12:30 13:30\ncall 14:15\n", "12:30\n", "3 5 6\n",
                           "5 12:30\n", "1,2,3\n", "a,b\nc,d\n", "1 2 3\n4 5 6\n"})
    EXPECT_EQ(for_words(text), Format::fasttext) << text;
  EXPECT_EQ(for_words("1 3:1\n2 4:1\n"), Format::libsvm) << "rows of numbers are refused, not read as words";
  EXPECT_EQ(for_words("2 9 9\n1 3:1\n2 4:1\n"), Format::xmlrepository);
}

TEST(Sniff, NumericModelDecidesTheFormat) {
  const auto for_model = [](Format format, std::string_view text) {
    return sniff_format("f", text, format).format;
  };
  EXPECT_EQ(for_model(Format::libsvm, "a 9:1\n"), Format::libsvm);
  EXPECT_EQ(for_model(Format::libsvm, "7\n"), Format::libsvm) << "a row without features";
  EXPECT_EQ(for_model(Format::xmlrepository, "7\n"), Format::lshtc);
}

TEST(Sniff, SuggestsAConversionForTables) {
  for (const char* text :
       {"label,a,b\n1,0.5,2\n2,1,0\n", "1,0.5,2\n2,1,0\n", "5.1,3.5,1.4,setosa\n4.9,3,1.4,x\n",
        "y\ta\n1\t2\n", "y;a\n1;2,5\n", "text,label\ngood film,pos\n"})
    EXPECT_THAT(error_of([&] { sniffed(text); }),
                AllOf(HasSubstr("which is not read"), HasSubstr("python3 -c")))
        << text;
  EXPECT_EQ(sniffed("1,5,9 3:0.5\n2,7 4:1\n"), Format::libsvm);
  EXPECT_EQ(sniffed("1,5,9 0:0.5\n2,7 4:1\n"), Format::lshtc);
  for (const char* text : {"hello, world\n", "well, yes\nno, never\n"})
    EXPECT_THAT(error_of([&] { sniffed(text); }), HasSubstr("unknown format")) << text;
}

TEST(Sniff, ReadsOnlyWholeLines) {
  std::string text;
  while (text.size() < kSniffBytes - 4) text += "1 2:3\n";
  text += "7, 8 0:0";
  text.resize(kSniffBytes, ' ');
  EXPECT_EQ(sniffed(text), Format::libsvm) << "the last line may be cut";
  std::string one_line = "1";
  while (one_line.size() < kSniffBytes) one_line += " 17:1";
  EXPECT_EQ(sniffed(one_line), Format::libsvm);
}

std::vector<std::string> notes_of(const std::string& path, const ReadOptions& options = {}) {
  std::vector<std::string> notes;
  RowStream stream(path, options, {}, notes);
  stream.next(~0ULL);
  return notes;
}

TEST(RowStream, NotesLibsvmOnlyIfItMayBeLshtc) {
  const TempFolder folder;
  const std::string path = folder.write("f", "3 5:1\n");
  EXPECT_THAT(notes_of(path),
              ElementsAre(path + ": read as libsvm; if it is LSHTC text, add --format lshtc"));
  EXPECT_THAT(notes_of(path, as(Format::libsvm)), IsEmpty());
  EXPECT_THAT(notes_of(folder.write("g", "-1 5:1\n")), IsEmpty());
  EXPECT_THAT(notes_of(folder.write("h", "1 qid:4 5:1\n2 qid:4 5:1\n")),
              ElementsAre(folder.path("h") + ": qid:number is ignored"));
}

TEST(RowStream, ReadsCompressedFilesInEveryFormat) {
  const TempFolder folder;
  const std::string text = "2 5 5\n1,2 0:1\n3 4:0.5\n";
  const RawRows plain = read_all(folder.write("p", text));
  expect_same(plain, read_all(folder.write("g", gzip(text))));
  expect_same(plain, read_all(folder.write("z", zstd(text))));
}

TEST(RowStream, ReportsTruncationAfterGoodRows) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i * 7919 % 1000) + " 1:1 2:2\n";
  const std::string packed = gzip(text);
  const std::string path = folder.write("t.gz", packed.substr(0, packed.size() / 2));
  StreamOptions stream;
  stream.window = 1000;
  EXPECT_THAT(error_of([&] { read_all(path, as(Format::libsvm), stream); }),
              HasSubstr("(truncated or damaged)"));
  EXPECT_EQ(read_all(path, as(Format::libsvm), stream, 100).size(), 100U)
      << "the first rows can still be read";
}

TEST(RowStream, ReadsStandardInput) {
  const TempFolder folder;
  const std::string path = folder.write("f", gzip("3 5:1\n"));
  const int kept = ::dup(STDIN_FILENO);
  ASSERT_NE(std::freopen(path.c_str(), "rb", stdin), nullptr);
  const RawRows raw = read_all("-");
  ::dup2(kept, STDIN_FILENO);
  ::close(kept);
  EXPECT_EQ(shown(raw), "3|4:1\n");
  EXPECT_EQ(raw.path, "standard input");
}

TEST(RowStream, KnowsTheLineOfEachRow) {
  const TempFolder folder;
  const RawRows raw = read_all(folder.write("f", "# head\n1 1:1\n2 2:1\n\n# x\n3 3:1\n4 4:1\n"));
  EXPECT_EQ(raw.line_of(0), 2U);
  EXPECT_EQ(raw.line_of(1), 3U);
  EXPECT_EQ(raw.line_of(2), 6U);
  EXPECT_EQ(raw.line_of(3), 7U);
  EXPECT_EQ(raw.lines.size(), 2U);
}

TEST(RowStream, RefusesALabelFileForText) {
  const TempFolder folder;
  ReadOptions options;
  options.label_file = "y.npy";
  EXPECT_THAT(error_of([&] { read_all(folder.write("f", "1 1:1\n"), options); }),
              HasSubstr("is libsvm text, which contains its labels; leave out --label-file"));
}

class Split : public ::testing::Test {
 protected:
  RawRows read(const std::string& split, std::uint64_t column, std::uint64_t most = ~0ULL) {
    ReadOptions options;
    options.split = folder_.write("split", split);
    options.split_column = column;
    return read_all(folder_.write("data", "4 5 5\n0 0:1\n1 1:1\n2 2:1\n3 3:1\n"), options, {}, most);
  }
  std::string error(const std::string& split, std::uint64_t column) {
    const std::string message = error_of([&] { read(split, column); });
    return message.substr(std::min(message.size(), folder_.path("split").size()));
  }
  TempFolder folder_;
};

TEST_F(Split, TakesTheRowsOfItsColumnInOrder) {
  EXPECT_EQ(shown(read("4 1\n2 3\n\n", 1)), "3|3:1\n1|1:1\n");
  EXPECT_EQ(shown(read(gzip("4 1\r\n2 3"), 2)), "0|0:1\n2|2:1\n");
  EXPECT_EQ(shown(read("4\n2\n1\n", 1, 2)), "3|3:1\n1|1:1\n") << "max_rows counts rows of the split";
  EXPECT_EQ(read("4\n2\n", 1).line_of(0), 5U);
}

TEST_F(Split, RefusesRowNumbersOutOfRange) {
  EXPECT_EQ(error("1\n5\n", 1),
            ":2: '5' is not a row number from 1 to 4; check that the split file belongs to the data file");
  EXPECT_EQ(error("0\n", 1),
            ":1: '0' is not a row number from 1 to 4; check that the split file belongs to the data "
            "file");
  EXPECT_EQ(error("x\n", 1),
            ":1: 'x' is not a row number from 1 to 4; check that the split file belongs to the data "
            "file");
  EXPECT_EQ(error("1\n2\n1\n", 1), ":3: row 1 is named here and in line 1; name each row once");
  EXPECT_EQ(error("1 2\n3\n", 2),
            ":2: 1 columns, but column 2 was requested; choose another column with --split-column");
  EXPECT_EQ(error("\n", 1), ": contains no row numbers; check the split file");
}

}  // namespace
}  // namespace truemax
