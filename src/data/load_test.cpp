#include "data/load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/test_access.hpp"
#include "data/test_support.hpp"

namespace truemax {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ClassId kUnseen = kUnseenClass;

class Load : public ::testing::Test {
 protected:
  RawRows raw(std::string_view text, Format format = Format::automatic) {
    return read_all(folder_.write("data", text), as(format));
  }
  Dataset train(std::string_view text, std::uint64_t least_features = 0) {
    return make_training_set(raw(text), options_, least_features);
  }
  Dataset test(const Dataset& trained, std::string_view text, bool drop = false) {
    return make_test_set(raw(text), options_, trained.classes, trained.space, drop);
  }
  std::string path() const { return folder_.path("data"); }
  TempFolder folder_;
  PreprocessOptions options_;
};

std::vector<std::string> label_names(const Dataset& data) {
  std::vector<std::string> names;
  for (const ClassId k : data.label) names.push_back(data.classes->name(k));
  return names;
}

TEST_F(Load, ClassesOfFirstLabelsAreSortedByCount) {
  const Dataset data = train("5 9 99\n7,50 0:1\n3 1:1\n7 2:1\n10,7 3:1\n3,10 4:1\n");
  EXPECT_THAT(label_names(data), ElementsAre("7", "3", "7", "10", "3"));
  ASSERT_EQ(data.classes->size(), 3U);
  EXPECT_EQ(data.classes->name(0), "3") << "ties by number";
  EXPECT_EQ(data.classes->name(1), "7");
  EXPECT_EQ(data.classes->count(2), 1.0);
  EXPECT_THAT(data.label_set, ElementsAre(1, kUnseen, 0, 1, 2, 1, 0, 2));
  EXPECT_THAT(data.label_begin, ElementsAre(0, 2, 3, 4, 6, 8));
  EXPECT_THAT(data.example_row, IsEmpty());
  EXPECT_THAT(data.weight, IsEmpty());
  EXPECT_EQ(data.space->features, 9U);
  EXPECT_TRUE(data.space->declared);
  EXPECT_EQ(data.format, Format::xmlrepository);
}

TEST_F(Load, AllLabelsShareTheRowAndItsWeight) {
  options_.labels = LabelRule::all;
  const Dataset data = train("3 9 9\n1,2 0:1\n2 1:1\n1,2,3,4 2:1\n");
  EXPECT_THAT(label_names(data), ElementsAre("1", "2", "2", "1", "2", "3", "4"));
  EXPECT_EQ(data.example_row, row_ids({0, 0, 1, 2, 2, 2, 2}));
  EXPECT_THAT(data.weight, ElementsAre(0.5F, 0.5F, 1.0F, 0.25F, 0.25F, 0.25F, 0.25F));
  EXPECT_EQ(data.rows.rows(), 3U);
  EXPECT_EQ(data.classes->name(0), "2");
  EXPECT_DOUBLE_EQ(data.classes->count(0), 1.75);
  EXPECT_EQ(x_of(data, 4).index[0], 2U);
}

TEST_F(Load, SingleLabelRowsNeedNoIndirection) {
  options_.labels = LabelRule::all;
  const Dataset data = train("2 9 9\n1 0:1\n2 1:1\n");
  EXPECT_THAT(data.example_row, IsEmpty());
  EXPECT_THAT(data.weight, IsEmpty());
}

TEST_F(Load, DropsAndCountsRowsWithoutLabelOrFeatures) {
  options_.max_features = 3;
  const Dataset data = train("6 9 9\n1 0:1 3:1 8:1\n 1:1\n\n2 3:1\n3\n4 2:1\n");
  EXPECT_THAT(label_names(data), ElementsAre("1", "4"));
  EXPECT_EQ(data.statistics.rows_in_file, 6U);
  EXPECT_EQ(data.statistics.rows_without_label, 2U);
  EXPECT_EQ(data.statistics.rows_without_features, 2U);
  EXPECT_EQ(data.statistics.cut_features, 3U);
  EXPECT_EQ(data.space->features, 3U);
  EXPECT_EQ(data.space->file_features, 9U);
  EXPECT_THAT(data.rows.index, ElementsAre(0, 2));
}

TEST_F(Load, FeatureLimitAboveDChangesNothing) {
  options_.max_features = 100;
  EXPECT_EQ(train("2 9 9\n1 0:1\n2 1:1\n").space->features, 9U);
}

TEST_F(Load, WidensOnlyUndeclaredFeatureCounts) {
  EXPECT_EQ(train("1 4:1\n2 2:1\n", 9).space->features, 9U);
  EXPECT_EQ(train("1 4:1\n2 2:1\n", 2).space->features, 4U);
  EXPECT_EQ(train("2 5 5\n1 4:1\n2 2:1\n", 9).space->features, 5U);
}

TEST_F(Load, RefusesDataWithNothingToLearn) {
  EXPECT_EQ(error_of([&] { train("3 9 9\n 1:1\n2\n\n"); }),
            path() +
                ": no row to train on: of 3 rows 2 have no label and 1 no feature; check the file and its "
                "--format");
  EXPECT_EQ(error_of([&] { train("2 9 9\n1 1:1\n1 2:1\n"); }),
            path() + ": all 2 usable rows have the class '1'; train on rows of two classes or more");
  options_.max_features = 1;
  EXPECT_EQ(
      error_of([&] { train("1 9 9\n1 1:1\n"); }),
      path() +
          ": no row to train on: of 1 rows 0 have no label and 1 no feature below --max-features 1; raise "
          "--max-features");
}

TEST_F(Load, NormalizesRowsOverTheWholeFloatRange) {
  options_.normalize = Normalize::l2;
  const Dataset data = train(
      "9 9 9\n0 0:3 1:-4\n1 0:3e38 1:3e38 2:3e38\n2 0:1e-38 1:1e-38\n3 0:1e-45\n4 0:3e38 1:1e-38\n5 0:1e-45 "
      "1:3e38\n"
      "6 0:-3.4028234e38\n7 0:1e-45 1:1e-45 2:1e-45\n8 5:1\n");
  ASSERT_EQ(data.rows.rows(), 9U);
  for (std::size_t i = 0; i < data.rows.rows(); ++i) {
    double length = 0;
    for (const float v : data.rows.row(i).value) {
      EXPECT_TRUE(std::isfinite(v) && v != 0.0F) << i;
      length += static_cast<double>(v) * static_cast<double>(v);
    }
    EXPECT_NEAR(length, 1.0, 1e-6) << i;
  }
  EXPECT_THAT(data.rows.row(0).value, ElementsAre(0.6F, -0.8F));
  EXPECT_THAT(data.rows.row(4).index, ElementsAre(0)) << "values that underflow beside 3e38 are not stored";
  EXPECT_THAT(data.rows.row(5).index, ElementsAre(1));
}

TEST_F(Load, SortsWordsByCountThenFirstOccurrence) {
  const Dataset data = train("__label__a rare the cat\n__label__b the dog the cat\nunlabelled dog dog dog\n");
  EXPECT_THAT(data.space->words, ElementsAre("dog", "the", "cat", "rare", "unlabelled"));
  EXPECT_EQ(data.space->features, 5U);
  EXPECT_FALSE(data.space->declared);
  EXPECT_THAT(data.rows.row(1).index, ElementsAre(0, 1, 2));
  EXPECT_THAT(data.rows.row(1).value, ElementsAre(1.0F, 2.0F, 1.0F));
}

TEST_F(Load, FeatureLimitKeepsTheMostFrequentWords) {
  options_.max_features = 2;
  const Dataset data = train("__label__a rare the cat\n__label__b the dog the cat dog dog\n");
  EXPECT_THAT(data.space->words, ElementsAre("the", "dog"));
  EXPECT_EQ(data.space->file_features, 4U);
  const Dataset seen = test(data, "__label__b dog cat cat\n");
  EXPECT_THAT(seen.rows.index, ElementsAre(1));
  EXPECT_EQ(seen.statistics.unknown_words, 2U);
}

TEST_F(Load, UnknownTestWordsAreCounted) {
  const Dataset data = train("__label__a the cat\n__label__b the dog\n");
  const Dataset seen = test(data, "__label__b new dog new the the\n__label__a strange\n__label__c cat\n");
  EXPECT_EQ(seen.statistics.unknown_words, 3U);
  EXPECT_EQ(seen.statistics.rows_without_features, 1U);
  EXPECT_EQ(seen.statistics.unseen, 1U);
  EXPECT_THAT(seen.rows.row(0).index, ElementsAre(0, 2));
  EXPECT_THAT(seen.rows.row(0).value, ElementsAre(2.0F, 1.0F));
}

TEST_F(Load, RowsWithOnlyUnseenLabelsAreKept) {
  const Dataset data = train("3 9 9\n1 0:1\n1 0:1\n2 1:1\n");
  const Dataset seen = test(data, "5 9 9\n5,1 0:1\n2 1:1\n 2:1\n3\n1 3:1\n");
  EXPECT_EQ(seen.rows.rows(), 3U);
  EXPECT_EQ(seen.statistics.unseen, 1U);
  EXPECT_EQ(seen.statistics.rows_without_label, 1U);
  EXPECT_EQ(seen.statistics.rows_without_features, 1U);
  EXPECT_THAT(seen.label, ElementsAre(1, 0));
  EXPECT_EQ(seen.example_row, row_ids({1, 2}));
  EXPECT_THAT(seen.label_set, ElementsAre(kUnseen, 0, 1, 0));
  EXPECT_EQ(seen.classes, data.classes);
  EXPECT_EQ(seen.space, data.space);
}

TEST_F(Load, UnseenLabelsKeepTheirShareOfTheWeight) {
  options_.labels = LabelRule::all;
  const Dataset data = train("2 9 9\n1 0:1\n2 1:1\n");
  const Dataset seen = test(data, "1 9 9\n1,5 0:1\n");
  EXPECT_THAT(seen.weight, ElementsAre(0.5F));
  EXPECT_EQ(seen.statistics.unseen, 1U);
}

TEST_F(Load, DeclaredFeaturesMustAgree) {
  const Dataset data = train("2 9 9\n1 0:1\n2 1:1\n");
  EXPECT_EQ(
      error_of([&] { test(data, "1 8 9\n1 0:1\n", true); }),
      path() + ": has 8 features, the model's data had 9; give data with the features of the training data");
  EXPECT_EQ(test(data, "1 3:1\n").rows.index[0], 2U) << "libsvm rows for a model of XMLRepository data";
}

TEST_F(Load, UnknownFeaturesAreRefusedOrDropped) {
  const Dataset data = train("1 1:1\n2 4:1\n");
  const char* const text = "# c\n1 1:1 4:1\n1 2:1 5:1 9:1\n2 6:1\n";
  EXPECT_EQ(
      error_of([&] { test(data, text); }),
      path() +
          ":3: feature number 9 is above the 4 features of the model; use --unknown-features drop to leave "
          "such features out");
  const Dataset seen = test(data, text, true);
  EXPECT_EQ(seen.statistics.unknown_features, 3U);
  EXPECT_EQ(seen.statistics.rows_without_features, 1U);
  EXPECT_EQ(seen.rows.rows(), 2U);
}

TEST_F(Load, UnknownFeaturesAreDroppedUnderMaxFeatures) {
  options_.max_features = 2;
  const Dataset data = train("1 1:1\n2 2:1 4:1\n");
  const Dataset seen = test(data, "1 1:1 9:1\n");
  EXPECT_EQ(seen.statistics.cut_features, 1U);
  EXPECT_THAT(seen.rows.index, ElementsAre(0));
}

TEST_F(Load, WordsAndNumbersDoNotMix) {
  const Dataset words = train("__label__a the cat\n__label__b the dog\n");
  EXPECT_EQ(
      error_of([&] { test(words, "1 3:1\n"); }),
      path() + ": is libsvm data, but the model was trained on words (fastText text); give fastText text");
  const Dataset numbers = train("1 1:1\n2 4:1\n");
  EXPECT_EQ(
      error_of([&] { test(numbers, "__label__a the cat\n"); }),
      path() +
          ": is fastText text, but the model was trained on numbered features; give data in the format of "
          "the training data");
}

TEST_F(Load, PredictionKeepsEveryRow) {
  options_.normalize = Normalize::l2;
  const Dataset data = train("2 9 9\n1 0:1\n2 1:1\n");
  const Dataset rows =
      make_prediction_rows(raw("4 9 9\n\n 3:2\n8 0:1\n2\n"), options_, data.classes, data.space, false);
  EXPECT_EQ(rows.rows.rows(), 4U);
  EXPECT_EQ(rows.rows.row(1).value[0], 1.0F);
  EXPECT_THAT(rows.label, ElementsAre(1));
  EXPECT_EQ(rows.example_row, row_ids({3}));
  EXPECT_THAT(rows.label_begin, ElementsAre(0, 0, 0, 1, 2));
  EXPECT_THAT(rows.label_set, ElementsAre(kUnseen, 1));
}

TEST_F(Load, OnePreparerHandlesManyBatches) {
  const Dataset data = train("__label__a the cat\n__label__b the dog\n");
  const RowPreparer preparer(options_, data.classes, data.space, false);
  std::vector<std::string> notes;
  RowStream stream(folder_.write("p", "__label__a cat\nnew dog\n__label__b the\n"), {}, {}, notes);
  std::vector<FeatureId> features;
  for (RawRows batch = stream.next(1); batch.size() > 0; batch = stream.next(1)) {
    const Dataset rows = preparer.prediction_rows(std::move(batch));
    ASSERT_EQ(rows.rows.rows(), 1U);
    features.push_back(rows.rows.index[0]);
  }
  EXPECT_THAT(features, ElementsAre(1, 2, 0));
}

TEST_F(Load, ReadsOnlyTheFirstRows) {
  std::vector<std::string> notes;
  const std::string file = folder_.write("f", "3 9 9\n1 0:1\n2 1:1\n3 2:1\n");
  EXPECT_EQ(read_rows(file, {}, 2, 2, notes).size(), 2U);
  EXPECT_EQ(read_rows(file, {}, 0, 2, notes).size(), 3U);
}

}  // namespace
}  // namespace truemax
