// Evaluation of learnt features: rows x, their scores for all classes by a product, and what is asked of a
// row of scores.
#pragma once

#include "cuda/learnt_steps.hpp"
#include "cuda/pass.hpp"

namespace truemax::cuda {

// x of rows first ... first + count, or of a layer their words side by side.
struct EncodeRows {
  LearntRun run;
  Rows rows;
  std::uint32_t first, count;
  float *x, *words;

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const EncodeRow encode{&run, rows};
    for (std::uint32_t r = t.block(); r < count; r += t.blocks()) {
      if (run.kind != LearntKind::layer) {
        for (std::uint32_t d = 4 * t.number(); d < run.stride; d += 4 * t.threads())
          write_four(x + std::uint64_t{r} * run.stride + d, encode.numbers(first + r, d));
        continue;
      }
      for (std::uint32_t c = 4 * t.number(); c < run.wide(); c += 4 * t.threads())
        write_four(words + std::uint64_t{r} * run.wide() + c, encode.words(first + r, c));
    }
  }
};

// Log-sums and best classes of rows of scores.
template <int kTop>
struct SumScores {
  static constexpr std::size_t kBytes = 32 * sizeof(double);
  const float* score;  // [rows][stride], without the intercept
  std::uint64_t stride;
  std::uint32_t rows, classes;
  const float* intercept;    // null without
  double *highest, *excess;  // [rows]
  Best* best;                // [rows][kTop]

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    for (std::uint32_t r = t.block(); r < rows; r += t.blocks()) {
      const float* const z = score + stride * r;
      BestList<kTop> mine;
      mine.clear();
      for (std::uint32_t k = t.number(); k < classes; k += t.threads()) mine.show({at(z, k), k});
      const float most = block_highest(t, reinterpret_cast<float*>(t.shared), mine.entry[0].score);
      double sum = 0;
      for (std::uint32_t k = t.number(); k < classes; k += t.threads())
        sum += static_cast<double>(expf(at(z, k) - most));
      sum = block_sum(t, reinterpret_cast<double*>(t.shared), sum);
      if (t.number() == 0) highest[r] = static_cast<double>(most), excess[r] = sum;
      join(t, mine, best + std::uint64_t{r} * kTop);
    }
  }

 private:
  TRUEMAX_KERNEL float at(const float* z, std::uint32_t k) const {
    return intercept == nullptr ? z[k] : z[k] + intercept[k];
  }
  TRUEMAX_KERNEL static void join(const Thread& t, const BestList<kTop>& mine, Best* out) {
    int next = 0;  // of this thread's list
    for (int i = 0; i < kTop; ++i) {
      Best candidate{kLowest, 0xFFFFFFFFU};
      TRUEMAX_UNROLL
      for (int e = 0; e < kTop; ++e)
        if (e == next) candidate = mine.entry[e];
      const float score = block_highest(t, reinterpret_cast<float*>(t.shared), candidate.score);
      // Of equal scores the lowest number; ~ turns the lowest into the highest.
      const std::uint32_t number = ~block_highest(t, reinterpret_cast<std::uint32_t*>(t.shared),
                                                  candidate.score == score ? ~candidate.number : 0U);
      if (candidate.score == score && candidate.number == number) ++next;
      if (t.number() == 0) out[i] = {score, number};
    }
  }
};

// The scores of examples' labels, in double: a warp each. Rows of x begin with that of row `first`.
struct ScoreRowLabels {
  const std::uint32_t* row;  // of each example; null: itself
  const std::uint32_t* label;
  std::uint32_t first_example, end_example, first_row;
  const float *x, *weight, *intercept;
  std::uint32_t h, stride, classes;
  double* score;  // [examples]

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<32> warp = t.template group<32>();
    const std::uint32_t warps = t.blocks() * (t.threads() / 32);
    for (std::uint32_t i = first_example + t.block() * (t.threads() / 32) + t.number() / 32; i < end_example;
         i += warps) {
      const std::uint32_t r = (row == nullptr ? i : row[i]) - first_row, k = label[i];
      double sum = 0;
      if (k < classes)
        for (std::uint32_t d = static_cast<std::uint32_t>(warp.lane()); d < h; d += 32)
          sum += static_cast<double>(x[std::uint64_t{r} * stride + d]) *
                 static_cast<double>(weight[std::uint64_t{k} * stride + d]);
      sum = warp.sum(sum);
      if (warp.lane() == 0)
        score[i] = k >= classes ? 0 : intercept == nullptr ? sum : sum + static_cast<double>(intercept[k]);
    }
  }
};

}  // namespace truemax::cuda
