// Every row against every class: log-sums, the best classes, scores of labels.
//
// 16 threads take a row and a chunk of blocks, a thread for each class of a block, and keep a running
// maximum, a sum relative to it and the best scores. Launches go through the chunks in order, so that all
// rows that run at a time read the same few blocks of W from the cache. A second kernel puts the chunks of a
// row together, in double.
#pragma once

#include "cuda/problem.hpp"
#include "cuda/thread.hpp"
#include "solve/scalar_math.hpp"

namespace truemax::cuda {

inline constexpr float kLowest = -3.0e38F;

struct Best {
  float score;
  std::uint32_t number;  // of the class; lower numbers win ties
};

TRUEMAX_HOST_DEVICE inline bool better(const Best& a, const Best& b) {
  return a.score > b.score || (a.score == b.score && a.number < b.number);
}

// The best kTop of what it was shown, by falling score.
template <int kTop>
struct BestList {
  Best entry[kTop];

  TRUEMAX_HOST_DEVICE void clear() {
    for (Best& e : entry) e = {kLowest, 0xFFFFFFFFU};
  }
  TRUEMAX_HOST_DEVICE void show(Best next) {
    if (!better(next, entry[kTop - 1])) return;
    entry[kTop - 1] = next;
    TRUEMAX_UNROLL
    for (int i = kTop - 1; i > 0; --i)
      if (better(entry[i], entry[i - 1])) {
        const Best other = entry[i];
        entry[i] = entry[i - 1];
        entry[i - 1] = other;
      }
  }
};

// The part of a row that one chunk gives.
template <int kTop>
struct RowPart {
  float highest;  // score
  float excess;   // sum of exp(score - highest)
  BestList<kTop> best;
};

template <int kTop>
struct ScoreChunk {
  Rows rows;
  std::uint32_t first_row, row_count;
  Matrix matrix;
  float scale;
  std::uint32_t blocks_per_chunk, chunks;
  RowPart<kTop>* part;  // [chunks][row_count]

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<kBlock> group = t.template group<kBlock>();
    const std::uint64_t in_block = t.threads() / kBlock;
    const std::uint64_t all = std::uint64_t{row_count} * chunks;
    for (std::uint64_t at = t.block() * in_block + t.number() / kBlock; at < all;
         at += t.blocks() * in_block) {
      const auto chunk = static_cast<std::uint32_t>(at / row_count);
      const auto row = static_cast<std::uint32_t>(at % row_count);
      const std::uint32_t first = chunk * blocks_per_chunk;
      const std::uint32_t end = smaller(first + blocks_per_chunk, matrix.blocks());
      RowPart<kTop> mine;
      mine.highest = kLowest, mine.excess = 0;
      mine.best.clear();
      for (std::uint32_t b = first; b < end; ++b) take(group, mine, first_row + row, b);
      reduce(group, mine);
      if (group.lane() == 0) part[at] = mine;
    }
  }

 private:
  TRUEMAX_KERNEL void take(const Group<kBlock>& group, RowPart<kTop>& mine, std::uint32_t row,
                           std::uint32_t b) const {
    const int lane = group.lane();
    const std::uint32_t k = b * kBlock + static_cast<std::uint32_t>(lane);
    const float* const line = matrix.line(b, 0) + lane;
    float z = 0;
    for (std::uint64_t j = rows.begin[row]; j < rows.begin[row + 1]; ++j)
      z += rows.value[j] * line[std::uint64_t{rows.index[j]} * kBlock];
    if (k >= matrix.classes) return;
    z = z * scale + (matrix.intercept == nullptr ? 0 : matrix.intercept[k]);
    include(mine, z, 1);
    mine.best.show({z, k});
  }

  TRUEMAX_KERNEL static void include(RowPart<kTop>& to, float highest, float excess) {
    if (highest > to.highest) {
      to.excess = to.excess * FloatMath::exp(to.highest - highest) + excess;
      to.highest = highest;
    } else {
      to.excess += excess * FloatMath::exp(highest - to.highest);
    }
  }

  // Afterwards lane 0 has all.
  TRUEMAX_KERNEL static void reduce(const Group<kBlock>& group, RowPart<kTop>& mine) {
    const float highest = group.highest(mine.highest);
    mine.excess =
        group.sum(mine.highest == kLowest ? 0 : mine.excess * FloatMath::exp(mine.highest - highest));
    mine.highest = highest;
    BestList<kTop> all;
    int next = 0;  // of this thread's list
    for (int i = 0; i < kTop; ++i) {
      const Best candidate = next < kTop ? mine.best.entry[next] : Best{kLowest, 0xFFFFFFFFU};
      const float score = group.highest(candidate.score);
      // Of equal scores the lowest number; ~ turns the lowest into the highest.
      const std::uint32_t number = ~group.highest(candidate.score == score ? ~candidate.number : 0U);
      if (candidate.score == score && candidate.number == number) ++next;
      all.entry[i] = {score, number};
    }
    mine.best = all;
  }
};

// A row, all chunks together.
template <int kTop>
struct JoinChunks {
  std::uint32_t row_count, chunks;
  const RowPart<kTop>* part;
  double *highest, *excess;  // [rows]
  Best* best;                // [rows][kTop]

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint64_t stride = std::uint64_t{t.blocks()} * t.threads();
    for (std::uint64_t r = std::uint64_t{t.block()} * t.threads() + t.number(); r < row_count; r += stride) {
      double top = static_cast<double>(kLowest);
      for (std::uint32_t c = 0; c < chunks; ++c)
        top = larger(top, static_cast<double>(part[std::uint64_t{c} * row_count + r].highest));
      double sum = 0;
      BestList<kTop> all;
      all.clear();
      for (std::uint32_t c = 0; c < chunks; ++c) {
        const RowPart<kTop>& p = part[std::uint64_t{c} * row_count + r];
        sum += static_cast<double>(p.excess) * exp(static_cast<double>(p.highest) - top);
        for (const Best& e : p.best.entry) all.show(e);
      }
      highest[r] = top, excess[r] = sum;
      for (int i = 0; i < kTop; ++i) best[r * kTop + i] = all.entry[i];
    }
  }
};

// The score of each example's label, in double.
struct ScoreLabels {
  Rows rows;
  const std::uint32_t* row;  // of each example; null: itself
  const std::uint32_t* label;
  std::uint32_t first, count;
  Matrix matrix;
  float scale;
  double* score;  // [count]

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint64_t stride = std::uint64_t{t.blocks()} * t.threads();
    for (std::uint64_t i = std::uint64_t{t.block()} * t.threads() + t.number(); i < count; i += stride) {
      const std::uint32_t example = first + static_cast<std::uint32_t>(i), k = label[example];
      if (k >= matrix.classes) {  // not seen in training
        score[i] = 0;
        continue;
      }
      const std::uint32_t r = row == nullptr ? example : row[example];
      const float* const line = matrix.line(k / kBlock, 0) + k % kBlock;
      double z = 0;
      for (std::uint64_t j = rows.begin[r]; j < rows.begin[r + 1]; ++j)
        z += static_cast<double>(rows.value[j]) *
             static_cast<double>(line[std::uint64_t{rows.index[j]} * kBlock]);
      score[i] = z * static_cast<double>(scale) +
                 (matrix.intercept == nullptr ? 0.0 : static_cast<double>(matrix.intercept[k]));
    }
  }
};

}  // namespace truemax::cuda
