#include "weights/blocks_apart.hpp"

#include <numeric>

#include "weights/blocks.hpp"

namespace truemax {

BlocksApart::BlocksApart(std::size_t classes, std::size_t features, bool intercept)
    : sums_(classes, features, intercept),
      numbers_(sums_.blocks()),
      more_(sums_.blocks() * kLanes),
      touched_(features) {
  std::iota(numbers_.begin(), numbers_.end(), 0U);
  features_.reserve(features);
}

std::uint64_t BlocksApart::bytes(std::uint64_t features, std::uint64_t blocks) {
  return features * (blocks * kLanes * sizeof(float) + sizeof(FeatureId)) + features / 8;
}

void BlocksApart::add_scores(const Weights& w, const RowView& x, float* z, float* intercept) {
  score_blocks(sums_, x, numbers_, more_.data());
  if (w.scaled())
    for (std::size_t k = 0; k < sums_.classes(); ++k)
      more_[k] *= static_cast<float>(w.scale(static_cast<ClassId>(k)));
  for (std::size_t k = 0; k < more_.size(); ++k) z[k] += more_[k];
  const std::span<const float> more = sums_.intercept();
  for (std::size_t k = 0; k < more.size(); ++k) z[k] += more[k], intercept[k] += more[k];
}

void BlocksApart::add(const Weights& w, const RowView& x, const float* c) {
  for (const FeatureId f : x.index) {
    if (touched_[f]) continue;
    touched_[f] = true;
    features_.push_back(f);
  }
  add_to_block_intercepts(sums_, numbers_, c);
  if (w.scaled()) {
    for (std::size_t k = 0; k < more_.size(); ++k)
      more_[k] = k < sums_.classes()
                     ? static_cast<float>(static_cast<double>(c[k]) / w.scale(static_cast<ClassId>(k)))
                     : 0.0F;
    c = more_.data();
  }
  add_to_blocks(sums_, x, numbers_, c);
}

void BlocksApart::add_up(Weights& w) {
  constexpr std::size_t kAhead = 16;
  for (const std::uint32_t b : numbers_) {
    float* const to = w.block(b);
    float* const from = sums_.block(b);
    for (std::size_t i = 0; i < features_.size(); ++i) {
      if (i + kAhead < features_.size()) prefetch_to_write(to + std::size_t{features_[i + kAhead]} * kLanes);
      const std::size_t line = std::size_t{features_[i]} * kLanes;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        to[line + lane] += from[line + lane];
        from[line + lane] = 0;
      }
    }
  }
  for (const FeatureId f : features_) touched_[f] = false;
  features_.clear();
  const std::span<float> intercept = sums_.intercept();
  for (std::size_t k = 0; k < intercept.size(); ++k) {
    w.intercept()[k] += intercept[k];
    intercept[k] = 0;
  }
}

}  // namespace truemax
