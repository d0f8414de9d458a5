#include "weights/block_part.hpp"

#include <algorithm>

#include "weights/blocks.hpp"

namespace truemax {

std::size_t BlockPart::lanes(const Weights& w) const {
  return std::min(kLanes, w.classes() - std::size_t{block_} * kLanes);
}

void BlockPart::start(const Weights& w) {
  scale_.fill(1);
  for (std::size_t lane = 0; lane < lanes(w); ++lane)
    scale_[lane] = w.own_scale(static_cast<ClassId>(block_ * kLanes + lane));
}

void BlockPart::finish(Weights& w) const {
  for (std::size_t lane = 0; lane < lanes(w); ++lane)
    w.set_own_scale(static_cast<ClassId>(block_ * kLanes + lane), scale_[lane]);
}

double BlockPart::least_scale(const Weights& w) const {
  return w.common_scale() * *std::min_element(scale_.begin(), scale_.begin() + lanes(w));
}

void BlockPart::fold_lane(Weights& w, std::size_t lane) {
  w.multiply_features(static_cast<ClassId>(block_ * kLanes + lane), w.common_scale() * scale_[lane], from_,
                      end_);
  scale_[lane] = 1 / w.common_scale();
}

void BlockPart::fold(Weights& w) {
  for (std::size_t lane = 0; lane < lanes(w); ++lane) fold_lane(w, lane);
}

void BlockPart::add(Weights& w, RowView x, const float* c) const {
  alignas(64) std::array<float, kLanes> scaled{};
  for (std::size_t lane = 0; lane < lanes(w); ++lane)
    scaled[lane] = static_cast<float>(static_cast<double>(c[lane]) / (w.common_scale() * scale_[lane]));
  add_to_memory(w, x, {&block_, 1}, scaled.data());
}

void BlockPart::scale(Weights& w, double factor) {
  for (double& s : scale_) s *= factor;
  if (least_scale(w) >= Weights::kLeastScale) return;
  for (std::size_t lane = 0; lane < lanes(w); ++lane)
    if (w.common_scale() * scale_[lane] < Weights::kLeastScale) fold_lane(w, lane);
}

}  // namespace truemax
