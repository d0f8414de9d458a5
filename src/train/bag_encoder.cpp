#include <algorithm>
#include <cmath>
#include <limits>

#include "train/encoder.hpp"

namespace truemax {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kRowsAtOnce = 16, kFeaturesAtOnce = 32;

}  // namespace

BagEncoder::BagEncoder(const DataView& data) : data_(data), place_(data.space->features, kNone) {
  for (const ExampleId i : data.examples()) {
    double sum = 0;
    longest_row_ = std::max(longest_row_, data.x(i).index.size());
    for (const float v : data.x(i).value) {
      sum += std::abs(static_cast<double>(v));
      largest_value_ = std::max(largest_value_, std::abs(static_cast<double>(v)));
    }
    largest_x_ = std::max(largest_x_, sum);
  }
}

void BagEncoder::reserve(std::size_t rows, std::size_t h, const Team& team) {
  const std::size_t uses = rows * longest_row_;
  uses_.reserve(uses);
  features_.reserve(std::min(uses, place_.size()));
  begin_.reserve(std::min(uses, place_.size()) + 1);
  gradient_.assign(team.size(), std::vector<float>(h));
}

void BagEncoder::forward(const LearntState& state, std::span<const ExampleId> examples, float* x,
                         Team& team) {
  const BagRows rows(state.features);
  team.share_chunks(examples.size(), kRowsAtOnce, [&](std::size_t /*member*/, std::size_t i) {
    rows.encode(data_.x(examples[i]), x + i * rows.columns());
  });
}

// By counting: twice over the features of the rows.
void BagEncoder::gather_uses(std::span<const ExampleId> examples) {
  for (const FeatureId f : features_) place_[f] = kNone;
  features_.clear();
  begin_.assign(1, 0);
  for (const ExampleId i : examples)
    for (const FeatureId f : data_.x(i).index) {
      if (place_[f] == kNone) {
        place_[f] = static_cast<std::uint32_t>(features_.size());
        features_.push_back(f);
        begin_.push_back(0);
      }
      ++begin_[place_[f] + 1];
    }
  for (std::size_t p = 0; p < features_.size(); ++p) begin_[p + 1] += begin_[p];
  uses_.resize(begin_.back());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const RowView x = data_.x(examples[i]);
    for (std::size_t j = 0; j < x.index.size(); ++j)
      uses_[begin_[place_[x.index[j]]]++] = {static_cast<std::uint32_t>(i), x.value[j]};
  }
  for (std::size_t p = features_.size(); p > 0; --p) begin_[p] = begin_[p - 1];
  begin_[0] = 0;
}

void BagEncoder::backward(LearntState& state, std::span<const ExampleId> examples, const float* dx,
                          const LearntRate& rate, Team& team) {
  gather_uses(examples);
  const std::size_t h = state.features.columns;
  team.share_chunks(features_.size(), kFeaturesAtOnce, [&](std::size_t member, std::size_t p) {
    float* const g = gradient_[member].data();
    float* const e = state.features.row(features_[p]);
    std::fill(g, g + h, 0.0F);
    for (std::size_t u = begin_[p]; u < begin_[p + 1]; ++u)
      add_scaled(g, dx + std::size_t{uses_[u].row} * h, uses_[u].value, h);
    if (rate.ridge > 0) add_scaled(g, e, rate.ridge, h);
    rms_step(e, state.features_square.data() + std::size_t{features_[p]} * h, g, h, rate.rate, rate.keep);
  });
}

}  // namespace truemax
