#include <algorithm>
#include <cmath>

#include "train/encoder.hpp"

namespace truemax {
namespace {
constexpr std::size_t kBagRows = 16;  // a task of a thread
}

BagEncoder::BagEncoder(const DataView& data, const TrainOptions& options)
    : data_(data), hidden_(options.hidden) {
  data.each_x([&](ExampleId, const RowView& x) {
    double sum = 0;
    longest_row_ = std::max(longest_row_, x.index.size());
    for (const float v : x.value) {
      sum += std::abs(static_cast<double>(v));
      largest_value_ = std::max(largest_value_, std::abs(static_cast<double>(v)));
    }
    largest_x_ = std::max(largest_x_, sum);
  });
}

void BagEncoder::reserve(std::size_t rows, std::size_t others, const Team& team) {
  uses_.reserve(data_.space->features, rows * longest_row_ + others, hidden_, team);
}

void BagEncoder::forward(const LearntState& state, std::span<const ExampleId> examples, float* x,
                         Team& team) {
  const BagRows rows(state.tables.features);
  team.share_chunks(examples.size(), kBagRows, [&](std::size_t /*member*/, std::size_t i) {
    rows.encode_row(data_.x(examples[i]), x + i * hidden_);
  });
}

void BagEncoder::backward(LearntState& state, std::span<const ExampleId> examples, float* dx,
                          const OtherGradients& others, const LearntRate& rate, Team& team) {
  uses_.clear();
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const RowView x = data_.x(examples[i]);
    for (std::size_t j = 0; j < x.index.size(); ++j)
      uses_.add(x.index[j], static_cast<std::uint32_t>(i), x.value[j]);
  }
  uses_.step(state.tables.features, state.features_square, others, rate, team,
             [&](float* sum, const VectorUses::Use& use) {
               add_scaled(sum, dx + std::size_t{use.row} * hidden_, use.value, hidden_);
             });
}

}  // namespace truemax
