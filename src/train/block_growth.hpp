// By how much the numbers in memory of some blocks grow in one group. A number belongs to one block, so the
// largest sum of a block bounds the growth of all. One thread adds those of a block, in the order of the
// rows: the number of threads does not change the bits. (Blocks that are cut: GroupCuts.)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace truemax {

class BlockGrowth {
 public:
  explicit BlockGrowth(std::size_t blocks) : of_(blocks) {}

  static std::uint64_t bytes(std::size_t blocks) { return blocks * sizeof(Sum); }

  void start_group() { ++group_, largest_ = 0; }
  void add(std::size_t block, double growth) {
    Sum& sum = of_[block];
    if (sum.group != group_) sum = {0, group_};
    sum.growth += growth;
    largest_ = std::max(largest_, sum.growth);
  }
  double largest() const { return largest_; }

 private:
  struct Sum {
    double growth = 0;
    std::uint64_t group = 0;  // the last one that added to it
  };
  std::vector<Sum> of_;
  std::uint64_t group_ = 0;
  double largest_ = 0;
};

}  // namespace truemax
