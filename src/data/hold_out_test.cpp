#include "data/hold_out.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "data/load.hpp"
#include "data/test_support.hpp"

namespace truemax {
namespace {

// Row r has the feature r: every row is known by its features.
Dataset many_rows(std::size_t rows, LabelRule labels, bool weights) {
  const TempFolder folder;
  std::string text = std::to_string(rows) + " " + std::to_string(rows) + " 9\n", weight;
  for (std::size_t r = 0; r < rows; ++r) {
    text += std::to_string(r % 7) + (r % 3 == 0 ? ",8" : "") + " " + std::to_string(r) + ":1\n";
    weight += std::to_string(1 + r % 5) + "\n";
  }
  ReadOptions read;
  if (weights) read.row_weights = folder.write("w.txt", weight);
  PreprocessOptions preprocess;
  preprocess.labels = labels;
  std::vector<std::string> notes;
  return make_training_set(read_rows(folder.write("d.txt", text), read, 0, 1, notes), preprocess);
}

// All examples: (feature of the row, label, weight, weight of the row, labels of the row).
std::multiset<std::tuple<FeatureId, ClassId, double, double, std::vector<ClassId>>> examples(
    const Dataset& data) {
  std::multiset<std::tuple<FeatureId, ClassId, double, double, std::vector<ClassId>>> all;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::size_t r = data.row_of(i);
    const auto labels = data.labels_of_row(r);
    all.insert({data.x(i).index[0], data.label[i], data.example_weight(i), data.weight_of_row(r),
                std::vector<ClassId>(labels.begin(), labels.end())});
  }
  return all;
}

// The same in the order of the data, which the visits of a run follow.
std::vector<std::tuple<FeatureId, ClassId, double, double>> in_order(const Dataset& data) {
  std::vector<std::tuple<FeatureId, ClassId, double, double>> all;
  for (std::size_t i = 0; i < data.size(); ++i)
    all.emplace_back(data.x(i).index[0], data.label[i], data.example_weight(i),
                     data.weight_of_row(data.row_of(i)));
  return all;
}

TEST(HoldOut, PartsAreWhatCopiesAre) {
  for (const LabelRule labels : {LabelRule::first, LabelRule::all})
    for (const bool weights : {false, true}) {
      const Dataset data = many_rows(300, labels, weights);
      Dataset rest = data;
      const Dataset valid = hold_out(rest, 0.2, 3);
      const RowSplit split = set_aside(data, 0.2, 3);
      const auto same = [](const Dataset& part, const Dataset& copy) {
        EXPECT_EQ(in_order(part), in_order(copy));
        EXPECT_EQ(examples(part), examples(copy));
        EXPECT_EQ(part.row_count(), copy.row_count());
        EXPECT_EQ(part.nonzeros_per_row(), copy.nonzeros_per_row());
        EXPECT_EQ(part.has_weights(), copy.has_weights());
        EXPECT_EQ(part.rows.bytes(), sizeof(std::uint64_t)) << "nothing large is copied";
      };
      same(split.rest, rest);
      same(split.valid, valid);
      EXPECT_EQ(split.valid.statistics.rows_in_file, 60U);
      same(sample_part(split.rest, 50, 4), sample_rows(rest, 50, 4));  // a part of a part
      same(sample_part(split.valid, 1000, 4), sample_rows(valid, 60, 4));
    }
}

TEST(HoldOut, EveryExampleIsOnOneSideAndARowsExamplesStayTogether) {
  for (const LabelRule labels : {LabelRule::first, LabelRule::all})
    for (const bool weights : {false, true}) {
      Dataset data = many_rows(200, labels, weights);
      const auto before = examples(data);
      const auto classes = data.classes;
      const auto space = data.space;
      const Dataset valid = hold_out(data, 0.1, 1);
      EXPECT_EQ(valid.rows.rows(), 20U);
      EXPECT_EQ(data.rows.rows(), 180U);
      EXPECT_EQ(valid.classes, classes);
      EXPECT_EQ(data.classes, classes);
      EXPECT_EQ(valid.space, space);
      auto both = examples(data);
      std::set<FeatureId> trained;
      for (const auto& e : both) trained.insert(std::get<0>(e));
      for (const auto& e : examples(valid)) EXPECT_EQ(trained.count(std::get<0>(e)), 0U);
      both.merge(examples(valid));
      EXPECT_EQ(both, before);
    }
}

TEST(HoldOut, KeepsTheExamplesWhoseLabelsTheOthersHave) {
  for (const LabelRule labels : {LabelRule::first, LabelRule::all}) {
    const Dataset data = many_rows(50, labels, true);
    const Dataset few = sample_part(data, 3, 1), part = sample_part(data, 30, 2);
    const std::set<ClassId> known(few.label.begin(), few.label.end());
    const Dataset kept = with_labels_of(part, few);
    std::size_t at = 0;
    std::set<RowId> rows;
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (!known.contains(part.label[i])) continue;
      ASSERT_LT(at, kept.size());
      EXPECT_EQ(kept.label[at], part.label[i]);
      EXPECT_EQ(kept.row_of(at), part.row_of(i));
      EXPECT_EQ(kept.example_weight(at), part.example_weight(i));
      rows.insert(static_cast<RowId>(kept.row_of(at)));
      ++at;
    }
    EXPECT_EQ(at, kept.size());
    EXPECT_LT(kept.size(), part.size());
    EXPECT_EQ(kept.part, std::vector<RowId>(rows.begin(), rows.end()));
    EXPECT_EQ(with_labels_of(part, data).label, part.label) << "all labels are known";
    Dataset none = few;
    none.label.clear();
    EXPECT_EQ(with_labels_of(part, none).label, part.label) << "nothing would be left";
  }
}

