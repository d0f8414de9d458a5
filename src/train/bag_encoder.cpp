#include <algorithm>
#include <cmath>

#include "train/encoder.hpp"

namespace truemax {
namespace {
constexpr std::size_t kBagRows = 16;  // a task of a thread
}

BagEncoder::BagEncoder(const DataView& data, const TrainOptions& options) : hidden_(options.hidden) {
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

void BagEncoder::reserve(std::size_t rows, std::size_t others, std::size_t vectors, const Team& team) {
  uses_.reserve(vectors, rows * longest_row_ + others, hidden_, team);
}

void BagEncoder::forward(const LearntState& /*state*/, const StepRows& rows, float* x, Team& team) {
  const BagRows encoded(rows.vectors());
  team.share_chunks(rows.size(), kBagRows, [&](std::size_t /*member*/, std::size_t i) {
    encoded.encode_row(rows.row(i), x + i * hidden_);
  });
}

void BagEncoder::backward(LearntState& state, const StepRows& rows, float* dx, const OtherGradients& others,
                          const LearntRate& rate, Team& team) {
  uses_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowView x = rows.row(i);
    for (std::size_t j = 0; j < x.index.size(); ++j)
      uses_.add(rows.own(x.index[j]), static_cast<std::uint32_t>(i), x.value[j]);
  }
  uses_.step(state.tables.features, state.features_square, others, rate, team,
             [&](float* sum, const VectorUses::Use& use, const float* /*vector*/) {
               add_scaled(sum, dx + std::size_t{use.row} * hidden_, use.value, hidden_);
             });
}

}  // namespace truemax
