// Rows learn the blocks of their best classes (draw/rivals.hpp): a pass over all classes that keeps only the
// highest score of each block. It reads W in 16 bits, since rivals need not be in the right order. That
// halves what it must read, and more of it stays in the cache of a multiprocessor.
#pragma once

#include "cuda/numbers.hpp"
#include "cuda/pass.hpp"
#include "device/engine.hpp"
#include "draw/rivals.hpp"

namespace truemax::cuda {

// [wide blocks][features][64]: four blocks of classes beside each other, so that a feature is a whole line of
// the cache, and what a row reads of itself serves 64 classes.
struct NarrowMatrix {
  static constexpr std::uint32_t kBlocks = 4, kClasses = kBlocks * kBlock;
  Bfloat16* weight;
  std::uint32_t features;
  TRUEMAX_HOST_DEVICE static std::uint32_t wide_blocks(std::uint32_t blocks) {
    return (blocks + kBlocks - 1) / kBlocks;
  }
  TRUEMAX_HOST_DEVICE Bfloat16* line(std::uint32_t wide_block, std::uint32_t feature) const {
    return weight + (std::uint64_t{wide_block} * features + feature) * kClasses;
  }
};

// Whole lines of the copy are written by threads beside each other, 8 classes each.
struct NarrowWeights {
  Matrix from;
  NarrowMatrix to;
  static constexpr int kWide = 8;

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    constexpr std::uint32_t kPacks = NarrowMatrix::kClasses / kWide, kOfBlock = kBlock / kWide;
    const std::uint64_t all =
        std::uint64_t{NarrowMatrix::wide_blocks(from.blocks())} * from.features * kPacks;
    const std::uint64_t stride = std::uint64_t{t.blocks()} * t.threads();
    for (std::uint64_t i = std::uint64_t{t.block()} * t.threads() + t.number(); i < all; i += stride) {
      const auto pack = static_cast<std::uint32_t>(i % kPacks);
      const auto wide = static_cast<std::uint32_t>(i / kPacks / from.features);
      const auto f = static_cast<std::uint32_t>(i / kPacks % from.features);
      const std::uint32_t b = wide * NarrowMatrix::kBlocks + pack / kOfBlock;
      if (b >= from.blocks()) continue;
      float numbers[kWide];
      widen(load_pack<float, kWide>(from.line(b, f) + pack % kOfBlock * kWide), numbers);
      store_pack<Bfloat16, kWide>(to.line(wide, f) + pack * kWide, narrowed<Bfloat16, kWide>(numbers));
    }
  }
};

// Rows that learn at a time: every `parts`th in the order of their lengths, from number `part` on.
struct RowsOfPart {
  const std::uint32_t* order;  // all rows, longest first
  std::uint32_t part, parts, first, count;
  TRUEMAX_HOST_DEVICE std::uint32_t at(std::uint32_t i) const {
    return order[part + std::uint64_t{parts} * (first + i)];
  }
};

// A block of threads takes four blocks of classes and a share of the rows. 8 threads take a row, each 8
// classes.
struct HighestOfBlocks {
  PackedRows rows;
  RowsOfPart of;
  Matrix matrix;
  NarrowMatrix narrow;  // the same
  float scale;
  std::uint32_t shares;
  float* highest;  // [blocks][of.count]

