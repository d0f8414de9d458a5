#include "report/table.hpp"

#include <gtest/gtest.h>

#include <string>

namespace truemax {
namespace {

TEST(Table, AlignsFirstColumnLeftOthersRight) {
  Table table({"method", "loss", "seconds"});
  table.add({"implicit", "0.5", "12"});
  table.add({"umax", "10.25", "3"});
  EXPECT_EQ(table.to_text(),
            "method     loss  seconds\n"
            "--------  -----  -------\n"
            "implicit    0.5       12\n"
            "umax      10.25        3\n");
}

TEST(Table, WidthCountsCharactersNotBytes) {
  Table table({"name", "n"});
  table.add({"Zürich", "1"});
  table.add({"Ñandú", "1234"});
  table.add({"abcdef", "1"});
  EXPECT_EQ(table.to_text(),
            "name       n\n"
            "------  ----\n"
            "Zürich     1\n"
            "Ñandú   1234\n"
            "abcdef     1\n");
}

TEST(Table, HasNoTrailingBlanks) {
  Table table({"a", "wide header"});
  table.add({"short row"});
  table.add({"x", ""});
  table.add({});
  EXPECT_EQ(table.to_text(),
            "a          wide header\n"
            "---------  -----------\n"
            "short row\n"
            "x\n"
            "\n");
}

TEST(Table, AlignsTextColumnsLeft) {
  Table table({"a", "n", "words"}, {2});
  table.add({"x", "10", "one"});
  table.add({"y", "2", "one two"});
  EXPECT_EQ(table.to_text(),
            "a   n  words\n"
            "-  --  -------\n"
            "x  10  one\n"
            "y   2  one two\n");
}

TEST(Table, WithoutRowsIsItsHeader) {
  EXPECT_EQ(Table({"a", "bc"}).to_text(), "a  bc\n-  --\n");
}

TEST(Table, DropsCellsBeyondTheHeader) {
  Table table({"a", "b"});
  table.add({"1", "2", "3"});
  EXPECT_EQ(table.to_text(), "a  b\n-  -\n1  2\n");
}

}  // namespace
}  // namespace truemax
