// Sizeless vectors (SVE, RVV) cannot be stored in arrays; those machines use NEON or the scalar path here.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/blocks.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <type_traits>

#include "weights/blocks.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using BlockTag = hn::CappedTag<float, kLanes>;
using BlockV = hn::Vec<BlockTag>;
constexpr std::size_t kBlockWidth = hn::MaxLanes(BlockTag());
constexpr std::size_t kBlockVectors = kLanes / kBlockWidth;

// Blocks processed side by side: the row is read once for all of them, and their additions are independent.
constexpr std::size_t kSideBySide = 4;
// Partial sums per block, for the same reason: enough to keep the adders busy with few blocks, but no more
// than there are registers.
template <std::size_t kBlocks>
constexpr std::size_t kSums = kBlockVectors* kBlocks >= 8   ? 1
                              : kBlockVectors* kBlocks >= 3 ? 2
                                                            : 4;

template <std::size_t kBlocks, std::size_t kChains>
void score_some(const float* const* block, RowView x, float* HWY_RESTRICT z) {
  const BlockTag d;
  BlockV sum[kChains][kBlocks][kBlockVectors];
  for (auto& chain : sum)
    for (auto& of_block : chain)
      for (BlockV& v : of_block) v = hn::Zero(d);
  const FeatureId* HWY_RESTRICT index = x.index.data();
  const float* HWY_RESTRICT value = x.value.data();
  const std::size_t length = x.index.size();
  const auto add = [&](std::size_t chain, std::size_t j) HWY_ATTR {
    const BlockV factor = hn::Set(d, value[j]);
    const std::size_t line = std::size_t{index[j]} * kLanes;
    for (std::size_t b = 0; b < kBlocks; ++b)
      for (std::size_t v = 0; v < kBlockVectors; ++v)
        sum[chain][b][v] =
            hn::MulAdd(factor, hn::Load(d, block[b] + line + v * kBlockWidth), sum[chain][b][v]);
  };
  std::size_t j = 0;
  for (; j + kChains <= length; j += kChains)
    for (std::size_t c = 0; c < kChains; ++c) add(c, j + c);
  for (; j < length; ++j) add(0, j);
  for (std::size_t step = kChains / 2; step > 0; step /= 2)
    for (std::size_t c = 0; c < step; ++c)
      for (std::size_t b = 0; b < kBlocks; ++b)
        for (std::size_t v = 0; v < kBlockVectors; ++v)
          sum[c][b][v] = hn::Add(sum[c][b][v], sum[c + step][b][v]);
  for (std::size_t b = 0; b < kBlocks; ++b)
    for (std::size_t v = 0; v < kBlockVectors; ++v)
      hn::StoreU(sum[0][b][v], d, z + b * kLanes + v * kBlockWidth);
}

template <std::size_t kBlocks>
void add_some(float* const* block, RowView x, const float* HWY_RESTRICT c) {
  const BlockTag d;
  BlockV factor[kBlocks][kBlockVectors];
  for (std::size_t b = 0; b < kBlocks; ++b)
    for (std::size_t v = 0; v < kBlockVectors; ++v)
      factor[b][v] = hn::LoadU(d, c + b * kLanes + v * kBlockWidth);
  for (std::size_t j = 0; j < x.index.size(); ++j) {
    const BlockV value = hn::Set(d, x.value[j]);
    const std::size_t line = std::size_t{x.index[j]} * kLanes;
    for (std::size_t b = 0; b < kBlocks; ++b)
      for (std::size_t v = 0; v < kBlockVectors; ++v) {
        float* HWY_RESTRICT at = block[b] + line + v * kBlockWidth;
        hn::Store(hn::MulAdd(value, factor[b][v], hn::Load(d, at)), d, at);
      }
  }
}

