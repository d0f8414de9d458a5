#include "weights/block_part.hpp"

#include <algorithm>

#include "weights/blocks.hpp"

namespace truemax {

std::size_t BlockPart::lanes(const Weights& w) const {
  return std::min(kLanes, w.classes() - std::size_t{block_} * kLanes);
}

void BlockPart::start(const Weights& w) {
  for (std::size_t lane = 0; lane < lanes(w); ++lane)
    scale_[lane] = w.own_scale(static_cast<ClassId>(block_ * kLanes + lane));
  alike_ = false;
  compare(w);
}

void BlockPart::compare(const Weights& w) {
  if (alike_) return;
  alike_ = std::all_of(scale_.begin(), scale_.begin() + lanes(w), [&](double s) { return s == scale_[0]; });
}

void BlockPart::finish(Weights& w) const {
  for (std::size_t lane = 0; lane < lanes(w); ++lane)
    w.set_own_scale(static_cast<ClassId>(block_ * kLanes + lane), scale_of(lane));
}

double BlockPart::least_scale(const Weights& w) const {
  if (alike_) return w.common_scale() * scale_[0];
  return w.common_scale() * *std::min_element(scale_.begin(), scale_.begin() + lanes(w));
}

// Leaves the scale as it is.
void BlockPart::fold_lane(Weights& w, std::size_t lane) {
  make_adds(w);
  w.multiply_features(static_cast<ClassId>(block_ * kLanes + lane), w.common_scale() * scale_of(lane), from_,
                      end_);
}

void BlockPart::fold(Weights& w) {
  for (std::size_t lane = 0; lane < lanes(w); ++lane) fold_lane(w, lane);
  scale_.fill(1 / w.common_scale());
  alike_ = true;
}

void BlockPart::add(Weights& w, const RowView& x, const float* c) {
  float* const scaled = later_->add(w, x, block_);
  if (alike_) return divide_by_scale(c, w.common_scale() * scale_[0], scaled);
  std::fill(scaled, scaled + kLanes, 0.0F);
  for (std::size_t lane = 0; lane < lanes(w); ++lane)
    scaled[lane] = static_cast<float>(static_cast<double>(c[lane]) / (w.common_scale() * scale_[lane]));
}

void BlockPart::scale(Weights& w, double factor) {
  if (alike_)
    scale_[0] *= factor;
  else
    for (double& s : scale_) s *= factor;
  if (least_scale(w) >= Weights::kLeastScale) return;
  if (alike_) return fold(w);
  for (std::size_t lane = 0; lane < lanes(w); ++lane)
    if (w.common_scale() * scale_[lane] < Weights::kLeastScale) {
      fold_lane(w, lane);
      scale_[lane] = 1 / w.common_scale();
    }
  compare(w);
}

}  // namespace truemax
