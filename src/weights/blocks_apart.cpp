#include "weights/blocks_apart.hpp"

#include <numeric>
#include <utility>

#include "weights/blocks.hpp"

namespace truemax {

SomeFeatures::SomeFeatures(std::vector<FeatureId> some, std::size_t all)
    : some_(std::move(some)), place_(all, kNone) {
  for (std::size_t i = 0; i < some_.size(); ++i) place_[some_[i]] = static_cast<std::uint32_t>(i);
}

BlocksApart::BlocksApart(std::size_t classes, std::shared_ptr<const SomeFeatures> features, bool intercept)
    : sums_(classes, features->numbers().size(), intercept),
      features_(std::move(features)),
      numbers_(sums_.blocks()),
      more_(sums_.blocks() * kLanes) {
  std::iota(numbers_.begin(), numbers_.end(), 0U);
}

void BlocksApart::add_scores(const Weights& w, const RowView& x, float* z, float* intercept) {
  for (Part* const part : {&here_, &there_}) part->index.clear(), part->value.clear();
  for (std::size_t j = 0; j < x.index.size(); ++j) {
    const std::uint32_t place = features_->place(x.index[j]);
    const bool here = place != SomeFeatures::kNone;
    Part& part = here ? here_ : there_;
    part.index.push_back(here ? place : x.index[j]);
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
  const std::span<const FeatureId> features = features_->numbers();
  for (const std::uint32_t b : numbers_) {
    float *const to = w.block(b), *const from = sums_.block(b);
    for (std::size_t i = 0; i < features.size(); ++i) {
      if (i + kAhead < features.size()) prefetch_to_write(to + std::size_t{features[i + kAhead]} * kLanes);
      const std::size_t line = std::size_t{features[i]} * kLanes;
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