// Up to kMost blocks side by side, with kChains partial sums each; 0: as many as suit their number.
template <std::size_t kMost, std::size_t kChains>
void score_in_turn(const Weights& w, RowView x, const std::uint32_t* blocks, std::size_t count,
                   float* HWY_RESTRICT z) {
  const float* block[kMost];
  const auto score = [&]<std::size_t kNow>(std::integral_constant<std::size_t, kNow> /*now*/)
                         HWY_ATTR { score_some<kNow, kChains == 0 ? kSums<kNow> : kChains>(block, x, z); };
  while (count > 0) {
    const std::size_t now = count < kMost ? count : kMost;
    for (std::size_t i = 0; i < now; ++i) block[i] = w.block(blocks[i]);
    if (now == 1) score(std::integral_constant<std::size_t, 1>());
    if (now == 2) score(std::integral_constant<std::size_t, 2>());
    if constexpr (kMost > 2) {
      if (now == 3) score(std::integral_constant<std::size_t, 3>());
      if (now == 4) score(std::integral_constant<std::size_t, 4>());
    }
    blocks += now, z += now * kLanes, count -= now;
  }
}

void score_blocks_here(const Weights& w, RowView x, const std::uint32_t* blocks, std::size_t count,
                       float* HWY_RESTRICT z) {
  score_in_turn<kSideBySide, 0>(w, x, blocks, count, z);
}

void score_each_block_here(const Weights& w, RowView x, const std::uint32_t* blocks, std::size_t count,
                           float* HWY_RESTRICT z) {
  constexpr std::size_t kMost = kBlockVectors == 1 ? kSideBySide : 2;  // sums in registers
  score_in_turn<kMost, 2>(w, x, blocks, count, z);
}

void add_to_blocks_here(Weights& w, RowView x, const std::uint32_t* blocks, std::size_t count,
                        const float* HWY_RESTRICT c) {
  while (count > 0) {
    float* block[kSideBySide];
    const std::size_t now = count < kSideBySide ? count : kSideBySide;
    for (std::size_t i = 0; i < now; ++i) block[i] = w.block(blocks[i]);
    switch (now) {
      case 1:
        add_some<1>(block, x, c);
        break;
      case 2:
        add_some<2>(block, x, c);
        break;
      case 3:
        add_some<3>(block, x, c);
        break;
      default:
        add_some<4>(block, x, c);
    }
    blocks += now, c += now * kLanes, count -= now;
  }
}

using DoubleTag = hn::CappedTag<double, kLanes / 2>;
using DoubleV = hn::Vec<DoubleTag>;

// to[lane] = operation(lane, from[lane]) in double, for all lanes of a block.
template <class Operation>
HWY_INLINE void each_lane(const float* from, float* to, const Operation& operation) {
  const DoubleTag d;
  const hn::Rebind<float, DoubleTag> df;
  for (std::size_t lane = 0; lane < kLanes; lane += hn::Lanes(d))
    hn::StoreU(hn::DemoteTo(df, operation(lane, hn::PromoteTo(d, hn::LoadU(df, from + lane)))), df,
               to + lane);
}

// Scales are common own[lane].
HWY_INLINE DoubleV scales_from(std::size_t lane, const double* own, double common) {
  const DoubleTag d;
  return hn::Mul(hn::Set(d, common), hn::LoadU(d, own + lane));
}

void multiply_by_scales_here(const float* from, const double* own, double common, float* to) {
  each_lane(from, to,
            [&](std::size_t lane, DoubleV z) HWY_ATTR { return hn::Mul(z, scales_from(lane, own, common)); });
}

void divide_by_scales_here(const float* from, const double* own, double common, float* to) {
  each_lane(from, to,
            [&](std::size_t lane, DoubleV c) HWY_ATTR { return hn::Div(c, scales_from(lane, own, common)); });
}

void divide_by_scale_here(const float* from, double scale, float* to) {
  each_lane(from, to, [&](std::size_t /*lane*/, DoubleV c) HWY_ATTR {
    return hn::Div(c, hn::Set(DoubleTag(), scale));
  });
}

// How many tasks ahead rows are prefetched, and then lines of W and the numbers beside them. Those may be in
// the cache of another core.
constexpr std::size_t kRowsAhead = 16, kLinesAhead = 8;

