#include "train/block_growth.hpp"

#include <gtest/gtest.h>

namespace truemax {
namespace {

TEST(BlockGrowth, IsTheLargestSumOfABlockInAGroup) {
  BlockGrowth growth(3);
  growth.start_group();
  EXPECT_EQ(growth.largest(), 0);
  growth.add(0, 1);
  growth.add(2, 2.5);
  growth.add(0, 2);
  EXPECT_EQ(growth.largest(), 3);
  growth.start_group();
  EXPECT_EQ(growth.largest(), 0);
  growth.add(0, 0.5);
  growth.add(1, 0.25);
  EXPECT_EQ(growth.largest(), 0.5);
}

}  // namespace
}  // namespace truemax
