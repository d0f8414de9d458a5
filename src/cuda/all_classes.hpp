// Steps over all classes (exact): scores of the step's rows, their log-normalisers, updates; three kernels
// one after the other.
#pragma once

#include "cuda/problem.hpp"
#include "cuda/steps.hpp"
#include "cuda/thread.hpp"

namespace truemax::cuda {

// What the kernels of a step share.
struct AllClassesStep {
  PackedRows rows;
  Examples examples;
  Matrix matrix;
  Order order;
  std::uint64_t first;  // position in the epoch
  std::uint32_t count;  // rows
  float scale;
  double step;         // of a row with weight 1
  double most_growth;  // of a row; a larger one is left out
  float* score;        // [count][blocks * 16]
  float* shift;        // [count]: log-normaliser
  StepReport* report;

  TRUEMAX_HOST_DEVICE std::uint64_t width() const { return std::uint64_t{matrix.blocks()} * kBlock; }
  TRUEMAX_HOST_DEVICE std::uint32_t example(std::uint32_t i) const { return order.at(first + i); }
  TRUEMAX_HOST_DEVICE std::uint32_t row(std::uint32_t example) const {
    return examples.row == nullptr ? example : examples.row[example];
  }
  TRUEMAX_HOST_DEVICE double e(std::uint32_t example) const {
    return step * (examples.weight == nullptr ? 1.0 : static_cast<double>(examples.weight[example]));
  }
};

// 16 threads for a row and a block of classes.
template <class Visit>
TRUEMAX_KERNEL void each_row_and_block(const Thread& t, const AllClassesStep& step, Visit&& visit) {
  const std::uint64_t all = std::uint64_t{step.count} * step.matrix.blocks(), in_block = t.threads() / kBlock;
  for (std::uint64_t at = t.block() * in_block + t.number() / kBlock; at < all; at += t.blocks() * in_block)
    visit(static_cast<std::uint32_t>(at / step.matrix.blocks()),
          static_cast<std::uint32_t>(at % step.matrix.blocks()), static_cast<int>(t.number() % kBlock));
}

struct ScoreAllClasses {
  AllClassesStep step;
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    each_row_and_block(t, step, [&](std::uint32_t i, std::uint32_t b, int lane) {
      const std::uint32_t r = step.row(step.example(i)), k = b * kBlock + static_cast<std::uint32_t>(lane);
      const float* const line = step.matrix.line(b, 0) + lane;
      float z = 0;
      for (std::uint64_t j = step.rows.begin[r]; j < step.rows.begin[r + 1]; ++j)
        z += step.rows.entry[j].value * line[std::uint64_t{step.rows.entry[j].feature} * kBlock];
      z *= step.scale;
      if (step.matrix.intercept != nullptr)
        z += step.matrix.intercept[k] * (step.matrix.shrinks_intercept ? step.scale : 1);
      step.score[i * step.width() + k] = k < step.matrix.classes ? z : kNoClass;
    });
  }
};

// A block of threads for a row.
struct NormaliseAllClasses {
  AllClassesStep step;
  static constexpr std::size_t kBytes = 64 * sizeof(double);
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    for (std::uint32_t i = t.block(); i < step.count; i += t.blocks()) one(t, i);
  }

 private:
  TRUEMAX_KERNEL void one(const Thread& t, std::uint32_t i) const {
    double* const shared = reinterpret_cast<double*>(t.shared);
    const Group<32> warp = t.group<32>();
    const std::uint32_t warps = t.threads() / 32;
    const float* const z = step.score + i * step.width();
    float highest = kNoClass;
    for (std::uint64_t k = t.number(); k < step.matrix.classes; k += t.threads())
      highest = larger(highest, z[k]);
    highest = warp.highest(highest);
    if (warp.lane() == 0) shared[t.number() / 32] = static_cast<double>(highest);
    t.sync();
    double top = shared[0];
    for (std::uint32_t w = 1; w < warps; ++w) top = larger(top, shared[w]);
    const std::uint32_t example = step.example(i), y = step.examples.label[example];
    double sum = 0;
    for (std::uint64_t k = t.number(); k < step.matrix.classes; k += t.threads())
      sum += exp(static_cast<double>(z[k]) - top);
    sum = warp.sum(sum);
    if (warp.lane() == 0) shared[32 + t.number() / 32] = sum;
    t.sync();
    double all = 0;
    for (std::uint32_t w = 0; w < warps; ++w) all += shared[32 + w];
    if (t.number() == 0) {
      const double log_sum = top + log(all), others = -expm1(static_cast<double>(z[y]) - log_sum);
      const double s = static_cast<double>(step.examples.norm[example]);
      const double growth =
          step.e(example) * larger(others, 0.0) * (s > 1 ? sqrt(s) : 1.0) / static_cast<double>(step.scale);
      const bool taken = growth <= step.most_growth;
      if (taken)
        add(&step.report->growth, growth);
      else
        raise(&step.report->refused, step.first + i + 1);
      step.shift[i] = taken ? static_cast<float>(log_sum) : -kNoClass;  // exp(z - shift) is 0
    }
    t.sync();
  }
};

struct ApplyAllClasses {
  AllClassesStep step;
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    each_row_and_block(t, step, [&](std::uint32_t i, std::uint32_t b, int lane) {
      const std::uint32_t example = step.example(i), r = step.row(example);
      const std::uint32_t k = b * kBlock + static_cast<std::uint32_t>(lane);
      const float shift = step.shift[i];
      if (k >= step.matrix.classes || shift >= -0.5F * kNoClass) return;
      const float p = FloatMath::exp(step.score[i * step.width() + k] - shift);
      const float change =
          static_cast<float>(step.e(example)) * ((k == step.examples.label[example] ? 1 : 0) - p);
      const float c = change / step.scale;
      float* const line = step.matrix.line(b, 0) + lane;
      for (std::uint64_t j = step.rows.begin[r]; j < step.rows.begin[r + 1]; ++j)
        add(line + std::uint64_t{step.rows.entry[j].feature} * kBlock, c * step.rows.entry[j].value);
      if (step.matrix.intercept != nullptr)
        add(step.matrix.intercept + k, step.matrix.shrinks_intercept ? c : change);
    });
  }
};

}  // namespace truemax::cuda
