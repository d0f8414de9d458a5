// Every row against every class: log-sums, the best classes, scores of labels.
//
// A block of threads takes a chunk of class blocks, one after the other, and passes all rows over each. So
// the frequent features of the class block stay in the cache of its multiprocessor. 4 threads take a row,
// each 4 classes, and add to what the chunk has of the row so far: its highest score, a sum relative to it
// and the best classes. Rows come by their number of features, so that those of a warp take the same time. A
// second kernel puts the chunks of a row together, in double.
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

// What the classes of a chunk give for a row.
struct RowPart {
  float highest;  // score
  float excess;   // sum of exp(score - highest)
};

template <int kTop>
struct ScoreChunk {
  PackedRows rows;
  const std::uint32_t* order;  // of the rows; null: as they are
  std::uint32_t first_row, row_count;
  Matrix matrix;
  float scale;
  std::uint32_t blocks_per_chunk, chunks;
  RowPart* part;         // [chunks][row_count], by place in the order
  BestList<kTop>* best;  // likewise

  static constexpr int kMostThreads = 1024;                      // of a block
  static constexpr int kThreads = 4, kEach = kBlock / kThreads;  // of a row; classes of a thread

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<kThreads> group = t.template group<kThreads>();
    for (std::uint32_t chunk = t.block(); chunk < chunks; chunk += t.blocks()) {
      const std::uint32_t first = chunk * blocks_per_chunk;
      const std::uint32_t end = smaller(first + blocks_per_chunk, matrix.blocks());
      for (std::uint32_t b = first; b < end; ++b)
        for (std::uint32_t i = t.number() / kThreads; i < row_count; i += t.threads() / kThreads)
          take(group, std::uint64_t{chunk} * row_count + i,
               order == nullptr ? first_row + i : order[i + first_row], b, b == first);
    }
  }

 private:
  TRUEMAX_KERNEL void take(const Group<kThreads>& group, std::uint64_t place, std::uint32_t row,
                           std::uint32_t b, bool fresh) const {
    const int lane = group.lane();
    const RowPart old = fresh ? RowPart{kLowest, 0} : part[place];
    const float* const line = matrix.line(b, 0) + lane * kEach;
    float z[kEach] = {};
    const std::uint64_t end = rows.begin[row + 1];
    for (std::uint64_t k = rows.begin[row]; k < end; k += kThreads) {
      const std::uint64_t mine = k + static_cast<std::uint64_t>(lane);
      // A feature of value 0 beyond the end: that of the first, which is in the cache.
      const Entry entry = mine < end ? rows.entry[mine] : Entry{rows.entry[k].feature, 0};
      TRUEMAX_UNROLL
      for (int j = 0; j < kThreads; ++j) {
        const float x = group.from(entry.value, j);
        const Four w = load_four(line + std::uint64_t{group.from(entry.feature, j)} * kBlock);
        TRUEMAX_UNROLL
        for (int c = 0; c < kEach; ++c) z[c] += x * w.at[c];
      }
    }
    const std::uint32_t k = b * kBlock + static_cast<std::uint32_t>(lane * kEach);
    float highest = kLowest;
    TRUEMAX_UNROLL
    for (int c = 0; c < kEach; ++c) {
      z[c] = k + c < matrix.classes ? z[c] * scale + matrix.shift(k + c, scale) : kLowest;
      highest = larger(highest, z[c]);
    }
    const float top = group.highest(highest), now = larger(old.highest, top);
    float sum = 0;
    TRUEMAX_UNROLL
    for (int c = 0; c < kEach; ++c) sum += z[c] == kLowest ? 0 : FloatMath::exp(z[c] - now);
    sum = group.sum(sum);
    if (lane == 0) part[place] = {now, old.excess * (fresh ? 0 : FloatMath::exp(old.highest - now)) + sum};
    show(group, place, z, k, top, fresh);
  }

  // Adds the classes of a block to the best.
  TRUEMAX_KERNEL void show(const Group<kThreads>& group, std::uint64_t place, float (&z)[kEach],
                           std::uint32_t k, float top, bool fresh) const {
    if (!fresh && !(top >= best[place].entry[kTop - 1].score)) return;
    BestList<kTop> list;
    if (fresh)
      list.clear();
    else
      list = best[place];
    group.sync();  // all have read it
    for (int i = 0; i < kTop; ++i) {
      Best mine{kLowest, 0xFFFFFFFFU};
      TRUEMAX_UNROLL
      for (int c = 0; c < kEach; ++c)
        if (z[c] > mine.score) mine = {z[c], k + c};
      const float score = group.highest(mine.score);
      // Of equal scores the lowest number; ~ turns the lowest into the highest.
      const std::uint32_t number = ~group.highest(mine.score == score ? ~mine.number : 0U);
      if (!better({score, number}, list.entry[kTop - 1])) break;
      list.show({score, number});
      TRUEMAX_UNROLL
      for (int c = 0; c < kEach; ++c)
        if (k + c == number) z[c] = kLowest;
    }
    if (group.lane() == 0) best[place] = list;
  }
};

// A row, all chunks together.
template <int kTop>
struct JoinChunks {
  const std::uint32_t* order;  // as in ScoreChunk
  std::uint32_t first_row, row_count, chunks;
  const RowPart* part;
  const BestList<kTop>* list;
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
        const RowPart& p = part[std::uint64_t{c} * row_count + r];
        sum += static_cast<double>(p.excess) * exp(static_cast<double>(p.highest) - top);
        for (const Best& e : list[std::uint64_t{c} * row_count + r].entry) all.show(e);
      }
      const std::uint64_t row = order == nullptr ? first_row + r : order[first_row + r];
      highest[row] = top, excess[row] = sum;
      for (int i = 0; i < kTop; ++i) best[row * kTop + i] = all.entry[i];
    }
  }
};

// The score of each example's label, in double.
struct ScoreLabels {
  PackedRows rows;
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
        z += static_cast<double>(rows.entry[j].value) *
             static_cast<double>(line[std::uint64_t{rows.entry[j].feature} * kBlock]);
      const double shift = matrix.intercept == nullptr ? 0.0 : static_cast<double>(matrix.intercept[k]);
      score[i] = z * static_cast<double>(scale) +
                 (matrix.shrinks_intercept ? shift * static_cast<double>(scale) : shift);
    }
  }
};

}  // namespace truemax::cuda
