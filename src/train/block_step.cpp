#include "train/block_step.hpp"

#include <algorithm>
#include <cmath>

namespace truemax {

BlockStepper::BlockStepper(const LaneSetup& setup, std::size_t most_blocks)
    : setup_(setup),
      norm_(most_blocks),
      ridge_(setup.ridge.on() ? most_blocks : 0),
      memory_(3 * most_blocks * kLanes + kLanes) {
  const std::size_t off = reinterpret_cast<std::uintptr_t>(memory_.data()) / sizeof(float) % kLanes;
  score_ = memory_.data() + (kLanes - off) % kLanes;
  coefficient_ = score_ + most_blocks * kLanes;
  intercept_ = coefficient_ + most_blocks * kLanes;
}

BlockStepper::Outcome BlockStepper::run(const BlockStep& in, const BlockTerms& terms, RunState& state,
                                        LinesAhead& ahead) {
  if (!prepare(in, terms, state)) return {};
  score(in, terms, state.weights, ahead);
  double growth = 0;
  if (!solve(in, terms, state.weights, ahead, &growth)) return {};
  apply(in, terms, state);
  return {true, growth};
}

bool BlockStepper::prepare(const BlockStep& in, const BlockTerms& terms, const RunState& state) {
  const RowState& row = state.row(in.example);
  squared_norm_ = row.squared_norm;
  if (!float_batch_holds(terms.largest_weight) || !pairs_are_safe(squared_norm_)) return false;
  const auto own = static_cast<std::size_t>(std::find(in.blocks.begin(), in.blocks.end(), in.label / kLanes) -
                                            in.blocks.begin());
  label_ = own * kLanes + in.label % kLanes;
  view_.e = terms.step * in.row_weight;
  view_.decayed = terms.decayed;
  view_.complete = setup_.draw->complete();
  view_.blocks = in.blocks.size();
  view_.score = score_, view_.norm = norm_.data();
  view_.weight = in.weights;
  view_.u = row.u;
  view_.coefficient = coefficient_;
  if (!setup_.ridge.on()) {
    std::fill_n(norm_.begin(), in.blocks.size(), squared_norm_);
  } else {
    const double strength = setup_.ridge.strength(terms.step, in.row_weight);
    const std::vector<double>& beta = setup_.ridge.beta(1);  // equal within a block
    const bool free = setup_.ridge.leaves_intercept();
    for (std::size_t i = 0; i < in.blocks.size(); ++i) {
      ridge_[i] = ridge_factor(strength, beta[in.blocks[i] * kLanes]);
      norm_[i] = shrunk_norm(squared_norm_, ridge_[i], free);
    }
  }
  view_.label_norm = norm_[own];
  return true;
}

// With ridge, scores of the shrunken weights. The label and the padding of the last block get kNoScore.
void BlockStepper::score(const BlockStep& in, const BlockTerms& terms, const Weights& w, LinesAhead& ahead) {
  const std::size_t apart = blocks_apart(terms);
  const std::span<const std::uint32_t> others = in.blocks.subspan(apart);
  ahead.ask(3);
  if (apart > 0) apart_->score(w, in.split, score_, intercept_);
  score_blocks(w, in.x, others, score_ + apart * kLanes);
  ahead.ask(2);
  if (w.has_intercept()) {
    copy_block_intercepts(w, others, intercept_ + apart * kLanes);
    for (std::size_t k = apart * kLanes; k < in.blocks.size() * kLanes; ++k) score_[k] += intercept_[k];
  }
  if (setup_.ridge.on()) shrink(in.blocks.size());
  view_.label_score = static_cast<double>(score_[label_]);
  score_[label_] = kNoScore;
  for (std::size_t i = 0; i < in.blocks.size(); ++i)
    for (std::size_t k = (in.blocks[i] + 1) * kLanes; k > w.classes(); --k)
      score_[i * kLanes + k - 1 - in.blocks[i] * kLanes] = kNoScore;
}

void BlockStepper::shrink(std::size_t blocks) {
  const bool free = setup_.ridge.leaves_intercept();
  for (std::size_t i = 0; i < blocks; ++i) {
    const auto inverse = static_cast<float>(1 / ridge_[i]);
    float* z = score_ + i * kLanes;
    const float* b = intercept_ + i * kLanes;
    if (free)
      for (std::size_t lane = 0; lane < kLanes; ++lane) z[lane] = shrunk_score(z[lane], inverse, b[lane]);
    else
      for (std::size_t lane = 0; lane < kLanes; ++lane) z[lane] = shrunk_score(z[lane], inverse);
  }
}

// False if the step is out of the range of float32.
bool BlockStepper::solve(const BlockStep& in, const BlockTerms& terms, const Weights& w, LinesAhead& ahead,
                         double* growth) {
  if (!setup_.rule.step_blocks(view_)) return false;
  ahead.ask(1);
  least_scale_ = 1;
  if (w.scaled())
    for (const std::uint32_t b : in.blocks) least_scale_ = std::min(least_scale_, w.least_scale(b));
  *growth = view_.label_coefficient * std::max(1.0, std::sqrt(squared_norm_)) / least_scale_;
  if (!(*growth <= terms.most_growth)) return false;
  coefficient_[label_] = static_cast<float>(view_.label_coefficient);
  return true;
}

void BlockStepper::allow_delays(std::size_t steps, std::size_t blocks, std::size_t owners) {
  delayed_.resize(owners);
  for (auto& of_owner : delayed_)
    of_owner.reserve(std::min(steps * norm_.size(), (blocks + owners - 1) / owners));
  delayed_at_.assign(blocks, kNone);
}

void BlockStepper::delay(std::uint32_t block, double factor) {
  std::vector<Delayed>& of_owner = delayed_[block % delayed_.size()];
  if (delayed_at_[block] == kNone) {
    delayed_at_[block] = static_cast<std::uint32_t>(of_owner.size());
    of_owner.push_back({block, 1.0});
  }
  of_owner[delayed_at_[block]].factor *= factor;
}

void BlockStepper::forget_delayed() {
  for (auto& of_owner : delayed_) {
    for (const Delayed& d : of_owner) delayed_at_[d.block] = kNone;
    of_owner.clear();
  }
}

void BlockStepper::apply(const BlockStep& in, const BlockTerms& terms, RunState& state) {
  Weights& w = state.weights;
  const std::size_t apart = blocks_apart(terms);
  if (apart > 0) apart_->add(w, in.split, coefficient_);
  add_to_blocks(w, in.x, in.blocks.subspan(apart), coefficient_ + apart * kLanes);
  add_to_block_intercepts(w, in.blocks.subspan(apart), coefficient_ + apart * kLanes);
  if (setup_.ridge.on())
    for (std::size_t i = 0; i < in.blocks.size(); ++i) {
      if (terms.ridge_later)
        delay(in.blocks[i], 1 / ridge_[i]);
      else
        setup_.ridge.shrink(w, in.blocks[i], 1 / ridge_[i], least_scale_);
    }
  state.row(in.example).u = view_.u;
}

}  // namespace truemax
