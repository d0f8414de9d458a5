#include "weights/weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace truemax {

Weights::Weights(std::size_t classes, std::size_t features, bool with_intercept)
    : classes_(classes),
      features_(features),
      buffer_(blocks() * features * kLanes * sizeof(float)),
      intercept_(with_intercept ? blocks() * kLanes : 0) {}

void Weights::copy_class(ClassId k, std::span<float> out) const {
  const float* from = lane(k);
  for (std::size_t f = 0; f < features_; ++f) out[f] = from[f * kLanes];
}

void Weights::set_class(ClassId k, std::span<const float> in) {
  float* to = lane(k);
  for (std::size_t f = 0; f < features_; ++f) to[f * kLanes] = in[f];
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

std::uint64_t Weights::bytes_needed(std::uint64_t classes, std::uint64_t features) {
  const std::uint64_t blocks = classes / kLanes + (classes % kLanes == 0 ? 0 : 1);
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(blocks, features, &bytes) ||
      __builtin_mul_overflow(bytes, kLanes * sizeof(float), &bytes))
    return std::numeric_limits<std::uint64_t>::max();
  return bytes;
}

}  // namespace truemax
