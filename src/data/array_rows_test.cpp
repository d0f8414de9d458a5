// Rows from arrays: what stays in place, what is converted, and what is refused.
#include "data/array_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "data/data_view.hpp"
#include "data/load.hpp"

namespace truemax {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Arrays that a test can spoil.
struct Arrays {
  std::vector<std::int64_t> offsets{0, 2, 2, 3};
  std::vector<std::int32_t> indices{0, 3, 1};
  std::vector<float> values{1, -2, 0.5F};
  std::vector<std::int32_t> labels{1, 0, 0};
  std::vector<std::uint64_t> label_begin;
  std::vector<double> weights;
  std::vector<std::string> names{"b", "a"};
  std::vector<double> name_counts, name_weights;

  ArrayRows view(std::uint64_t columns = 4) const {
    ArrayRows a;
    a.rows = offsets.size() - 1, a.columns = columns;
    a.offsets = offsets.data(), a.indices = indices.data(), a.values = values.data();
    a.numbers = values.size();
    a.label = labels.empty() ? nullptr : labels.data();
    a.label_begin = label_begin.empty() ? nullptr : label_begin.data();
    a.weights = weights.empty() ? nullptr : weights.data();
    a.names = names, a.name_counts = name_counts, a.name_weights = name_weights;
    return a;
  }
};

RawRows raw_of(const ArrayRows& a, bool may_borrow = true) {
  return rows_of_arrays(a, may_borrow, nullptr);
}

std::string refusal(const ArrayRows& a) {
  try {
    raw_of(a);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::vector<std::pair<FeatureId, float>>> rows_in(CsrView rows) {
  std::vector<std::vector<std::pair<FeatureId, float>>> out;
  for (std::size_t r = 0; r < rows.rows(); ++r) {
    out.emplace_back();
    for (std::size_t j = 0; j < rows.row(r).index.size(); ++j)
      out.back().emplace_back(rows.row(r).index[j], rows.row(r).value[j]);
  }
  return out;
}

TEST(ArrayRows, SortedFloatsStayInPlaceUntilTheDataEnd) {
  const Arrays arrays;
  auto owner = std::make_shared<int>(0);
  ArrayRows a = arrays.view();
  a.owner = owner;
  std::optional<DataView> data = make_training_set(raw_of(a), {}, 0, "");
  a.owner.reset();
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_EQ(data->row_count(), 3U) << "a row of zeros is a row like others";
  EXPECT_EQ(data->statistics.rows_without_features, 1U);
  EXPECT_EQ(data->x(ExampleId{0}).value.data(), arrays.values.data());
  EXPECT_EQ(data->x(ExampleId{2}).value.data(), arrays.values.data() + 2);
  EXPECT_THAT(data->x(ExampleId{0}).index, ElementsAre(0, 3));
  data.reset();
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(ArrayRows, OptionsThatChangeValuesCopyThem) {
  const Arrays arrays;
  const RawRows raw = raw_of(arrays.view(), false);
  EXPECT_EQ(raw.rows.elsewhere, nullptr);
  EXPECT_EQ(rows_in(raw.rows.view()), rows_in(raw_of(arrays.view()).rows.view()));
}

TEST(ArrayRows, WhatCannotStayIsConverted) {
  const auto copied = [](const std::function<void(Arrays&)>& change) {
    Arrays arrays;
    change(arrays);
    const RawRows raw = raw_of(arrays.view());
    EXPECT_EQ(raw.rows.elsewhere, nullptr);
    return rows_in(raw.rows.view());
  };
  using Row = std::vector<std::pair<FeatureId, float>>;
  EXPECT_THAT(copied([](Arrays& a) {
                a.indices = {3, 0, 1};
              }),
              ElementsAre(Row{{0, -2}, {3, 1}}, Row{}, Row{{1, 0.5F}}));
  EXPECT_THAT(copied([](Arrays& a) {
                a.indices = {3, 3, 1};
              }),
              ElementsAre(Row{{3, -1}}, Row{}, Row{{1, 0.5F}}));
  EXPECT_THAT(copied([](Arrays& a) { a.values[0] = 0; }), ElementsAre(Row{{3, -2}}, Row{}, Row{{1, 0.5F}}));
  // A row of weight 0 or without a label is dropped, which would leave a gap.
  copied([](Arrays& a) { a.weights = {0, 1, 2}; });
  copied([](Arrays& a) { a.label_begin = {0, 0, 1, 2}; });
}

TEST(ArrayRows, AllTypesAndStridesGiveTheSameRows) {
  std::mt19937 random(1);
  const std::size_t rows = 20, columns = 7;
  std::vector<double> dense(rows * columns);
  for (double& v : dense) v = random() % 3 == 0 ? static_cast<float>(random() % 100) - 50 : 0;
  std::vector<float> floats(dense.begin(), dense.end());
  Csr csr;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c)
      if (floats[r * columns + c] != 0)
        csr.index.push_back(static_cast<FeatureId>(c)), csr.value.push_back(floats[r * columns + c]);
    csr.begin.push_back(csr.index.size());
  }
  const auto expected = rows_in(csr.view());
  const auto dense_of = [&](const void* values, NumberType type, std::int64_t down, std::int64_t right) {
    ArrayRows a;
    a.rows = rows, a.columns = columns, a.values = values, a.value_type = type;
    a.row_stride = down, a.column_stride = right;
    return rows_in(raw_of(a).rows.view());
  };
  EXPECT_EQ(dense_of(floats.data(), NumberType::float32, 28, 4), expected);
  EXPECT_EQ(dense_of(dense.data(), NumberType::float64, 56, 8), expected);
  std::vector<double> turned(dense.size());  // by column
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) turned[c * rows + r] = dense[r * columns + c];
  EXPECT_EQ(dense_of(turned.data(), NumberType::float64, 8, 8 * static_cast<std::int64_t>(rows)), expected);
  std::vector<double> backwards(dense.rbegin(), dense.rend());  // negative strides, as of a[::-1]
  EXPECT_EQ(dense_of(backwards.data() + backwards.size() - 1, NumberType::float64, -56, -8), expected);

  std::vector<std::int32_t> offsets32(csr.begin.begin(), csr.begin.end());
  std::vector<std::int64_t> offsets64(csr.begin.begin(), csr.begin.end()),
      indices64(csr.index.begin(), csr.index.end());
  std::vector<double> doubles(csr.value.begin(), csr.value.end());
  ArrayRows a;
  a.rows = rows, a.columns = columns, a.numbers = csr.nonzeros();
  a.offsets = offsets32.data(), a.offset_type = NumberType::int32;
  a.indices = indices64.data(), a.index_type = NumberType::int64;
  a.values = doubles.data(), a.value_type = NumberType::float64;
  EXPECT_EQ(rows_in(raw_of(a).rows.view()), expected);
  a.offsets = offsets64.data(), a.offset_type = NumberType::int64;
  a.values = csr.value.data(), a.value_type = NumberType::float32;
  const RawRows elsewhere = raw_of(a);
  EXPECT_EQ(elsewhere.rows.elsewhere, csr.value.data());
  EXPECT_EQ(rows_in(elsewhere.rows.view()), expected);
}

TEST(ArrayRows, EarlierCountsAndWeightsOfNamesMakeClasses) {
  Arrays arrays;
  arrays.names = {"b", "a", "c", "d"};
  arrays.name_counts = {0, 10, 5, 0};
  arrays.name_weights = {2, 1, 3, 1};
  const DataView data = make_training_set(raw_of(arrays.view()), {}, 0, "");
  EXPECT_THAT(data.classes->names(), ElementsAre("a", "c", "b")) << "d has no example, here or earlier";
  EXPECT_EQ(data.classes->count(0), 11);
  EXPECT_EQ(data.classes->count(1), 5);
  EXPECT_THAT(data.class_weights(), ElementsAre(1, 3, 2));
}

TEST(ArrayRows, RefusesBadArrays) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const auto said = [](const std::function<void(Arrays&)>& change) {
    Arrays arrays;
    change(arrays);
    return refusal(arrays.view());
  };
  EXPECT_THAT(said([&](Arrays& a) { a.values[1] = static_cast<float>(nan); }),
              HasSubstr("row 0, column 3 is NaN; values must be finite"));
  EXPECT_THAT(said([&](Arrays& a) { a.values[2] = static_cast<float>(-inf); }),
              HasSubstr("row 2, column 1 is -inf"));
  EXPECT_THAT(said([](Arrays& a) { a.indices[1] = 4; }), HasSubstr("row 0 has column 4; columns are 0 to 3"));
  EXPECT_THAT(said([](Arrays& a) { a.indices[2] = -1; }), HasSubstr("row 2 has column -1"));
  EXPECT_THAT(said([](Arrays& a) { a.offsets = {0, 3, 2, 3}; }), HasSubstr("offset 2 is 2"));
  EXPECT_THAT(said([](Arrays& a) { a.offsets = {1, 2, 2, 3}; }), HasSubstr("offset 0 is 1"));
  EXPECT_THAT(said([](Arrays& a) { a.offsets = {0, 2, 2, 4}; }), HasSubstr("offset 3 is 4"));
  EXPECT_THAT(said([](Arrays& a) { a.labels[2] = 2; }), HasSubstr("row 2 has label number 2"));
  EXPECT_THAT(said([](Arrays& a) { a.labels[0] = -1; }), HasSubstr("row 0 has label number -1"));
  EXPECT_THAT(said([](Arrays& a) {
                a.label_begin = {0, 2, 1, 3};
              }),
              HasSubstr("the labels of row 1 end at 1"));
  EXPECT_THAT(said([](Arrays& a) { a.names = {"a", "a"}; }), HasSubstr("the name 'a' is there twice"));
  EXPECT_THAT(said([](Arrays& a) { a.names[0] = "\xff"; }), HasSubstr("is not UTF-8"));
  EXPECT_THAT(said([](Arrays& a) { a.weights = {1, -1, 1}; }), HasSubstr("the weight of row 1 is -1"));
  EXPECT_THAT(said([&](Arrays& a) { a.weights = {1, nan, 1}; }), HasSubstr("the weight of row 1 is nan"));
  EXPECT_THAT(said([](Arrays& a) { a.weights = {0, 0, 0}; }), HasSubstr("all 3 have weight 0"));
  EXPECT_THAT(said([](Arrays& a) { a.name_weights = {1, 0}; }), HasSubstr("the weight of 'a' is 0"));
  EXPECT_THAT(said([&](Arrays& a) { a.name_counts = {inf, 0}; }), HasSubstr("the count of 'b' is inf"));

  ArrayRows a = Arrays().view(0);
  EXPECT_THAT(refusal(a), HasSubstr("there are 0 columns"));
  double large = 1e300;
  a = {};
  a.rows = a.columns = 1, a.values = &large, a.value_type = NumberType::float64;
  EXPECT_THAT(refusal(a), HasSubstr("values must fit into float32: scale them"));
  a.value_type = NumberType::int32;
  EXPECT_THAT(refusal(a), HasSubstr("give float32 or float64"));
}

TEST(ArrayRows, MemoryLimitIsKept) {
  const std::size_t rows = 4'000'000;
  const std::vector<double> dense(rows, 1.0);
  ArrayRows a;
  a.rows = rows, a.columns = 1, a.values = dense.data(), a.value_type = NumberType::float64;
  a.row_stride = a.column_stride = 8;
  try {
    rows_of_arrays(a, true, std::make_shared<MemoryBudget>(std::uint64_t{64} << 20));
    FAIL() << "128 MB of offsets, indices and values were granted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("not enough memory"));
  }
}

}  // namespace
}  // namespace truemax
