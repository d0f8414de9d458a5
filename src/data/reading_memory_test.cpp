#include "data/reading_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/load.hpp"
#include "data/names.hpp"

#include "data/test_support.hpp"

namespace truemax {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kMega = std::uint64_t{1} << 20;

TEST(Grow, ChargesBeforeAllocating) {
  const auto budget = std::make_shared<MemoryBudget>(32 * kMega);
  MemoryCharge charge(budget);
  std::vector<std::uint64_t> v;
  try {
    while (true) {
      grow(v, 1, charge);
      ASSERT_EQ(charge.bytes(), v.capacity() * sizeof(v[0]));
      v.push_back(v.size());
    }
  } catch (const OverBudget&) {
    EXPECT_GT(v.size() * sizeof(v[0]), 16 * kMega) << "growing by half uses most of the budget";
    EXPECT_LE(v.capacity() * sizeof(v[0]), 32 * kMega);
  }
  for (std::size_t i = 0; i < v.size(); i += 1000) ASSERT_EQ(v[i], i);
}

TEST(NameTable, BoundsItsMemoryBeforeGrowing) {
  NameStore names;
  for (int i = 0; i < 100000; ++i) {
    const std::string name = "a name that does not stand in the string itself " + std::to_string(i);
    const std::uint64_t most = names.bytes_with(1, name.size() + 1);
    names.add(name);
    ASSERT_GE(most, names.bytes()) << i;
  }
  EXPECT_GE(names.bytes(), 100000 * (sizeof(std::string) + sizeof(std::uint64_t) + 2 * 16 + 50));
}

TEST(ReadingMemory, RowsStayChargedWhileAlive) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += "1 1:1 2:1\n";
  const TempFolder folder;
  const std::string file = folder.write("f", text);
  ReadOptions options;
  options.format = Format::libsvm;
  options.memory = std::make_shared<MemoryBudget>(100 * kMega);
  std::vector<std::string> notes;
  {
    const RawRows rows = read_rows(file, options, 0, 2, notes);
    EXPECT_GE(options.memory->held(), 10000U * (2 * 8 + 8 + 8 + 4));
    EXPECT_LE(options.memory->held(), 10000U * 100) << "windows and pieces were returned";
  }
  EXPECT_EQ(options.memory->held(), 0U);
}

TEST(ReadingMemory, RowsDoNotDependOnTheBudget) {
  std::string text;
  for (int i = 0; i < 30000; ++i)
    text += std::to_string(i % 50) + " " + std::to_string(1 + i % 9) + ":1 20:0.5\n";
  const TempFolder folder;
  const std::string file = folder.write("f", text);
  std::vector<std::string> notes;
  ReadOptions narrow, wide;
  narrow.format = wide.format = Format::libsvm;
  narrow.memory = std::make_shared<MemoryBudget>(1);
  const RawRows a = read_rows(file, narrow, 0, 8, notes), b = read_rows(file, wide, 0, 1, notes);
  EXPECT_EQ(a.rows.begin, b.rows.begin);
  EXPECT_EQ(a.rows.index, b.rows.index);
  EXPECT_EQ(a.rows.value, b.rows.value);
  EXPECT_EQ(a.label, b.label);
  EXPECT_EQ(a.label_names, b.label_names);
}

TEST(ReadingMemory, UnwantedFeaturesAreCountedNotStored) {
  const TempFolder folder;
  const std::string file = folder.write("f", "1 1:1 3:1 9:1\n2 2:1\n1 7:1 8:1\n");
  std::vector<std::string> notes;
  ReadOptions cut, whole;
  cut.format = whole.format = Format::libsvm;
  cut.max_features = 3;
  const RawRows rows = read_rows(file, cut, 0, 1, notes);
  EXPECT_THAT(rows.rows.index, ElementsAre(0, 2, 1));
  EXPECT_EQ(rows.cut_features, 3U);
  EXPECT_EQ(rows.features, 9U) << "the file has them";
  PreprocessOptions options;
  options.max_features = 3;
  const Dataset a = make_training_set(read_rows(file, cut, 0, 1, notes), options);
  const Dataset b = make_training_set(read_rows(file, whole, 0, 1, notes), options);
  EXPECT_EQ(a.rows.index, b.rows.index);
  EXPECT_EQ(a.rows.begin, b.rows.begin);
  EXPECT_EQ(a.statistics.cut_features, b.statistics.cut_features);
  EXPECT_EQ(a.statistics.rows_without_features, b.statistics.rows_without_features);
  EXPECT_EQ(a.space->file_features, b.space->file_features);
}

TEST(ReadingMemory, DuplicateLabelsOfALongRowAreDropped) {
  std::string text = "5";
  for (int i = 0; i < 500; ++i) text += "," + std::to_string((i * 37) % 200);
  const TempFolder folder;
  const std::string file = folder.write("f", text + " 1:1\n");
  std::vector<std::string> notes;
  ReadOptions options;
  options.format = Format::libsvm;
  const RawRows rows = read_rows(file, options, 0, 1, notes);
  std::vector<std::string> wanted{"5"};
  for (int i = 0; i < 500; ++i) {
    const std::string name = std::to_string((i * 37) % 200);
    if (std::find(wanted.begin(), wanted.end(), name) == wanted.end()) wanted.push_back(name);
  }
  std::vector<std::string> found;
  for (const std::uint32_t label : rows.label) found.push_back(rows.label_names[label]);
  EXPECT_EQ(found, wanted);
}

TEST(ReadingMemory, ErrorNamesLineLimitAndRemedy) {
  const OverBudget over(300 * kMega, 200 * kMega, true), free(300 * kMega, 200 * kMega, false);
  EXPECT_EQ(std::string(memory_error(over, "f", 7, "6 rows", "raise it").what()),
            "f:7: not enough memory to read on after 6 rows: needs 300 MB, --memory-limit is 200 MB; "
            "raise it");
  EXPECT_THAT(memory_error(free, "f", 7, "6 rows", "raise it").what(),
              HasSubstr("200 MB available; raise it"));
}

}  // namespace
}  // namespace truemax
