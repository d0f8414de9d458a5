#include "weights/blocks_apart.hpp"

#include <numeric>

#include "weights/blocks.hpp"

namespace truemax {

BlocksApart::BlocksApart(std::size_t classes, std::span<const FeatureId> features, std::size_t all_features,
                         bool intercept)
    : sums_(classes, features.size(), intercept),
      features_(features.begin(), features.end()),
      place_(all_features, kNone),
      numbers_(sums_.blocks()),
      more_(sums_.blocks() * kLanes) {
  std::iota(numbers_.begin(), numbers_.end(), 0U);
  for (std::size_t i = 0; i < features.size(); ++i) place_[features[i]] = static_cast<std::uint32_t>(i);
}

void BlocksApart::add_scores(const Weights& w, const RowView& x, float* z, float* intercept) {
  for (Part* const part : {&here_, &there_}) part->index.clear(), part->value.clear();
  for (std::size_t j = 0; j < x.index.size(); ++j) {
    const std::uint32_t place = place_[x.index[j]];
    Part& part = place == kNone ? there_ : here_;
    part.index.push_back(place == kNone ? x.index[j] : place);
    part.value.push_back(x.value[j]);
  }
  score_blocks(sums_, here_.view(), numbers_, more_.data());
  if (w.scaled())
    for (std::size_t k = 0; k < sums_.classes(); ++k)
      more_[k] *= static_cast<float>(w.scale(static_cast<ClassId>(k)));
  for (std::size_t k = 0; k < more_.size(); ++k) z[k] += more_[k];
  const std::span<const float> more = sums_.intercept();
  for (std::size_t k = 0; k < more.size(); ++k) z[k] += more[k], intercept[k] += more[k];
}

void BlocksApart::add(Weights& w, const float* c) {
  add_to_blocks(w, there_.view(), numbers_, c);
  add_to_block_intercepts(sums_, numbers_, c);
  if (w.scaled()) {
    for (std::size_t k = 0; k < more_.size(); ++k)
      more_[k] = k < sums_.classes()
                     ? static_cast<float>(static_cast<double>(c[k]) / w.scale(static_cast<ClassId>(k)))
                     : 0.0F;
    c = more_.data();
  }
  add_to_blocks(sums_, here_.view(), numbers_, c);
}

void BlocksApart::add_up(Weights& w) {
  constexpr std::size_t kAhead = 8;
  for (const std::uint32_t b : numbers_) {
    float *const to = w.block(b), *const from = sums_.block(b);
    for (std::size_t i = 0; i < features_.size(); ++i) {
      if (i + kAhead < features_.size()) prefetch_to_write(to + std::size_t{features_[i + kAhead]} * kLanes);
      const std::size_t line = std::size_t{features_[i]} * kLanes;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        to[line + lane] += from[i * kLanes + lane];
        from[i * kLanes + lane] = 0;
      }
    }
  }
  const std::span<float> intercept = sums_.intercept();
  for (std::size_t k = 0; k < intercept.size(); ++k) {
    w.intercept()[k] += intercept[k];
    intercept[k] = 0;
  }
}

}  // namespace truemax
