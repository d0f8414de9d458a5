#include "weights/block_share.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace truemax {
namespace {

// Label masses of classes by falling frequency.
std::vector<double> falling(std::size_t classes, double power) {
  std::vector<double> mass(classes);
  for (std::size_t k = 0; k < classes; ++k) mass[k] = std::pow(static_cast<double>(k + 1), -power);
  return mass;
}

struct Case {
  std::size_t classes, ranks;
};

class Shares : public testing::TestWithParam<Case> {
 protected:
  std::vector<BlockShare> shares(double power = 1) const {
    const std::vector<double> mass = falling(GetParam().classes, power);
    std::vector<BlockShare> all;
    for (std::size_t r = 0; r < GetParam().ranks; ++r) all.emplace_back(mass, r, GetParam().ranks);
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(Sizes, Shares,
                         testing::Values(Case{1, 1}, Case{16, 1}, Case{100, 1}, Case{160, 2}, Case{161, 2},
                                         Case{175, 3}, Case{1000, 3}, Case{1023, 4}, Case{20, 4},
                                         Case{5, 3}));

TEST_P(Shares, EveryClassHasOneOwnerAndOneNumberThere) {
  const auto all = shares();
  for (ClassId k = 0; k < GetParam().classes; ++k) {
    std::size_t owners = 0;
    for (std::size_t r = 0; r < all.size(); ++r) {
      EXPECT_EQ(all[r].owner(k / kBlockClasses), all[0].owner(k / kBlockClasses));
      if (!all[r].owns_class(k)) continue;
      ++owners;
      const ClassId local = all[r].local_class(k);
      EXPECT_LT(local, all[r].classes());
      EXPECT_EQ(all[r].global_class(local), k);
      EXPECT_EQ(all[0].global(r, local / kBlockClasses), k / kBlockClasses);
    }
    EXPECT_EQ(owners, 1U);
  }
}

TEST_P(Shares, ClassesAndBlocksAddUp) {
  const auto all = shares();
  std::size_t classes = 0, blocks = 0, most = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    EXPECT_EQ(all[r].classes(), all[0].classes_of(r));
    EXPECT_EQ(all[r].blocks(), (all[r].classes() + kBlockClasses - 1) / kBlockClasses);
    classes += all[r].classes(), blocks += all[r].blocks(), most = std::max(most, all[r].classes());
  }
  EXPECT_EQ(classes, GetParam().classes);
  EXPECT_EQ(blocks, all[0].all_blocks());
  EXPECT_LE(most, BlockShare::most_classes(GetParam().classes, GetParam().ranks));
}

TEST_P(Shares, LocalBlocksAreInTheirOrder) {
  for (const BlockShare& share : shares())
    for (std::size_t b = 1; b < share.blocks(); ++b) EXPECT_LT(share.global(b - 1), share.global(b));
}

TEST_P(Shares, AnyHeadIsSpreadEvenly) {
  const auto all = shares();
  for (std::size_t head = 1; head <= all[0].all_blocks(); ++head) {
    std::vector<std::size_t> owned(all.size(), 0);
    for (std::size_t b = 0; b < head; ++b) ++owned[all[0].owner(b)];
    EXPECT_LE(*std::max_element(owned.begin(), owned.end()) - *std::min_element(owned.begin(), owned.end()),
              1U);
  }
}

TEST_P(Shares, LabelMassDiffersByAtMostTheHeaviestBlock) {
  for (const double power : {0.0, 0.5, 1.0, 2.0}) {
    const std::vector<double> mass = falling(GetParam().classes, power);
    std::vector<double> load(GetParam().ranks, 0.0);
    const BlockShare share(mass, 0, GetParam().ranks);
    for (std::size_t k = 0; k < mass.size(); ++k) load[share.owner(k / kBlockClasses)] += mass[k];
    const double heaviest =
        std::accumulate(mass.begin(), mass.begin() + std::min<std::ptrdiff_t>(16, std::ssize(mass)), 0.0);
    EXPECT_LE(*std::max_element(load.begin(), load.end()) - *std::min_element(load.begin(), load.end()),
              heaviest * (1 + 1e-12));
  }
}

}  // namespace
}  // namespace truemax
