// Sizeless vectors (SVE, RVV) cannot stand in arrays; those machines use NEON or the scalar path here.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/blocks.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "weights/blocks.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using BlockTag = hn::CappedTag<float, kLanes>;
using BlockV = hn::Vec<BlockTag>;
constexpr std::size_t kBlockWidth = hn::MaxLanes(BlockTag());
constexpr std::size_t kBlockVectors = kLanes / kBlockWidth;

// Two or more sums side by side, so that additions do not wait for each other.
constexpr std::size_t kChains = kBlockVectors >= 4 ? 1 : 4 / kBlockVectors;

void score_block_here(const float* HWY_RESTRICT block, RowView x, float* HWY_RESTRICT z) {
  const BlockTag d;
  BlockV sum[kChains][kBlockVectors];
  for (auto& chain : sum)
    for (BlockV& v : chain) v = hn::Zero(d);
  const FeatureId* index = x.index.data();
  const float* value = x.value.data();
  const std::size_t length = x.index.size();
  std::size_t j = 0;
  for (; j + kChains <= length; j += kChains)
    for (std::size_t c = 0; c < kChains; ++c) {
      const BlockV factor = hn::Set(d, value[j + c]);
      const float* line = block + std::size_t{index[j + c]} * kLanes;
      for (std::size_t v = 0; v < kBlockVectors; ++v)
        sum[c][v] = hn::MulAdd(factor, hn::Load(d, line + v * kBlockWidth), sum[c][v]);
    }
  for (; j < length; ++j) {
    const BlockV factor = hn::Set(d, value[j]);
    const float* line = block + std::size_t{index[j]} * kLanes;
    for (std::size_t v = 0; v < kBlockVectors; ++v)
      sum[0][v] = hn::MulAdd(factor, hn::Load(d, line + v * kBlockWidth), sum[0][v]);
  }
  for (std::size_t step = kChains / 2; step > 0; step /= 2)
    for (std::size_t c = 0; c < step; ++c)
      for (std::size_t v = 0; v < kBlockVectors; ++v) sum[c][v] = hn::Add(sum[c][v], sum[c + step][v]);
  for (std::size_t v = 0; v < kBlockVectors; ++v) hn::StoreU(sum[0][v], d, z + v * kBlockWidth);
}

void add_block_here(float* HWY_RESTRICT block, RowView x, const float* HWY_RESTRICT c) {
  const BlockTag d;
  BlockV factor[kBlockVectors];
  for (std::size_t v = 0; v < kBlockVectors; ++v) factor[v] = hn::LoadU(d, c + v * kBlockWidth);
  for (std::size_t j = 0; j < x.index.size(); ++j) {
    const BlockV value = hn::Set(d, x.value[j]);
    float* line = block + std::size_t{x.index[j]} * kLanes;
    for (std::size_t v = 0; v < kBlockVectors; ++v)
      hn::Store(hn::MulAdd(value, factor[v], hn::Load(d, line + v * kBlockWidth)), d, line + v * kBlockWidth);
  }
}

void score_blocks_here(const Weights& w, RowView x, const std::uint32_t* blocks, std::size_t count,
                       float* HWY_RESTRICT z) {
  for (std::size_t i = 0; i < count; ++i) score_block_here(w.block(blocks[i]), x, z + i * kLanes);
}

void add_to_blocks_here(Weights& w, RowView x, const std::uint32_t* blocks, std::size_t count,
                        const float* HWY_RESTRICT c) {
  for (std::size_t i = 0; i < count; ++i) add_block_here(w.block(blocks[i]), x, c + i * kLanes);
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace truemax {
namespace {

HWY_EXPORT(score_blocks_here);
HWY_EXPORT(add_to_blocks_here);

// Classes of block b, without the padding of the last one.
std::size_t lanes_of(const Weights& w, std::uint32_t b) {
  return std::min(kLanes, w.classes() - std::size_t{b} * kLanes);
}

}  // namespace

void score_blocks(const Weights& w, RowView x, std::span<const std::uint32_t> blocks, float* z) {
  HWY_DYNAMIC_DISPATCH(score_blocks_here)(w, x, blocks.data(), blocks.size(), z);
  if (!w.scaled()) return;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (std::size_t lane = 0; lane < lanes_of(w, blocks[i]); ++lane)
      z[i * kLanes + lane] = static_cast<float>(w.scale(static_cast<ClassId>(blocks[i] * kLanes + lane)) *
                                                static_cast<double>(z[i * kLanes + lane]));
}

void add_to_blocks(Weights& w, RowView x, std::span<const std::uint32_t> blocks, const float* c) {
  if (!w.scaled()) {
    HWY_DYNAMIC_DISPATCH(add_to_blocks_here)(w, x, blocks.data(), blocks.size(), c);
    return;
  }
  alignas(64) float scaled[kLanes];
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::fill(scaled, scaled + kLanes, 0.0F);
    for (std::size_t lane = 0; lane < lanes_of(w, blocks[i]); ++lane)
      scaled[lane] = static_cast<float>(static_cast<double>(c[i * kLanes + lane]) /
                                        w.scale(static_cast<ClassId>(blocks[i] * kLanes + lane)));
    HWY_DYNAMIC_DISPATCH(add_to_blocks_here)(w, x, &blocks[i], 1, scaled);
  }
}

}  // namespace truemax
#endif  // HWY_ONCE
