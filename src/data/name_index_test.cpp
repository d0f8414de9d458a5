#include "data/name_index.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace truemax {
namespace {

TEST(NameIndex, FindsEveryNameAndNoOther) {
  for (const std::size_t count : {0, 1, 2, 3, 1000, 5000}) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i)
      names.push_back(std::to_string(i * 7919) + (i % 3 == 0 ? "x" : ""));
    NameIndex index;
    EXPECT_EQ(index.find(names, "absent"), NameIndex::kNone);
    EXPECT_FALSE(index.make(names));
    for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(index.find(names, names[i]), i);
    for (const char* other : {"", "absent", "7919x ", "-1"})
      EXPECT_EQ(index.find(names, other), NameIndex::kNone);
  }
}

TEST(NameIndex, SaysWhichNameComesTwice) {
  const std::vector<std::string> names{"a", "b", "", "b", "a", ""};
  NameIndex index;
  EXPECT_EQ(index.make(names), 3U);
  EXPECT_EQ(index.find(names, "b"), 1U);
  EXPECT_EQ(index.find(names, ""), 2U);
}

}  // namespace
}  // namespace truemax
