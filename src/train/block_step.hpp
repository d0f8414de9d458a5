// One step of the block lane: a row against whole blocks of classes. Scores, coefficients and updates are
// vectors of 16 float32; nothing is copied class by class.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/csr.hpp"
#include "train/lane.hpp"
#include "weights/blocks.hpp"
#include "weights/blocks_apart.hpp"

namespace truemax {

// A row and its blocks.
struct BlockStep {
  ExampleId example{};
  RowView x;
  ClassId label = 0;
  double row_weight = 1;
  std::span<const std::uint32_t> blocks;
  const double* weights = nullptr;  // [blocks]
  SplitRow split;                   // x, where BlockTerms::apart
};

// What the steps of a batch have in common.
struct BlockTerms {
  double step = 0, decayed = 1;
  double largest_weight = 0;  // RunState::largest_weight at the start of the batch
  double most_growth = 0;     // of one step
  bool ridge_later = false;   // steps leave their ridge to BlockStepper::delayed
  bool apart = false;         // steps keep apart what BlockStepper::keep_apart says
};

// Takes steps for one thread.
class BlockStepper {
 public:
  // Allocates for steps of up to `most_blocks` blocks.
  BlockStepper(const LaneSetup& setup, std::size_t most_blocks);

  struct Outcome {
    bool taken = false;  // false: declined as out of the range of float32, nothing changed
    double growth = 0;   // upper bound on the growth of any number in memory
  };
  // `ahead`: cache lines of a later step, prefetched in parts between the phases.
  Outcome run(const BlockStep& in, const BlockTerms& terms, RunState& state, LinesAhead& ahead);

  // Steps with BlockTerms::apart see these features of the first blocks, which all of them have before any
  // other, and their intercepts as they are at look(), and keep what they add to them apart until add_up().
  void keep_apart(std::size_t blocks, std::shared_ptr<const SomeFeatures> features, std::size_t begin) {
    const std::size_t classes = std::min(setup_.data.classes->size(), blocks * kLanes);
    apart_ = std::make_unique<BlocksApart>(classes, std::move(features), setup_.recipe.intercept, begin);
  }
  const BlocksApart* apart() const { return apart_.get(); }
  void look(const Weights& w) {
    if (apart_) apart_->start(w);
  }
  void add_up(Weights& w) {
    if (apart_) apart_->add_up(w);
  }

  // Of steps that left their ridge for later: a block and the product of its factors.
  struct Delayed {
    std::uint32_t block;
    double factor;
  };
  // Allocates for up to so many such steps over so many blocks, and so many threads that share the blocks.
  void allow_delays(std::size_t steps, std::size_t blocks, std::size_t owners);
  // Blocks b with b % owners == owner.
  std::span<const Delayed> delayed(std::size_t owner) const { return delayed_[owner]; }
  void forget_delayed();

 private:
  void delay(std::uint32_t block, double factor);
  bool prepare(const BlockStep& in, const BlockTerms& terms, const RunState& state);
  void score(const BlockStep& in, const BlockTerms& terms, const Weights& w, LinesAhead& ahead);
  bool solve(const BlockStep& in, const BlockTerms& terms, const Weights& w, LinesAhead& ahead,
             double* growth);
  void apply(const BlockStep& in, const BlockTerms& terms, RunState& state);
  void shrink(std::size_t blocks);
  std::size_t blocks_apart(const BlockTerms& terms) const {
    return apart_ && terms.apart ? apart_->blocks() : 0;
  }

  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

  const LaneSetup& setup_;
  BlockStepView view_;
  double squared_norm_ = 0;
  double least_scale_ = 1;                     // of the blocks of the step
  std::size_t label_ = 0;                      // lane of the label in the step
  std::vector<double> norm_;                   // by block: |x|^2 after the ridge
  std::vector<double> ridge_;                  // by block: r
  std::vector<std::vector<Delayed>> delayed_;  // by owner: blocks once each
  std::vector<std::uint32_t> delayed_at_;      // by block: its place there; kNone
  std::unique_ptr<BlocksApart> apart_;
  std::vector<float> memory_;
  float *score_ = nullptr, *coefficient_ = nullptr, *intercept_ = nullptr;  // [blocks][16], 64-byte aligned
};

}  // namespace truemax
