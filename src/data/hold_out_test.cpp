#include "data/hold_out.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "data/content_hash.hpp"
#include "data/load.hpp"
#include "data/test_access.hpp"
#include "data/test_support.hpp"

namespace truemax {
namespace {

// Row r has the feature r, which identifies it.
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

// Of a row: its feature, its weight and its labels.
using Row = std::tuple<FeatureId, double, std::vector<ClassId>>;

std::vector<Row> rows_of(const DataView& data) {
  std::vector<Row> all;
  Csr scratch;
  for (std::size_t first = 0; first < data.row_count();) {
    const RowSlice slice = data.slice(first, 11, scratch);
    EXPECT_GT(slice.rows(), 0U);
    for (std::size_t r = 0; r < slice.rows(); ++r)
      all.emplace_back(slice.x().row(r).index[0], slice.weight(r),
                       std::vector<ClassId>(slice.labels(r).begin(), slice.labels(r).end()));
    first += slice.rows();
  }
  return all;
}

// The examples in the order in which training visits them: feature of the row, label, weight.
using Example = std::tuple<FeatureId, ClassId, double>;

std::vector<Example> examples_of(const DataView& data) {
  std::vector<Example> all;
  for (const ExampleId i : data.examples())
    all.emplace_back(data.x(i).index[0], data.label(i), data.weight(i));
  return all;
}

template <class T>
std::multiset<T> in_any_order(std::vector<T> all, const std::vector<T>& more = {}) {
  std::multiset<T> set(all.begin(), all.end());
  set.insert(more.begin(), more.end());
  return set;
}

// Slices and examples of a view equal those of a copy of its rows.
TEST(DataView, SubsetMatchesACopy) {
  for (const LabelRule labels : {LabelRule::first, LabelRule::all})
    for (const bool weights : {false, true}) {
      const DataView data = many_rows(300, labels, weights);
      const RowSplit split = set_aside(data, 0.2, 3);
      const DataView of_rest = sample_part(split.rest, 50, 4);  // a part of a part
      for (const DataView& part : {split.rest, split.valid, of_rest, sample_part(split.valid, 1000, 4)}) {
        const DataView copy = copy_of(part, labels == LabelRule::all);
        EXPECT_EQ(examples_of(part), examples_of(copy));
        EXPECT_EQ(rows_of(part), rows_of(copy));
        EXPECT_EQ(part.row_count(), copy.row_count());
        EXPECT_EQ(part.nonzeros(), copy.nonzeros());
        EXPECT_EQ(part.has_weights(), copy.has_weights());
        EXPECT_EQ(content_hash(part, 2), content_hash(copy, 1));
        EXPECT_TRUE(part.shares_rows_with(data)) << "nothing large is copied";
      }
      EXPECT_EQ(split.valid.statistics.rows_in_file, 60U);
      EXPECT_EQ(split.rest.statistics.rows_in_file, 300U);
      EXPECT_EQ(of_rest.row_count(), 50U);
    }
}

TEST(DataView, OutlivesItsDataset) {
  DataView part;
  {
    const DataView data = many_rows(40, LabelRule::all, true);
    part = sample_part(data, 10, 1);
  }
  EXPECT_EQ(rows_of(part).size(), 10U);
  EXPECT_GE(examples_of(part).size(), 10U);
}

TEST(DataView, CountsSharedRowsOnce) {
  const DataView data = many_rows(300, LabelRule::first, false);
  const RowSplit split = set_aside(data, 0.2, 3);
  const DataView* const both[] = {&split.rest, &split.valid};
  const DataView* const one[] = {&data};
  EXPECT_EQ(bytes_of(both), bytes_of(one) + split.rest.own_bytes() + split.valid.own_bytes());
  EXPECT_EQ(split.valid.own_bytes(), 60 * 3 * sizeof(std::uint32_t));
}

TEST(HoldOut, PartitionsExamplesByRow) {
  for (const LabelRule labels : {LabelRule::first, LabelRule::all})
    for (const bool weights : {false, true}) {
      const DataView data = many_rows(200, labels, weights);
      const auto [rest, valid] = set_aside(data, 0.1, 1);
      EXPECT_EQ(valid.row_count(), 20U);
      EXPECT_EQ(rest.row_count(), 180U);
      EXPECT_EQ(valid.classes, data.classes);
      EXPECT_EQ(rest.classes, data.classes);
      EXPECT_EQ(valid.space, data.space);
      std::set<FeatureId> trained;
      for (const Example& e : examples_of(rest)) trained.insert(std::get<0>(e));
      for (const Example& e : examples_of(valid)) EXPECT_EQ(trained.count(std::get<0>(e)), 0U);
      EXPECT_EQ(in_any_order(examples_of(rest), examples_of(valid)), in_any_order(examples_of(data)));
      EXPECT_EQ(in_any_order(rows_of(rest), rows_of(valid)), in_any_order(rows_of(data)));
    }
}

TEST(HoldOut, KeepsOnlyExamplesWithKnownLabels) {
  for (const LabelRule labels : {LabelRule::first, LabelRule::all}) {
    const DataView data = many_rows(50, labels, true);
    const DataView few = sample_part(data, 3, 1), part = sample_part(data, 30, 2);
    const std::set<ClassId> known(few.labels().begin(), few.labels().end());
    const DataView kept = with_labels_of(part, few);
    std::vector<Example> wanted;
    std::set<FeatureId> rows;
    for (const Example& e : examples_of(part))
      if (known.contains(std::get<1>(e))) wanted.push_back(e), rows.insert(std::get<0>(e));
    EXPECT_EQ(examples_of(kept), wanted);
    EXPECT_LT(kept.size(), part.size());
    EXPECT_EQ(kept.row_count(), rows.size());
    EXPECT_EQ(examples_of(with_labels_of(part, data)), examples_of(part)) << "all labels are known";
    const DataView none = few.examples_where([](ExampleId) { return false; });
    EXPECT_EQ(examples_of(with_labels_of(part, none)), examples_of(part)) << "nothing would be left";
  }
}

TEST(HoldOut, IsDeterministicForASeed) {
  const auto held = [](std::uint64_t seed, double share) {
    const DataView data = many_rows(100, LabelRule::first, false);
    std::set<FeatureId> rows;
    for (const Example& e : examples_of(set_aside(data, share, seed).valid)) rows.insert(std::get<0>(e));
    return rows;
  };
  EXPECT_EQ(held(1, 0.3), held(1, 0.3));
  EXPECT_NE(held(1, 0.3), held(2, 0.3));
  const auto few = held(1, 0.1), many = held(1, 0.5);
  EXPECT_TRUE(std::includes(many.begin(), many.end(), few.begin(), few.end()));
}

// Every row is held out about equally often: 3,000 seeds of probability 0.2, five standard deviations, 50
// rows: a false alarm in 35,000 such tests.
TEST(HoldOut, HoldsOutEveryRowEquallyOften) {
  std::map<FeatureId, int> times;
  const DataView all = many_rows(50, LabelRule::first, false);
  for (std::uint64_t seed = 0; seed < 3000; ++seed)
    for (const Example& e : examples_of(set_aside(all, 0.2, seed).valid)) ++times[std::get<0>(e)];
  ASSERT_EQ(times.size(), 50U);
  for (const auto& [row, count] : times) EXPECT_NEAR(count, 600, 5 * 21.9) << row;
}

TEST(HoldOut, RefusesAnEmptySide) {
  const DataView data = many_rows(20, LabelRule::first, false);
  EXPECT_NE(error_of([&] { set_aside(data, 0.02, 1); })
                .find("--valid-share 0.02: of 20 rows this leaves none to"
                      " validate on"),
            std::string::npos);
  EXPECT_EQ(data.size(), 20U);
  EXPECT_NE(error_of([&] { set_aside(data, 0.99, 1); }).find("none to train on"), std::string::npos);
}

}  // namespace
}  // namespace truemax
