// Row and class weights: reading, errors, and their effect on a data set.
#include "data/weight_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "data/data_view.hpp"
#include "data/load.hpp"
#include "data/test_support.hpp"

namespace truemax {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Number>
std::string npy(const std::vector<Number>& values, const std::string& type, const std::string& shape) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118, ' ');
  std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number));
  return bytes;
}

class WeightFiles : public ::testing::Test {
 protected:
  std::vector<double> rows(std::string_view bytes) {
    return read_row_weights(folder_.write("w.txt", bytes)).value;
  }
  std::string refused(std::string_view bytes) {
    return error_of([&] { rows(bytes); });
  }
  std::vector<double> classes(std::string_view bytes) {
    return make_class_weights(folder_.write("c.txt", bytes), classes_);
  }
  std::string refused_classes(std::string_view bytes) {
    return error_of([&] { classes(bytes); });
  }
  RawRows data(std::string_view text, std::string_view weights, std::uint64_t max_rows = 0,
               const std::string& split = "") {
    ReadOptions options;
    options.row_weights = folder_.write("w.txt", weights);
    options.split = split;
    std::vector<std::string> notes;
    return read_rows(folder_.write("data.txt", text), options, max_rows, 1, notes);
  }
  TempFolder folder_;
  ClassList classes_{{"a", "b", "two words"}, {6, 3, 1}};
};

constexpr const char* kFour = "4 3 3\n0 0:1\n1 1:1\n2 2:1\n0 1:2\n";

TEST_F(WeightFiles, ReadsOneRowWeightPerLine) {
  EXPECT_THAT(rows("1\n0\n2.5\n"), ElementsAre(1, 0, 2.5));
  EXPECT_THAT(rows("1\n0.1"), ElementsAre(1, 0.1)) << "the last newline may be missing";
  EXPECT_THAT(rows(" +1 \r\n\t2e-3\r\n\r\n \n"), ElementsAre(1, 2e-3))
      << "blanks, CRLF, empty lines at the end";
  EXPECT_THAT(rows("# all\n1 # one\n#two\n2\n\n# end\n"), ElementsAre(1, 2)) << "comments";
  EXPECT_THAT(rows("\xEF\xBB\xBF"
                   "3\n"),
              ElementsAre(3));
  EXPECT_FALSE(std::signbit(rows("-0\n")[0]));
  EXPECT_THAT(rows(gzip("1\n2\n")), ElementsAre(1, 2));
  EXPECT_THAT(rows(zstd("1\n2\n")), ElementsAre(1, 2));
}

TEST_F(WeightFiles, ReadsRowWeightsFromAnArray) {
  EXPECT_THAT(rows(npy<double>({1, 0, 0.1}, "<f8", "(3,)")), ElementsAre(1, 0, 0.1));
  EXPECT_THAT(rows(gzip(npy<float>({1, 0.5F}, "<f4", "(2,)"))), ElementsAre(1, 0.5));
  EXPECT_THAT(rows(npy<std::int64_t>({1, 7}, "<i8", "(2,)")), ElementsAre(1, 7));
  const double nan = std::nan("");
  EXPECT_THAT(refused(npy<double>({1, nan}, "<f8", "(2,)")),
              HasSubstr("w.txt: row 2: weight nan is not finite;"));
  EXPECT_THAT(refused(npy<double>({-1, 1}, "<f8", "(2,)")), HasSubstr("row 1: weight -1 is negative;"));
  EXPECT_THAT(refused(npy<double>({1, 1}, "<f8", "(1, 2)")), HasSubstr("weights of shape (1, 2);"));
  EXPECT_THAT(refused(npy<double>({1, 1}, "<f8", "(2, 1)")), HasSubstr("weights of shape (2, 1);"));
  EXPECT_THAT(refused(npy<double>({1}, "<U2", "(1,)")), HasSubstr("weights are text;"));
  EXPECT_THAT(refused(npy<double>({1}, "<f8", "(2,)")),
              HasSubstr("ends after 1 of its 2 weights (truncated);"));
  EXPECT_THAT(refused(npy<double>({1, 1}, "<f8", "(1,)")), HasSubstr("has more data after its 1 weights;"));
}

TEST_F(WeightFiles, BadRowWeightsAreReportedWithTheirLine) {
  EXPECT_THAT(refused("1\n-2\n"), HasSubstr("w.txt:2: weight '-2' is negative; write one number"));
  EXPECT_THAT(refused("# c\n1\nnan\n"), HasSubstr("w.txt:3: weight 'nan' is not finite;"));
  EXPECT_THAT(refused("inf\n"), HasSubstr("w.txt:1: weight 'inf' is not finite;"));
  EXPECT_THAT(refused("1e400\n"), HasSubstr("weight '1e400' is out of the range of numbers;"));
  EXPECT_THAT(refused("1e16\n"), HasSubstr("weight '1e16' is above 1e+15, the largest weight;"));
  EXPECT_THAT(refused("1e-16\n"), HasSubstr("weight '1e-16' is below 1e-15,"));
  for (const char* word : {"abc", "1x", "1 2", "1,5", "+-1", "+", "0x10", "\x01"})
    EXPECT_THAT(refused(std::string("1\n") + word + "\n"), HasSubstr("w.txt:2: weight ")) << word;
  EXPECT_THAT(refused("1\n1 2\n"), HasSubstr("weight '1 2' is not a number;"));
  EXPECT_THAT(refused("1\n\n\n2\n"), HasSubstr("w.txt:2: empty line between weights;"));
  EXPECT_THAT(refused("# none\n"), HasSubstr("w.txt: contains no weights;"));
  EXPECT_THAT(refused(""), HasSubstr("w.txt"));
}

