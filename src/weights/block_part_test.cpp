// Parts of a block that share its features, each with a copy of the scales: together they have the bits of
// the whole block.
#include "weights/block_part.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "weights/blocks.hpp"
#include "weights/test_support.hpp"

namespace truemax {
namespace {

constexpr std::size_t kPartClasses = 23, kPartFeatures = 50;  // the last block has 7 classes

RowView features_of(const RowView& x, std::size_t from, std::size_t end) {
  std::size_t first = 0, last = 0;
  while (first < x.index.size() && x.index[first] < from) ++first;
  for (last = first; last < x.index.size() && x.index[last] < end;) ++last;
  return {x.index.subspan(first, last - first), x.value.subspan(first, last - first)};
}

// `alike`: all lanes start with the same scale. `fold`: before every step that many steps apart.
void compare_parts(std::uint32_t block, bool alike, double common, double factor, std::size_t fold) {
  Engine random(3);
  Weights whole = random_weights(random, kPartClasses, kPartFeatures, false, 1);
  whole.allow_scaling();
  if (!alike)
    for (ClassId k = 0; k < kPartClasses; ++k) whole.scale_class(k, 1.0 / (1 + k));
  whole.set_common_scale(common);
  Weights shared(kPartClasses, kPartFeatures, false);
  std::copy(whole.memory().begin(), whole.memory().end(), shared.memory().begin());
  shared.set_scales(whole.scales());
  const std::vector<std::size_t> ends{1, 20, 20, kPartFeatures + 100};  // one is empty, one beyond the last
  std::vector<BlockPart> parts;
  for (std::size_t p = 0; p < ends.size(); ++p) parts.emplace_back(block, p == 0 ? 0 : ends[p - 1], ends[p]);
  for (BlockPart& part : parts) part.start(shared);
  const Csr rows = random_rows(random, 60, kPartFeatures, 20, 1);
  for (std::size_t t = 0; t < rows.rows(); ++t) {
    const RowView x = rows.row(t);
    std::vector<float> c(kLanes, 0.0F);
    for (std::size_t lane = 0; lane < std::min(kLanes, kPartClasses - block * kLanes); ++lane)
      c[lane] = static_cast<float>(lane + t) / 7 - 3;
    for (const BlockPart& part : parts) ASSERT_EQ(part.least_scale(shared), whole.least_scale(block)) << t;
    if (t % fold == fold - 1) whole.fold_block(block);
    add_to_blocks(whole, x, {&block, 1}, c.data());
    whole.scale_block(block, factor);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (t % fold == fold - 1) parts[p].fold(shared);
      parts[p].add(shared, features_of(x, p == 0 ? 0 : ends[p - 1], ends[p]), c.data());
      parts[p].scale(shared, factor);
    }
  }
  for (BlockPart& part : parts) part.make_adds(shared);
  parts[0].finish(shared);
  EXPECT_EQ(shared.scales().of_class, whole.scales().of_class);
  for (std::size_t i = 0; i < whole.memory().size(); ++i)
    ASSERT_EQ(shared.memory()[i], whole.memory()[i]) << i;
}

TEST(BlockPart, PartsHaveTheBitsOfTheBlock) {
  for (const std::uint32_t block : {0U, 1U})
    for (const bool alike : {false, true})
      for (const double common : {1.0, 0.25})
        for (const double factor : {1.0, 0.9, 1e-4})  // the last multiplies scales into memory by itself
          for (const std::size_t fold : {7U, 1000U}) compare_parts(block, alike, common, factor, fold);
}

}  // namespace
}  // namespace truemax
