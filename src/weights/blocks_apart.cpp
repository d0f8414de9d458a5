#include "weights/blocks_apart.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "weights/blocks.hpp"

namespace truemax {

SomeFeatures::SomeFeatures(std::vector<FeatureId> some, std::size_t all)
    : some_(std::move(some)), place_(all, kNone) {
  for (std::size_t i = 0; i < some_.size(); ++i) place_[some_[i]] = static_cast<Place>(i);
}

void SplitRows::Part::reserve(std::size_t count) {
  if (index.size() >= count) return;
  index.resize(2 * count);
  value.resize(2 * count);
}

void SplitRows::add(const RowView& x, const SomeFeatures& some) {
  const End begin = end_.empty() ? End{} : end_.back();
  const std::size_t count = x.index.size();
  here_.reserve(begin.here + count);
  there_.reserve(begin.there + count);
  FeatureId* const index_here = here_.index.data();
  FeatureId* const index_there = there_.index.data();
  float* const value_here = here_.value.data();
  float* const value_there = there_.value.data();
  End end = begin;
  // To both parts, of which one counts it: a branch could not be predicted.
  for (std::size_t j = 0; j < count; ++j) {
    const SomeFeatures::Place place = some.place(x.index[j]);
    index_here[end.here] = place, value_here[end.here] = x.value[j];
    index_there[end.there] = x.index[j], value_there[end.there] = x.value[j];
    const std::size_t is_here = place != SomeFeatures::kNone ? 1 : 0;
    end.here += is_here, end.there += 1 - is_here;
  }
  end_.push_back(end);
}

SplitRow SplitRows::row(std::size_t i) const {
  const End begin = i == 0 ? End{} : end_[i - 1], end = end_[i];
  const auto part = [](const Part& of, std::size_t from, std::size_t to) {
    return RowView{{of.index.data() + from, to - from}, {of.value.data() + from, to - from}};
  };
  return {part(here_, begin.here, end.here), part(there_, begin.there, end.there)};
}

BlocksApart::BlocksApart(std::size_t classes, std::shared_ptr<const SomeFeatures> features, bool intercept,
                         std::size_t begin)
    : seen_(classes, features->numbers().size(), intercept),
      added_(classes, features->numbers().size(), intercept),
      features_(std::move(features)),
      begin_(begin),
      numbers_(seen_.blocks()),
      more_(seen_.blocks() * kLanes) {
  std::iota(numbers_.begin(), numbers_.end(), 0U);
}

void BlocksApart::start(const Weights& w) {
  constexpr std::size_t kAhead = 16;
  const std::span<const FeatureId> features = features_->numbers();
  for (const std::uint32_t b : numbers_) {
    const float* const from = w.block(b);
    for (std::size_t i = 0; i < features.size(); ++i) {
      if (i + kAhead < features.size()) __builtin_prefetch(from + std::size_t{features[i + kAhead]} * kLanes);
      std::copy_n(from + std::size_t{features[i]} * kLanes, kLanes, seen_.block(b) + i * kLanes);
    }
  }
  std::copy_n(w.intercept().begin(), seen_.intercept().size(), seen_.intercept().begin());
}

void BlocksApart::score(const Weights& w, const SplitRow& x, float* z, float* intercept) {
  score_blocks(w, x.there, numbers_, z);
  score_blocks(seen_, x.here, numbers_, more_.data());
  multiply_by_scales(w, numbers_, more_.data());
  for (std::size_t k = 0; k < more_.size(); ++k) z[k] += more_[k];
  if (!w.has_intercept()) return;
  copy_block_intercepts(seen_, numbers_, intercept);
  for (std::size_t k = 0; k < more_.size(); ++k) z[k] += intercept[k];
}

void BlocksApart::add(Weights& w, const SplitRow& x, const float* c) {
  for (Weights* const to : {&seen_, &added_}) add_to_block_intercepts(*to, numbers_, c);
  if (w.scaled()) {
    for (const std::uint32_t b : numbers_) divide_by_scales(w, b, c + b * kLanes, &more_[b * kLanes]);
    c = more_.data();
  }
  add_to_memory(w, x.there, numbers_, c);
  for (Weights* const to : {&seen_, &added_}) add_to_memory(*to, x.here, numbers_, c);
}

void BlocksApart::add_up(Weights& w) {
  constexpr std::size_t kAhead = 16;
  const std::span<const FeatureId> features = features_->numbers();
  const std::size_t count = features.size();
  const auto place = [&](std::size_t n) { return begin_ + n < count ? begin_ + n : begin_ + n - count; };
  for (const std::uint32_t b : numbers_) {
    float *const to = w.block(b), *const from = added_.block(b);
    for (std::size_t n = 0; n < count; ++n) {
      if (n + kAhead < count) prefetch_to_write(to + std::size_t{features[place(n + kAhead)]} * kLanes);
      const std::size_t i = place(n), line = std::size_t{features[i]} * kLanes;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        to[line + lane] += from[i * kLanes + lane];
        from[i * kLanes + lane] = 0;
      }
    }
  }
  const std::span<float> intercept = added_.intercept();
  for (std::size_t k = 0; k < intercept.size(); ++k) {
    w.intercept()[k] += intercept[k];
    intercept[k] = 0;
  }
}

}  // namespace truemax