TEST_F(WeightFiles, RequiresAWeightForEachRow) {
  EXPECT_THAT(data(kFour, "1\n2\n3\n4\n").weight, ElementsAre(1, 2, 3, 4));
  const auto refused_data = [&](std::string_view weights, std::uint64_t max_rows = 0) {
    return error_of([&] { data(kFour, weights, max_rows); });
  };
  EXPECT_THAT(refused_data("1\n2\n3\n\n"), HasSubstr("w.txt:3: the file ends after 3 weights, but"));
  EXPECT_THAT(refused_data("1\n2\n3\n"), HasSubstr("data.txt has 4 rows; give one weight for each row"));
  EXPECT_THAT(refused_data("1\n2\n3\n4\n5\n"), HasSubstr("w.txt:5: 5 weights, but"));
  // Rows beyond --max-rows have weights too.
  EXPECT_THAT(data(kFour, "1\n2\n3\n4\n", 2).weight, ElementsAre(1, 2));
  EXPECT_THAT(data(kFour, "1\n2\n", 2).weight, ElementsAre(1, 2));
  EXPECT_THAT(refused_data("1\n", 2), HasSubstr("has at least 2 rows;"));
  EXPECT_THAT(refused_data("1\n2\n3\n4\n5\n", 9), HasSubstr("has only 4 rows;"));
  EXPECT_THAT(refused_data("1\n2\n3\n-4\n", 2), HasSubstr("w.txt:4: "));
}

TEST_F(WeightFiles, SplitUsesTheWeightsOfTheWholeFile) {
  const std::string split = folder_.write("split.txt", "4\n1\n3\n");
  EXPECT_THAT(data(kFour, "1\n2\n3\n4\n", 0, split).weight, ElementsAre(4, 1, 3));
  EXPECT_THAT(data(kFour, "1\n2\n3\n4\n", 2, split).weight, ElementsAre(4, 1));
  EXPECT_THAT(error_of([&] { data(kFour, "1\n2\n3\n", 0, split); }), HasSubstr("has 4 rows;"));
  EXPECT_THAT(error_of([&] { data(kFour, "0\n1\n0\n0\n", 0, split); }),
              HasSubstr("all 3 rows have weight 0;"));
}

TEST_F(WeightFiles, ZeroWeightRowsAreDroppedAndCounted) {
  const Dataset made =
      make_training_set(data("5 3 3\n0 0:1\n1 1:1\n 2:1\n2 2:1\n0 1:2\n", "1\n3\n0\n0\n1\n"), {});
  EXPECT_EQ(made.size(), 2U + 1U);
  EXPECT_EQ(made.statistics.rows_of_weight_zero, 2U);
  EXPECT_EQ(made.statistics.rows_without_label, 0U) << "a row is dropped for one reason";
  EXPECT_EQ(made.statistics.rows_in_file, 5U);
  EXPECT_EQ(made.classes->size(), 2U) << "class 2 has no row left";
  EXPECT_THAT(made.weight, ElementsAre(1, 3, 1));
  EXPECT_THAT(made.row_weight, ElementsAre(1, 3, 1));
  EXPECT_THAT(error_of([&] { data(kFour, "0\n0\n0\n0\n"); }),
              HasSubstr("w.txt: all 4 rows have weight 0; give at least one row a weight above 0"));
  EXPECT_THAT(error_of([&] { make_training_set(data("2 3 3\n0 0:1\n 1:1\n", "0\n1\n"), {}); }),
              HasSubstr("of 2 rows 1 have weight 0, 1 have no label and 0 no feature"));
}

TEST_F(WeightFiles, RowWeightsEnterClassCounts) {
  PreprocessOptions options;
  const Dataset first = make_training_set(data(kFour, "1\n5\n2\n0.5\n"), options);
  EXPECT_EQ(first.classes->name(0), "1");
  EXPECT_EQ(first.classes->count(0), 5);
  EXPECT_EQ(first.classes->count(first.classes->find("0")), 1.5);
  options.labels = LabelRule::all;
  const Dataset all = make_training_set(data("2 3 3\n0,1 0:1\n2 1:1\n", "3\n1\n"), options);
  EXPECT_EQ(all.classes->count(all.classes->find("0")), 1.5);
  EXPECT_THAT(all.weight, ElementsAre(1.5, 1.5, 1));
  EXPECT_THAT(all.row_weight, ElementsAre(3, 1));
}