// take(i) for every task, with what later ones need under way. ask(i): for lines and numbers of task i.
template <class Ask, class Take>
HWY_INLINE void in_turn(const BlockTask* tasks, std::size_t count, const Ask& ask, const Take& take) {
  // Not its last line as prefetch_row() does: parts of rows are short, and it lost.
  const auto ask_for_row = [&](std::size_t i) HWY_ATTR {
    constexpr std::size_t kPerLine = 16;
    if (i >= count) return;
    for (std::size_t j = 0; j < tasks[i].count; j += kPerLine) {
      __builtin_prefetch(tasks[i].index + j);
      __builtin_prefetch(tasks[i].value + j);
    }
  };
  for (std::size_t i = 0; i < kRowsAhead; ++i) ask_for_row(i);
  for (std::size_t i = 0; i < kLinesAhead && i < count; ++i) ask(i);
  for (std::size_t i = 0; i < count; ++i) {
    ask_for_row(i + kRowsAhead);
    if (i + kLinesAhead < count) ask(i + kLinesAhead);
    take(i);
  }
}

// Without the scales of a last block that is not whole.
void score_tasks_here(const Weights& w, const BlockTask* tasks, std::size_t count, bool far) {
  const auto ask = [&](std::size_t i) HWY_ATTR {
    const BlockTask& task = tasks[i];
    prefetch_to_write(task.numbers);
    w.prefetch_scales(task.block);
    const float* const from = w.block(task.block);
    for (std::size_t j = 0; far && j < task.count; ++j)
      __builtin_prefetch(from + std::size_t{task.index[j]} * kLanes, 0, 2);
  };
  in_turn(tasks, count, ask, [&](std::size_t i) HWY_ATTR {
    const float* const from = w.block(tasks[i].block);
    score_some<1, 2>(&from, tasks[i].x(), tasks[i].numbers);
    if (w.scaled() && (tasks[i].block + 1) * kLanes <= w.classes())
      multiply_by_scales_here(tasks[i].numbers, w.own_scales(tasks[i].block), w.common_scale(),
                              tasks[i].numbers);
  });
}

