#include "weights/weights.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/damaged_state.hpp"
#include "core/parallel.hpp"
#include "weights/class_arrays.hpp"

namespace truemax {

Weights::Weights(std::size_t classes, std::size_t features, bool with_intercept)
    : classes_(classes),
      features_(features),
      buffer_(blocks() * features * kLanes * sizeof(float)),
      with_intercept_(with_intercept),
      intercept_(with_intercept ? blocks() * kLanes : 0) {}

void Weights::allow_scaling() {
  if (scale_.empty()) scale_.assign(classes_, 1.0);
}

void Weights::fold(ClassId k) {
  const double factor = common_scale_ * scale_[k];
  scale_[k] = 1 / common_scale_;
  multiply_features(k, factor, 0, features_);
}

void Weights::multiply_features(ClassId k, double factor, std::size_t from, std::size_t end) {
  float* w = lane(k);
  for (std::size_t f = from; f < std::min(end, features_); ++f)
    if (w[f * kLanes] != 0) w[f * kLanes] = static_cast<float>(factor * static_cast<double>(w[f * kLanes]));
}

void Weights::fold_all() {
  if (!scaled()) return;
  for (std::size_t b = 0; b < blocks(); ++b) {
    std::array<double, kLanes> factor;
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      factor[lane] = b * kLanes + lane < classes_ ? scale(static_cast<ClassId>(b * kLanes + lane)) : 1;
    float* w = block(b);
    for (std::size_t f = 0; f < features_ * kLanes; ++f)
      w[f] = static_cast<float>(factor[f % kLanes] * static_cast<double>(w[f]));
  }
  scale_.clear();
  common_scale_ = 1;
}

void Weights::scale_class(ClassId k, double factor) {
  scale_[k] *= factor;
  if (common_scale_ * scale_[k] < kLeastScale) fold(k);
}

void Weights::scale_block(std::size_t b, double factor, double least) {
  const std::size_t end = std::min(classes_, (b + 1) * kLanes);
  for (std::size_t k = b * kLanes; k < end; ++k) scale_[k] *= factor;
  if (factor * least >= 2 * kLeastScale || least_scale(b) >= kLeastScale) return;  // whatever the rounding
  for (std::size_t k = b * kLanes; k < end; ++k) settle(static_cast<ClassId>(k));
}

void Weights::fold_block(std::size_t b) {
  for (std::size_t k = b * kLanes; k < std::min(classes_, (b + 1) * kLanes); ++k)
    fold(static_cast<ClassId>(k));
}

double Weights::least_scale(std::size_t b) const {
  if (!scaled()) return 1;
  const std::size_t first = b * kLanes, end = std::min(classes_, first + kLanes);
  constexpr std::size_t kChains = 4;  // a minimum waits for the one before it
  std::array<double, kChains> least;
  least.fill(scale_[first]);
  std::size_t k = first;
  for (; k + kChains <= end; k += kChains)
    for (std::size_t c = 0; c < kChains; ++c) least[c] = std::min(least[c], scale_[k + c]);
  for (; k < end; ++k) least[0] = std::min(least[0], scale_[k]);
  return common_scale_ * std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

void Weights::scale_all(double factor) {
  common_scale_ *= factor;
  if (common_scale_ >= kLeastScale) return;
  for (ClassId k = 0; k < classes_; ++k) fold(k);
  common_scale_ = 1;
  std::fill(scale_.begin(), scale_.end(), 1.0);
}

void Weights::clear() {
  // A rank may have no block of W.
  if (const std::size_t bytes = memory().size_bytes(); bytes > 0) std::memset(buffer_.data(), 0, bytes);
  std::fill(intercept_.begin(), intercept_.end(), 0.0F);
  scale_.clear();
  common_scale_ = 1;
}

void Weights::clear_class(ClassId k) {
  float* w = lane(k);
  for (std::size_t f = 0; f < features_; ++f)
    if (w[f * kLanes] != 0) w[f * kLanes] = 0;
  if (scaled()) reset_scale(k);
}

void Weights::copy_class(ClassId k, std::span<float> out) const {
  const float* from = lane(k);
  const double factor = scale(k);
  for (std::size_t f = 0; f < features_; ++f)
    out[f] =
        factor == 1 ? from[f * kLanes] : static_cast<float>(factor * static_cast<double>(from[f * kLanes]));
}

void Weights::set_class(ClassId k, std::span<const float> in) {
  float* to = lane(k);
  for (std::size_t f = 0; f < features_; ++f) to[f * kLanes] = in[f];
  if (scaled()) scale_[k] = 1 / common_scale_;
}

void Weights::set_block(std::size_t b, std::span<const float> in) {
  const std::size_t lanes = std::min(kLanes, classes_ - b * kLanes);
  float* to = block(b);
  for (std::size_t f = 0; f < features_; ++f)
    for (std::size_t lane = 0; lane < lanes; ++lane) to[f * kLanes + lane] = in[lane * features_ + f];
}

void Weights::write(StateSink& to) const {
  const BlockShare* const share = share_.get();
  to.put(all_of(share, classes_, false));
  to.put(std::uint64_t{features_});
  put_of_classes(to, share, std::span<const float>(intercept_), true);
  put_of_classes(to, share, std::span<const double>(scale_));
  to.put(common_scale_);
  put_of_classes(to, share, memory(), true);
}

void Weights::read(StateSource& from) {
  const BlockShare* const share = share_.get();
  std::uint64_t all = 0, features = 0;
  std::vector<float> intercept;
  std::vector<double> scale;
  double common = 1;
  from.get(all);
  from.get(features);
  const bool with_intercept = get_of_classes(from, share, intercept, true);
  get_of_classes(from, share, scale);
  from.get(common);
  const std::size_t numbers = from.length_of<float>();
  const std::uint64_t classes = share == nullptr ? all : share->classes();
  const std::uint64_t padded = (classes + kLanes - 1) / kLanes * kLanes;
  const bool possible =
      (all == 0) == (features == 0) && all < kUnseenClass && all == all_of(share, all, false);
  if (!possible || bytes_needed(all, features) != numbers * sizeof(float) ||
      (!intercept.empty() && intercept.size() != padded) || (!scale.empty() && scale.size() != classes))
    throw damaged_state();
  if (classes != classes_ || features != features_) {
    auto kept = std::move(share_);
    *this = Weights(classes, features, false);
    share_ = std::move(kept);
  }
  with_intercept_ = with_intercept;
  intercept_.assign(intercept.begin(), intercept.end());
  scale_.assign(scale.begin(), scale.end());
  common_scale_ = common;
  auto* const to = reinterpret_cast<char*>(memory().data());
  get_blocks(from, share, kLanes * features * sizeof(float), numbers * sizeof(float),
             [&](std::uint64_t at, std::span<const char> piece) {
               std::memcpy(to + at, piece.data(), piece.size());
             });
}

double Weights::largest_weight() const {
  double most = 0;
  for (ClassId k = 0; k < classes_; ++k) {
    const float* w = lane(k);
    float of_class = 0;
    for (std::size_t f = 0; f < features_; ++f) of_class = std::max(of_class, std::abs(w[f * kLanes]));
    most = std::max(most, scale(k) * static_cast<double>(of_class));
  }
  return most;
}

double Weights::squared_norm(ClassId k) const {
  const float* from = lane(k);
  double sum = 0;
  for (std::size_t f = 0; f < features_; ++f)
    sum += static_cast<double>(from[f * kLanes]) * static_cast<double>(from[f * kLanes]);
  return scale(k) * scale(k) * sum;
}

double Weights::largest() const {
  float most = 0;
  bool finite = true;
  const auto look = [&](const float* first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const float v = std::abs(first[i]);
      most = std::max(most, v);
      finite &= v <= std::numeric_limits<float>::max();
    }
  };
  look(buffer_.data(), blocks() * features_ * kLanes);
  look(intercept_.data(), intercept_.size());
  return finite ? most : std::numeric_limits<double>::infinity();
}

std::uint64_t Weights::features_that_fit(std::uint64_t classes, std::uint64_t bytes) {
  return std::bit_floor(bytes / std::max<std::uint64_t>(bytes_needed(classes, 1), 1));
}

std::uint64_t Weights::bytes_needed(std::uint64_t classes, std::uint64_t features) {
  const std::uint64_t blocks = classes / kLanes + (classes % kLanes == 0 ? 0 : 1);
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(blocks, features, &bytes) ||
      __builtin_mul_overflow(bytes, kLanes * sizeof(float), &bytes))
    return std::numeric_limits<std::uint64_t>::max();
  return bytes;
}

}  // namespace truemax
