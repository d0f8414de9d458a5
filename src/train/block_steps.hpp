// Steps of one row over whole blocks of classes, for rules that can take them so: scores, coefficients and
// updates are vectors of 16 float32, and nothing is copied class by class.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "rule/rule.hpp"
#include "train/commuting.hpp"
#include "train/state.hpp"
#include "weights/blocks.hpp"

namespace truemax {

// Weights at the beginning of a batch and growth of one of its steps, such that no weight passes
// kPairWeightHigh before it ends.
inline constexpr double kBatchWeightHigh = kPairWeightHigh / 2;
inline constexpr double kStepGrowthHigh = kPairWeightHigh / 2 / static_cast<double>(kStepsAhead);

// A row and its blocks.
struct BlockStep {
  RowId row = 0;
  RowView x;
  ClassId label = 0;
  double row_weight = 1;
  std::span<const std::uint32_t> blocks;
  const double* weights = nullptr;  // of the blocks
};

class BlockSteps {
 public:
  static_assert(kProxLanes == kLanes);

  // What a step is told besides its row and blocks.
  struct Terms {
    double step = 0, decayed = 1;
    bool complete = false;         // every step has all classes
    const double* beta = nullptr;  // by class, equal inside a block; null: no ridge
    double ridge_factor = 0;       // r_k = 1 + ridge_factor beta_k for a row of weight 1
    bool ridge_intercept = false;
    double largest_weight = 0;  // TrainState's, at the beginning of the batch
  };
  struct Outcome {
    bool taken = false;  // false, and nothing done, where float32 cannot be trusted with the step
    double growth = 0;   // no number in memory has grown by more
  };

  // Takes the memory of steps of up to so many blocks.
  void reserve(std::size_t blocks) { shape(blocks); }

  template <BlockRule R>
  Outcome run(const BlockStep& in, TrainState& state, const R& rule, const Terms& terms, LinesAhead& ahead) {
    const std::span<const std::uint32_t> blocks = in.blocks;
    Weights& w = state.weights;
    RowState& of_row = state.rows[in.row];
    const double s = of_row.squared_norm;
    if (terms.largest_weight > kBatchWeightHigh || !pairs_are_safe(s)) return {};
    const RowView x = in.x;
    const ClassId y = in.label;
    shape(blocks.size());
    ahead.ask(3);
    score_blocks(w, x, blocks, score_);
    ahead.ask(2);
    add_intercept(w, blocks, score_);
    if (terms.beta != nullptr)
      shrink(w, blocks, s, terms, in.row_weight);
    else
      std::fill_n(norm_.begin(), blocks.size(), s);

    const auto own =
        static_cast<std::size_t>(std::find(blocks.begin(), blocks.end(), y / kLanes) - blocks.begin());
    const std::size_t label = own * kLanes + y % kLanes;
    ProxBlocks problem;
    problem.e = terms.step * in.row_weight;
    problem.u = of_row.u;
    problem.label_score = static_cast<double>(score_[label]);
    problem.label_norm = norm_[own];
    problem.blocks = blocks.size();
    problem.score = score_;
    problem.norm = norm_.data();
    problem.weight = in.weights;
    problem.coefficient = coefficient_;
    score_[label] = kNoClass;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      for (std::size_t k = (blocks[i] + 1) * kLanes; k > w.classes(); --k)
        score_[i * kLanes + k - 1 - blocks[i] * kLanes] = kNoClass;
    if (!rule.step_blocks(problem, terms.decayed, terms.complete)) return {};

    ahead.ask(1);
    double least_scale = 1;
    if (w.scaled())
      for (const std::uint32_t b : blocks) least_scale = std::min(least_scale, w.least_scale(b));
    const double growth = problem.label_coefficient * std::max(1.0, std::sqrt(s)) / least_scale;
    if (!(growth <= kStepGrowthHigh)) return {};  // also where it is no number
    coefficient_[label] = static_cast<float>(problem.label_coefficient);
    add_to_blocks(w, x, blocks, coefficient_);
    if (w.has_intercept())
      for (std::size_t i = 0; i < blocks.size(); ++i)
        for (std::size_t lane = 0; lane < kLanes; ++lane)
          w.intercept()[blocks[i] * kLanes + lane] += coefficient_[i * kLanes + lane];
    if (terms.beta != nullptr)
      for (const std::uint32_t b : blocks) {
        const double factor = 1 / ridge_of(b, terms, in.row_weight);
        w.scale_block(b, factor);
        if (terms.ridge_intercept) w.scale_block_intercept(b, factor);
      }
    of_row.u = problem.u;
    return {true, growth};
  }

 private:
  static double ridge_of(std::uint32_t b, const Terms& terms, double row_weight) {
    return 1 + terms.ridge_factor * row_weight * terms.beta[b * kLanes];
  }

  void shape(std::size_t blocks) {
    if (norm_.size() >= blocks) return;
    norm_.resize(blocks);
    memory_.resize(2 * blocks * kLanes + kLanes);
    const std::size_t off = reinterpret_cast<std::uintptr_t>(memory_.data()) / sizeof(float) % kLanes;
    score_ = memory_.data() + (kLanes - off) % kLanes;
    coefficient_ = score_ + blocks * kLanes;
  }

  static void add_intercept(const Weights& w, std::span<const std::uint32_t> blocks, float* to) {
    if (!w.has_intercept()) return;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        to[i * kLanes + lane] += w.intercept()[blocks[i] * kLanes + lane];
  }

  // Scores of the shrunken weights, and what stands in place of |x|^2.
  void shrink(const Weights& w, std::span<const std::uint32_t> blocks, double s, const Terms& terms,
              double row_weight) {
    const bool free = w.has_intercept() && !terms.ridge_intercept;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const double r = ridge_of(blocks[i], terms, row_weight);
      norm_[i] = free ? (s - 1) / r + 1 : s / r;
      const auto factor = static_cast<float>(1 / r);
      float* z = score_ + i * kLanes;
      if (free) {
        const float* b = w.intercept().data() + blocks[i] * kLanes;
        for (std::size_t lane = 0; lane < kLanes; ++lane) z[lane] = (z[lane] - b[lane]) * factor + b[lane];
      } else {
        for (std::size_t lane = 0; lane < kLanes; ++lane) z[lane] *= factor;
      }
    }
  }

  std::vector<float> memory_;
  std::vector<double> norm_;
  float *score_ = nullptr, *coefficient_ = nullptr;  // [blocks][16], 64-byte aligned
};

}  // namespace truemax