// scales: null, or one of each task, by which its numbers are divided.
void add_tasks_to_memory_here(Weights& w, const BlockTask* tasks, std::size_t count, bool shared,
                              const double* scales) {
  const auto ask = [&](std::size_t i) HWY_ATTR {
    const BlockTask& task = tasks[i];
    __builtin_prefetch(task.numbers);
    const float* const from = w.block(task.block);
    for (std::size_t j = 0; shared && j < task.count; ++j)
      prefetch_to_write(from + std::size_t{task.index[j]} * kLanes);
  };
  in_turn(tasks, count, ask, [&](std::size_t i) HWY_ATTR {
    float* const to = w.block(tasks[i].block);
    if (scales == nullptr) return add_some<1>(&to, tasks[i].x(), tasks[i].numbers);
    alignas(64) float scaled[kLanes];
    divide_by_scale_here(tasks[i].numbers, scales[i], scaled);
    add_some<1>(&to, tasks[i].x(), scaled);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace truemax {
namespace {

HWY_EXPORT(score_blocks_here);
HWY_EXPORT(score_each_block_here);
HWY_EXPORT(add_to_blocks_here);
HWY_EXPORT(score_tasks_here);
HWY_EXPORT(add_tasks_to_memory_here);
HWY_EXPORT(multiply_by_scales_here);
HWY_EXPORT(divide_by_scales_here);
HWY_EXPORT(divide_by_scale_here);

// Number of classes in block b, without the padding of the last one.
std::size_t lanes_of(const Weights& w, std::uint32_t b) {
  return std::min(kLanes, w.classes() - std::size_t{b} * kLanes);
}

}  // namespace

void multiply_by_scales(const Weights& w, std::span<const std::uint32_t> blocks, float* z) {
  if (!w.scaled()) return;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    float* const of_block = z + i * kLanes;
    if (lanes_of(w, blocks[i]) == kLanes) {
      HWY_DYNAMIC_DISPATCH(multiply_by_scales_here)
      (of_block, w.own_scales(blocks[i]), w.common_scale(), of_block);
      continue;
    }
    for (std::size_t lane = 0; lane < lanes_of(w, blocks[i]); ++lane)
      of_block[lane] = static_cast<float>(w.scale(static_cast<ClassId>(blocks[i] * kLanes + lane)) *
                                          static_cast<double>(of_block[lane]));
  }
}

void score_blocks(const Weights& w, RowView x, std::span<const std::uint32_t> blocks, float* z) {
  HWY_DYNAMIC_DISPATCH(score_blocks_here)(w, x, blocks.data(), blocks.size(), z);
  multiply_by_scales(w, blocks, z);
}

void score_each_block(const Weights& w, RowView x, std::span<const std::uint32_t> blocks, float* z) {
  HWY_DYNAMIC_DISPATCH(score_each_block_here)(w, x, blocks.data(), blocks.size(), z);
  multiply_by_scales(w, blocks, z);
}

void add_to_memory(Weights& w, RowView x, std::span<const std::uint32_t> blocks, const float* c) {
  HWY_DYNAMIC_DISPATCH(add_to_blocks_here)(w, x, blocks.data(), blocks.size(), c);
}

void add_to_blocks(Weights& w, RowView x, std::span<const std::uint32_t> blocks, const float* c) {
  if (!w.scaled()) {
    add_to_memory(w, x, blocks, c);
    return;
  }
  alignas(64) float scaled[kLanes];
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    divide_by_scales(w, blocks[i], c + i * kLanes, scaled);
    add_to_memory(w, x, {&blocks[i], 1}, scaled);
  }
}

void divide_by_scales(const Weights& w, std::uint32_t block, const float* c, float* to) {
  if (lanes_of(w, block) == kLanes) {
    HWY_DYNAMIC_DISPATCH(divide_by_scales_here)(c, w.own_scales(block), w.common_scale(), to);
    return;
  }
  std::fill(to, to + kLanes, 0.0F);
  for (std::size_t lane = 0; lane < lanes_of(w, block); ++lane)
    to[lane] = static_cast<float>(static_cast<double>(c[lane]) /
                                  w.scale(static_cast<ClassId>(block * kLanes + lane)));
}

void divide_by_scale(const float* c, double scale, float* to) {
  HWY_DYNAMIC_DISPATCH(divide_by_scale_here)(c, scale, to);
}

void score_tasks(const Weights& w, std::span<const BlockTask> tasks, bool far) {
  HWY_DYNAMIC_DISPATCH(score_tasks_here)(w, tasks.data(), tasks.size(), far);
  if (!w.scaled()) return;
  for (const BlockTask& task : tasks)
    if (lanes_of(w, task.block) < kLanes) multiply_by_scales(w, {&task.block, 1}, task.numbers);
}

void add_tasks_to_memory(Weights& w, std::span<const BlockTask> tasks, bool shared) {
  HWY_DYNAMIC_DISPATCH(add_tasks_to_memory_here)(w, tasks.data(), tasks.size(), shared, nullptr);
}

void add_tasks_to_memory(Weights& w, std::span<const BlockTask> tasks, std::span<const double> scales,
                         bool shared) {
  HWY_DYNAMIC_DISPATCH(add_tasks_to_memory_here)(w, tasks.data(), tasks.size(), shared, scales.data());
}

void copy_block_intercepts(const Weights& w, std::span<const std::uint32_t> blocks, float* b) {
  if (!w.has_intercept()) {
    std::fill_n(b, blocks.size() * kLanes, 0.0F);
    return;
  }
  for (std::size_t i = 0; i < blocks.size(); ++i)
    std::copy_n(w.intercept().data() + blocks[i] * kLanes, kLanes, b + i * kLanes);
}

void add_to_block_intercepts(Weights& w, std::span<const std::uint32_t> blocks, const float* c) {
  if (!w.has_intercept()) return;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      w.intercept()[blocks[i] * kLanes + lane] += c[i * kLanes + lane];
}

}  // namespace truemax
#endif  // HWY_ONCE