TEST_F(WeightFiles, WeightsOfOneChangeNothing) {
  const Dataset made = make_training_set(data(kFour, "1\n1\n1\n1\n"), {});
  EXPECT_THAT(made.weight, IsEmpty());
  EXPECT_THAT(made.row_weight, IsEmpty());
  EXPECT_FALSE(DataView(made).has_weights());
  EXPECT_THAT(classes("a 1\nb 1.0\n"), IsEmpty());
  EXPECT_THAT(make_class_weights("", classes_), IsEmpty());
}

TEST_F(WeightFiles, RowWeightsEnterWordCounts) {
  const Dataset made = make_training_set(data("__label__a x y\n__label__b y z\n", "3\n1\n"), {});
  EXPECT_THAT(made.space->words, ElementsAre("y", "x", "z"));
  const Dataset other = make_training_set(data("__label__a x y\n__label__b y z\n", "1\n3\n"), {});
  EXPECT_THAT(other.space->words, ElementsAre("y", "z", "x"));
}

TEST_F(WeightFiles, BalancedWeightsFollowTheFormula) {
  EXPECT_THAT(make_class_weights(kBalanced, classes_), ElementsAre(10.0 / 18, 10.0 / 9, 10.0 / 3));
  const Dataset made = make_training_set(data(kFour, "1\n5\n2\n0.5\n"), {}, 0, kBalanced);
  EXPECT_THAT(made.class_weight, ElementsAre(8.5 / 15, 8.5 / 6, 8.5 / 4.5)) << "5, 2, 1.5";
  EXPECT_EQ(made.weight[0], 8.5 / 4.5);
  EXPECT_EQ(made.weight[1], 5 * (8.5 / 15));
  EXPECT_THAT(made.row_weight, ElementsAre(1, 5, 2, 0.5)) << "class weights are not row weights";
}

TEST_F(WeightFiles, ClassWeightsAreMatchedByName) {
  EXPECT_THAT(classes("b 2\n\n a\t0.5\r\n"), ElementsAre(0.5, 2, 1)) << "a class not named has weight 1";
  EXPECT_THAT(classes("two words   3"), ElementsAre(1, 1, 3));
  EXPECT_THAT(classes(gzip("a 3\n")), ElementsAre(3, 1, 1));
}

TEST_F(WeightFiles, BadClassWeightsAreReportedWithTheirLine) {
  EXPECT_THAT(refused_classes("a 1\nzebra 2\n"),
              HasSubstr("c.txt:2: class 'zebra' is not in the training data;"));
  EXPECT_THAT(refused_classes("a 0\n"), HasSubstr("c.txt:1: weight '0' of class 'a'; give a number above 0"));
  EXPECT_THAT(refused_classes("a -1\n"), HasSubstr("c.txt:1: weight '-1' is negative; write a class"));
  EXPECT_THAT(refused_classes("a nan\n"), HasSubstr("weight 'nan' is not finite;"));
  EXPECT_THAT(refused_classes("a x\n"), HasSubstr("weight 'x' is not a number;"));
  EXPECT_THAT(refused_classes("\na\n"), HasSubstr("c.txt:2: only one word, 'a';"));
  EXPECT_THAT(refused_classes("a 1\nb 2\na 3\n"),
              HasSubstr("c.txt:3: class 'a' is named here and in line 1;"));
  EXPECT_THAT(refused_classes("\n\n"), HasSubstr("c.txt: contains no weights;"));
  EXPECT_THAT(error_of([&] { make_class_weights(folder_.path("none"), classes_); }), HasSubstr("none"));
}

TEST_F(WeightFiles, TestRowsUseClassWeightsOfTraining) {
  const Dataset made =
      make_training_set(read_all(folder_.write("train.txt", kFour)), {}, 0, folder_.write("c.txt", "1 4\n"));
  const Dataset test = make_test_set(data("3 3 9\n1 0:1\n0 1:1\n1 2:1\n", "1\n0\n0.5\n"), {}, made.classes,
                                     made.space, false, made.class_weight);
  EXPECT_THAT(test.weight, ElementsAre(4, 2));
  EXPECT_THAT(test.row_weight, ElementsAre(1, 0.5));
  EXPECT_EQ(test.statistics.rows_of_weight_zero, 1U);
}

TEST_F(WeightFiles, RefusesAnAbsurdWeight) {
  const ClassList far({"0", "1", "2"}, {1e90, 1, 1});
  RawRows rows = data(kFour, "1\n1e15\n1\n1\n");
  const auto space = make_training_set(data(kFour, "1\n1\n1\n1\n"), {}).space;
  EXPECT_THAT(error_of([&] {
                make_test_set(std::move(rows), {}, std::make_shared<ClassList>(far), space, false,
                              make_class_weights(kBalanced, far));
              }),
              HasSubstr("give row and class weights nearer to 1"));
}

}  // namespace
}  // namespace truemax
