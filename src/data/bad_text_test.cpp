// Bad text: each fault with the message a user gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/test_support.hpp"

namespace truemax {
namespace {

using ::testing::HasSubstr;

struct BadRow {
  const char* name;
  Format format;
  std::string text;
  const char* message;  // after the path
};

std::ostream& operator<<(std::ostream& out, const BadRow& row) {
  return out << row.name;
}

class BadRows : public ::testing::TestWithParam<BadRow> {};

TEST_P(BadRows, AreReportedWithLineFindingAndAdvice) {
  const TempFolder folder;
  const std::string path = folder.write("bad.txt", GetParam().text);
  for (const std::size_t window : {std::size_t{1}, std::size_t{16} << 20}) {
    StreamOptions stream;
    stream.window = window;
    stream.threads = 3;
    const std::string message = error_of([&] { read_all(path, as(GetParam().format), stream); });
    EXPECT_EQ(message, path + GetParam().message);
  }
}

constexpr auto kXml = Format::xmlrepository;
constexpr auto kSvm = Format::libsvm;
constexpr auto kLshtc = Format::lshtc;
constexpr auto kText = Format::fasttext;
INSTANTIATE_TEST_SUITE_P(
    Table, BadRows,
    ::testing::Values(
        BadRow{"HeaderNotNumbers", kXml, "2 x 3\n0 1:1\n",
               ":1: header '2 x 3' is not three whole numbers; begin the file with 'rows features labels', "
               "or give its format with --format"},
        BadRow{
            "TooFewRows", kXml, "3 5 5\n0 1:1\n1 2:1\n",
            ":1: header says 3 rows, the file has 2; correct the header (N D L) or restore the missing rows"},
        BadRow{"TooManyRows", kXml, "1 5 5\n0 1:1\n1 2:1\n\n",
               ":1: header says 1 rows, the file has 2; correct the header (N D L) or remove the extra rows"},
        BadRow{"FeatureAboveD", kXml, "2 5 5\n0 1:1\n1 5:1\n",
               ":3: feature number 5 is not below the 5 features of the header; correct the header (N D L) "
               "or the "
               "row; features count from 0"},
        BadRow{"LabelAboveL", kXml, "2 5 5\n0 1:1\n1,5 4:1\n",
               ":3: label 5 is not below the 5 labels of the header; correct the header (N D L) or the row"},
        BadRow{"LabelNoNumber", kXml, "1 5 5\nabc 1:1\n",
               ":2: label 'abc' is not a whole number of 0 or more; labels of this format are numbers; for "
               "named "
               "classes use --format libsvm or fasttext"},
        BadRow{
            "LabelNegative", kXml, "1 5 5\n-3 1:1\n",
            ":2: label '-3' is not a whole number of 0 or more; labels of this format are numbers; for named "
            "classes use --format libsvm or fasttext"},
        BadRow{"LabelEmptyInside", kXml, "1 5 5\n1,,2 1:1\n",
               ":2: empty label in '1,,2'; write labels as 1,2,3"},
        BadRow{"LabelEmptyAtEnd", kXml, "1 5 5\n1, 2 1:1\n",
               ":2: empty label in '1,'; write labels as 1,2,3; where blanks follow the commas, add --format "
               "lshtc"},
        BadRow{"LabelEmptyAtStart", kSvm, "1 1:1\n,2 1:1\n",
               ":2: empty label in ',2'; write labels as 1,2,3"},
        BadRow{"FeatureZeroInLibsvm", kSvm, "1 1:1\n# c\n\n1 0:1\n",
               ":4: feature number 0, but libsvm features count from 1; if the features count from 0, add "
               "--format "
               "lshtc"},
        BadRow{"FeatureNegative", kSvm, "1 -1:1\n",
               ":1: feature number '-1' is below 1; number the features from 1"},
        BadRow{"FeatureNegativeLshtc", kLshtc, "1 -1:1\n",
               ":1: feature number '-1' is below 0; number the features from 0"},
        BadRow{"FeatureTooLarge", kSvm, "1 4294967296:1\n",
               ":1: feature number 4294967296 is too large; feature numbers stay below 4294967295"},
        BadRow{"FeatureFarTooLarge", kSvm, "1 99999999999999999999999:1\n",
               ":1: feature number '99999999999999999999999' is too large; feature numbers stay below "
               "4294967295"},
        BadRow{"FeatureTwice", kSvm, "1 3:1 2:1 3:0\n",
               ":1: feature number 3 occurs twice in the row; write each feature once"},
        BadRow{"FeatureTwiceInOrder", kXml, "1 9 9\n1 2:1 3:0 3:1\n",
               ":2: feature number 3 occurs twice in the row; write each feature once"},
        BadRow{
            "NoColon", kSvm, "1 1:1 abc\n",
            ":1: 'abc' is not a feature:value pair; write features as number:value, labels as 1,2,3 without "
            "blanks"},
        BadRow{"NumberNoColon", kXml, "1 9 9\n1 7\n",
               ":2: '7' is not a feature:value pair; write features as number:value"},
        BadRow{"NoNumber", kSvm, "1 :1\n", ":1: ':1' has no feature number; write features as number:value"},
        BadRow{"NoValue", kSvm, "1 4:\n", ":1: feature '4:' has no value; write features as number:value"},
        BadRow{"NoValueThenMore", kSvm, "1 4: 5:1\n",
               ":1: feature '4:' has no value; write features as number:value"},
        BadRow{
            "FeatureName", kSvm, "1 word:1\n",
            ":1: feature number 'word' is not a whole number; write features as number:value; for text use "
            "fastText's form, __label__name words"},
        BadRow{"ValueNan", kSvm, "1 1:1\n1 1:nan\n",
               ":2: value 'nan' is not finite; write a finite number, or leave the feature out where it is "
               "zero"},
        BadRow{"ValueInf", kXml, "1 9 9\n1 1:-inf\n",
               ":2: value '-inf' is not finite; write a finite number, or leave the feature out where it is "
               "zero"},
        BadRow{"ValueOverDouble", kSvm, "1 1:1e400\n",
               ":1: value '1e400' is too large for a 32-bit float; write a finite number, or leave the "
               "feature out "
               "where it is zero"},
        BadRow{"ValueOverFloat", kSvm, "1 1:-1e39 # c\n",
               ":1: value '-1e39' is too large for a 32-bit float; write a finite number, or leave the "
               "feature out "
               "where it is zero"},
        BadRow{"ValueNoNumber", kSvm, "1 1:1,5\n",
               ":1: value '1,5' is not a number; write a finite number, or leave the feature out where it is "
               "zero"},
        BadRow{"ValueHex", kSvm, "1 1:0x1p3\n",
               ":1: value '0x1p3' is not a number; write a finite number, or leave the feature out where it "
               "is zero"},
        BadRow{"TwoColons", kSvm, "1 1:2:3\n",
               ":1: value '2:3' is not a number; write a finite number, or leave the feature out where it is "
               "zero"},
        BadRow{"CommentInLabel", kSvm, "C# 1:1\n",
               ":1: label 'C#' contains '#', which begins a comment; put a blank before the comment, or use "
               "a class "
               "name without '#'"},
        BadRow{"LshtcCommaThenFeature", kLshtc, "33, 5:1\n",
               ":1: label '5:1' contains ':'; a comma must be followed by a label; class names cannot "
               "contain ':'"},
        BadRow{"CommentInLshtc", kLshtc, "33 5:1 # no\n",
               ":1: '#' is not a feature:value pair; write features as number:value"},
        BadRow{"OldMacLineEnds", kSvm, "1 1:1\r2 2:2\r",
               ":1: a carriage return inside the line; write one row per line"},
        BadRow{"Binary", kSvm, "1 1:1\n1 \x01\x02\n",
               ":2: looks like a binary file; give a text file, or its format with --format"},
        BadRow{"FasttextEmptyLabel", kText, "__label__a b\nc __label__ d\n",
               ":2: label '__label__' has no name; write labels as __label__name"},
        BadRow{"FasttextLongWord", kText, "__label__a b\n__label__a " + std::string(70000, 'x') + "\n",
               ":2: a word has 70000 bytes, the longest may have 65536: "
               "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
               "...'; separate words by blanks"},
        BadRow{"FasttextLongLabel", kText, "__label__" + std::string(65537, 'y') + " b\n",
               ":1: a label has 65537 bytes, the longest may have 65536: "
               "'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy...'; separate words by blanks"},
        BadRow{"TextLongWord", Format::text, "a b\n\n" + std::string(70000, 'x') + " c\n",
               ":3: a word has 70000 bytes, the longest may have 65536: "
               "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
               "...'; separate words by blanks"}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(BadText, ReportsTheFirstErrorForAnyThreadCount) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 5000; ++i)
    text += i == 3000 ? "1 1:x\n" : i > 3000 && i % 5 == 0 ? "1 :y\n" : "1 1:1 2:2\n";
  const std::string path = folder.write("f", text);
  for (std::size_t threads = 1; threads <= 5; ++threads) {
    StreamOptions stream;
    stream.threads = threads;
    stream.piece = 300;
    EXPECT_THAT(error_of([&] { read_all(path, as(Format::libsvm), stream); }), HasSubstr(":3001: value 'x'"));
  }
}

TEST(BadText, IgnoresErrorsAfterTheRequestedRows) {
  const TempFolder folder;
  const std::string path = folder.write("f", "1 1:1\n2 2:2\nbad bad\n");
  EXPECT_EQ(shown(read_all(path, as(Format::libsvm), {}, 2)), "1|0:1\n2|1:2\n");
  EXPECT_THAT(error_of([&] { read_all(path, as(Format::libsvm), {}, 3); }), HasSubstr(":3: 'bad'"));
  // The header is not checked against rows that were not read, and D is that of the rows read.
  EXPECT_EQ(read_all(folder.write("g", "9 5 5\n1 1:1\n2 2:2\n"), {}, {}, 1).size(), 1U);
  EXPECT_EQ(read_all(folder.write("h", "1 1:1\n2 9:2\n"), {}, {}, 1).features, 1U);
}

}  // namespace
}  // namespace truemax
