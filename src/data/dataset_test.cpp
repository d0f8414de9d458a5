#include "data/dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "data/names.hpp"

namespace truemax {
namespace {

using ::testing::ElementsAre;

TEST(NameLess, SortsNumbersByValueBeforeWords) {
  const std::vector<std::string> sorted{
      "-100", "-20", "-3", "0",   "7",  "20", "100", "99999999999999999999999",
      "",     "-",   "-x", "1.5", "2x", "a",  "b"};
  for (std::size_t i = 0; i < sorted.size(); ++i)
    for (std::size_t j = 0; j < sorted.size(); ++j)
      EXPECT_EQ(name_less(sorted[i], sorted[j]), i < j) << sorted[i] << " " << sorted[j];
}

TEST(NameLess, IsStrictForTwoFormsOfOneNumber) {
  EXPECT_NE(name_less("7", "007"), name_less("007", "7"));
  EXPECT_FALSE(name_less("7", "7"));
}

TEST(ClassList, IsSortedByCountThenName) {
  const ClassList classes({"10", "9", "x", "b"}, {2, 2, 5, 2});
  EXPECT_EQ(classes.name(0), "x");
  EXPECT_EQ(classes.name(1), "9");
  EXPECT_EQ(classes.name(2), "10");
  EXPECT_EQ(classes.name(3), "b");
  EXPECT_EQ(classes.count(0), 5.0);
  for (ClassId k = 0; k < 4; ++k) EXPECT_EQ(classes.find(classes.name(k)), k);
  EXPECT_EQ(classes.find("11"), kUnseenClass);
  EXPECT_THAT(classes.by_name(), ElementsAre(1, 2, 3, 0));
}

TEST(NameTable, NumbersNamesByFirstOccurrence) {
  NameStore names;
  std::map<std::string, std::uint32_t> oracle;
  std::mt19937 random(3);
  for (int i = 0; i < 50000; ++i) {
    std::string name(random() % 20, 'a');
    for (char& c : name) c = static_cast<char>('a' + random() % 3);
    const auto expected = oracle.emplace(name, static_cast<std::uint32_t>(oracle.size())).first->second;
    ASSERT_EQ(names.add(name), expected);
    ASSERT_EQ(names[expected], name);
  }
  EXPECT_EQ(names.size(), oracle.size());
  for (const auto& [name, number] : oracle) ASSERT_EQ(names.find(name), number);
  EXPECT_EQ(names.find("no such name"), NameStore::kNone);
}

}  // namespace
}  // namespace truemax
