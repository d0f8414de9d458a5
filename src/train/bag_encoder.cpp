#include <algorithm>
#include <cmath>

#include "train/encoder.hpp"

namespace truemax {
BagEncoder::BagEncoder(const DataView& data, const Recipe& recipe) : hidden_(recipe.hidden) {
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
  uses_.reserve(vectors, rows, longest_row_, others, hidden_, team);
}

void BagEncoder::forward(const LearntState& /*state*/, const StepRows& rows, float* x, Team& team) {
  const BagRows encoded(rows.vectors());
  const auto each_use = [&](std::size_t i, const auto& add) {
    const RowView of = rows.row(i);
    for (std::size_t j = 0; j < of.index.size(); ++j)
      add(rows.own(of.index[j]), VectorUses::Use{static_cast<std::uint32_t>(i), of.value[j]});
  };
  team.share_near(VectorUses::lists_of(rows.size()), [&](std::size_t /*member*/, std::size_t list) {
    const std::size_t first = list * VectorUses::kRowsAtOnce;
    for (std::size_t i = first; i < std::min(rows.size(), first + VectorUses::kRowsAtOnce); ++i)
      encoded.encode_row(rows.row(i), x + i * hidden_);
    uses_.list(list, rows.size(), each_use);
  });
}

void BagEncoder::backward(LearntState& state, const StepRows& rows, float* dx, const OtherGradients& others,
                          const LearntRate& rate, Team& team) {
  uses_.step(rows.size(), state.tables.features, state.features_square, others, rate, team,
             [&](float* sum, const VectorUses::Use& use, const float* /*vector*/) {
               add_scaled(sum, dx + std::size_t{use.row} * hidden_, use.value, hidden_);
             });
}

}  // namespace truemax