  static constexpr int kMostThreads = 1024;
  static constexpr int kThreads = 8,
                       kEach = NarrowMatrix::kClasses / kThreads;  // of a row; classes of a thread

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<kThreads> group = t.template group<kThreads>();
    const std::uint32_t count = (of.count + shares - 1) / shares;
    const std::uint32_t items = NarrowMatrix::wide_blocks(matrix.blocks()) * shares;
    for (std::uint32_t item = t.block(); item < items; item += t.blocks()) {
      const std::uint32_t first = item % shares * count, end = smaller(first + count, of.count);
      for (std::uint32_t i = first + t.number() / kThreads; i < end; i += t.threads() / kThreads)
        take(group, i, of.at(i), item / shares);
    }
  }

 private:
  TRUEMAX_KERNEL void take(const Group<kThreads>& group, std::uint32_t i, std::uint32_t row,
                           std::uint32_t wide_block) const {
    const int lane = group.lane();
    const Bfloat16* const line = narrow.line(wide_block, 0) + lane * kEach;
    float z[kEach] = {};
    const std::uint64_t end = rows.begin[row + 1];
    for (std::uint64_t k = rows.begin[row]; k < end; k += kThreads) {
      const std::uint64_t mine = k + static_cast<std::uint64_t>(lane);
      const Entry entry = mine < end ? rows.entry[mine] : Entry{0, 0};
      const auto here = static_cast<int>(smaller<std::uint64_t>(kThreads, end - k));
      const auto add = [&](int j) {
        const float x = group.from(entry.value, j);
        const std::uint64_t feature = group.from(entry.feature, j);
        float w[kEach];
        widen(load_pack<Bfloat16, kEach, true>(line + feature * NarrowMatrix::kClasses), w);
        TRUEMAX_UNROLL
        for (int c = 0; c < kEach; ++c) z[c] += x * w[c];
      };
      if (here == kThreads) {
        TRUEMAX_UNROLL
        for (int j = 0; j < kThreads; ++j) add(j);
      } else {
        for (int j = 0; j < here; ++j) add(j);
      }
    }
    const std::uint32_t b =
        wide_block * NarrowMatrix::kBlocks + static_cast<std::uint32_t>(lane * kEach / kBlock);
    const std::uint32_t k = wide_block * NarrowMatrix::kClasses + static_cast<std::uint32_t>(lane * kEach);
    float top = kLowest;
    TRUEMAX_UNROLL
    for (int c = 0; c < kEach; ++c)
      if (k + c < matrix.classes) top = larger(top, z[c] * scale + matrix.shift(k + c, scale));
    static_assert(kBlock == 2 * kEach);
    const float other = group.from(top, lane ^ 1);
    if (lane % 2 == 0 && b < matrix.blocks()) highest[std::uint64_t{b} * of.count + i] = larger(top, other);
  }
};

// The best kTop blocks of each row.
template <int kTop>
struct BestBlocks {
  RowsOfPart of;
  std::uint32_t head, blocks;
  const float* highest;
  std::uint32_t* best;  // [rows][kTop], by falling score; kNoRival if there are fewer

  static constexpr int kThreads = 8;  // of a row

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<kThreads> group = t.template group<kThreads>();
    const auto lane = static_cast<std::uint32_t>(group.lane());
    const std::uint32_t groups = t.threads() / kThreads;
    for (std::uint32_t i = t.block() * groups + t.number() / kThreads; i < of.count;
         i += t.blocks() * groups) {
      BestList<kTop> list;
      list.clear();
      for (std::uint32_t b = head + lane; b < blocks; b += kThreads)
        list.show({highest[std::uint64_t{b} * of.count + i], b});
      // The best of all threads, and its thread takes the next of its own.
      for (int n = 0; n < kTop; ++n) {
        const Best mine = list.entry[0];
        const float score = group.highest(mine.score);
        const std::uint32_t number = ~group.highest(mine.score == score ? ~mine.number : 0U);
        if (lane == 0) best[std::uint64_t{of.at(i)} * kTop + n] = number;
        if (mine.number != number || number == device::kNoRival) continue;
        TRUEMAX_UNROLL
        for (int e = 0; e + 1 < kTop; ++e) list.entry[e] = list.entry[e + 1];
        list.entry[kTop - 1] = {kLowest, device::kNoRival};
      }
    }
  }
};

// What the examples of some rows remember.
struct RememberRivals {
  Examples examples;
  const std::uint32_t* place;  // of each row in the order
  std::uint32_t part, parts, head, top, rivals;
  const std::uint32_t* best;  // [rows][top]
  std::uint32_t* of;          // [examples][rivals]

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint32_t stride = t.blocks() * t.threads();
    for (std::uint32_t i = t.block() * t.threads() + t.number(); i < examples.count; i += stride) {
      const std::uint32_t row = examples.row == nullptr ? i : examples.row[i];
      if (place[row] % parts != part) continue;
      std::uint32_t* const mine = of + std::uint64_t{i} * rivals;
      std::uint32_t count = 0;
      for (std::uint32_t n = 0; n < top && count < rivals; ++n) {
        const std::uint32_t block = best[std::uint64_t{row} * top + n];
        if (block == device::kNoRival) break;
        count = add_rival(mine, count, head, examples.label[i] / kBlock, block);
      }
      for (; count < rivals; ++count) mine[count] = device::kNoRival;
    }
  }
};

}  // namespace truemax::cuda