TEST(HoldOut, IsTheSameForASeedAndAnotherForAnother) {
  const auto held = [](std::uint64_t seed, double share) {
    Dataset data = many_rows(100, LabelRule::first, false);
    std::set<FeatureId> rows;
    const Dataset valid = hold_out(data, share, seed);
    for (std::size_t i = 0; i < valid.size(); ++i) rows.insert(valid.x(i).index[0]);
    return rows;
  };
  EXPECT_EQ(held(1, 0.3), held(1, 0.3));
  EXPECT_NE(held(1, 0.3), held(2, 0.3));
  const auto few = held(1, 0.1), many = held(1, 0.5);
  EXPECT_TRUE(std::includes(many.begin(), many.end(), few.begin(), few.end()));
}

// Every row is held out about as often as any other: 3,000 seeds of probability 0.2, five standard
// deviations, 50 rows: a false alarm in 35,000 such tests.
TEST(HoldOut, HoldsEveryRowOutEquallyOften) {
  std::map<FeatureId, int> times;
  const Dataset all = many_rows(50, LabelRule::first, false);
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Dataset data = all;
    const Dataset valid = hold_out(data, 0.2, seed);
    for (std::size_t i = 0; i < valid.size(); ++i) ++times[valid.x(i).index[0]];
  }
  ASSERT_EQ(times.size(), 50U);
  for (const auto& [row, count] : times) EXPECT_NEAR(count, 600, 5 * 21.9) << row;
}

TEST(HoldOut, RefusesToLeaveOneSideEmpty) {
  Dataset data = many_rows(20, LabelRule::first, false);
  EXPECT_NE(error_of([&] { hold_out(data, 0.02, 1); })
                .find("--valid-share 0.02: of 20 rows this leaves none to"
                      " validate on"),
            std::string::npos);
  EXPECT_EQ(data.size(), 20U);
  EXPECT_NE(error_of([&] { hold_out(data, 0.99, 1); }).find("none to train on"), std::string::npos);
}

}  // namespace
}  // namespace truemax
