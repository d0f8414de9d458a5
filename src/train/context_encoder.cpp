// Encoders of the words before or around a word.
#include <algorithm>
#include <cmath>

#include "train/encoder.hpp"

namespace truemax {
namespace {

constexpr std::size_t kContextRows = 16;  // a task of a thread
constexpr std::size_t kLayerRows = 32;

// Every word of a row is a use of its vector; row i, place p is use i width + p.
void list_words(VectorUses& uses, std::size_t list, const StepRows& rows, std::size_t width,
                std::size_t left_out) {
  uses.list(list, rows.size(), [&](std::size_t i, const auto& add) {
    const RowView x = rows.row(i);
    for (std::size_t p = 0; p < x.index.size(); ++p) {
      const FeatureId own = rows.own(x.index[p]);
      if (p != left_out && own != StepRows::kNotOwn)
        add(own, VectorUses::Use{static_cast<std::uint32_t>(i * width + p), 1});
    }
  });
}

}  // namespace

ContextEncoder::ContextEncoder(const DataView& data, const Recipe& recipe)
    : hidden_(recipe.hidden), width_(data.space->width()), fixed_(data.space->encoder == EncoderKind::cbow) {}

void ContextEncoder::reserve(std::size_t rows, std::size_t others, std::size_t vectors, const Team& team) {
  uses_.reserve(vectors, rows, width_, others, hidden_, team);
  factors_.resize(width_ * hidden_);
  gradient_.resize(width_ * hidden_);
}

void ContextEncoder::forward(const LearntState& state, const StepRows& rows, float* x, Team& team) {
  const ContextRows encoded(rows.vectors(), state.tables);
  team.share_near(VectorUses::lists_of(rows.size()), [&](std::size_t /*member*/, std::size_t list) {
    const std::size_t first = list * VectorUses::kRowsAtOnce;
    for (std::size_t i = first; i < std::min(rows.size(), first + VectorUses::kRowsAtOnce); ++i)
      encoded.encode_row(rows.row(i), x + i * hidden_);
    list_words(uses_, list, rows, width_, fixed_ ? width_ / 2 : width_);
  });
}

void ContextEncoder::backward(LearntState& state, const StepRows& rows, float* dx,
                              const OtherGradients& others, const LearntRate& rate, Team& team) {
  const Embedding& mixing = state.tables.mixing;
  std::copy(mixing.numbers.begin(), mixing.numbers.end(), factors_.begin());
  if (!fixed_) update_factors(state, rows, dx, rate, team);
  uses_.step(rows.size(), state.tables.features, state.features_square, others, rate, team,
             [&](float* sum, const VectorUses::Use& use, const float* /*vector*/) {
               const std::size_t i = use.row / width_, p = use.row % width_;
               add_product(sum, dx + i * hidden_, factors_.data() + p * hidden_, hidden_);
             });
}

void ContextEncoder::update_factors(LearntState& state, const StepRows& rows, const float* dx,
                                    const LearntRate& rate, Team& team) {
  EncoderTables& tables = state.tables;
  team.share(width_, [&](std::size_t /*member*/, std::size_t p) {
    float* const g = gradient_.data() + p * hidden_;
    std::fill(g, g + hidden_, 0.0F);
    for (std::size_t i = 0; i < rows.size(); ++i)
      add_product(g, dx + i * hidden_, rows.vectors().row(rows.row(i).index[p]), hidden_);
    rms_step(tables.mixing.row(p), state.mixing_square.data() + p * hidden_, g, hidden_, rate.rate,
             rate.keep);
  });
}

double ContextEncoder::largest_x(double parameter) const {
  return static_cast<double>(width_) * parameter * std::max(1.0, parameter);
}

double ContextEncoder::largest_gradient(double parameter) const {
  return static_cast<double>(width_) * std::max(1.0, parameter);
}

LayerEncoder::LayerEncoder(const DataView& data, const Recipe& recipe)
    : hidden_(recipe.hidden), width_(data.space->width()), dropout_(recipe.dropout, recipe.seed, 1) {}

void LayerEncoder::reserve(std::size_t rows, std::size_t others, std::size_t vectors, const Team& team) {
  const std::size_t wide = width_ * hidden_;
  uses_.reserve(vectors, rows, width_, others, hidden_, team);
  dropout_.reserve(rows, wide);
  words_.resize(rows * wide);
  slope_.resize(rows * wide);
  x_.resize(rows * hidden_);
  gradient_.resize((wide + 1) * hidden_);
  to_x_.reserve(wide, hidden_);
  to_words_.reserve(hidden_, wide);
  to_layer_.reserve(rows, hidden_);
}

void LayerEncoder::forward(const LearntState& state, const StepRows& rows, float* x, Team& team) {
  const Embedding& layer = state.tables.mixing;
  const std::size_t n = rows.size(), wide = width_ * hidden_;
  team.share_near(VectorUses::lists_of(n), [&](std::size_t /*member*/, std::size_t list) {
    const std::size_t first = list * VectorUses::kRowsAtOnce;
    for (std::size_t i = first; i < std::min(n, first + VectorUses::kRowsAtOnce); ++i)
      side_by_side(rows.row(i), rows.vectors(), words_.data() + i * wide);
    list_words(uses_, list, rows, width_, width_);
  });
  dropout_.draw(state.updates, words_.data(), n, wide, team);
  to_x_.multiply({{words_.data(), n, wide, wide}, false},
                 {{layer.numbers.data(), wide, hidden_, hidden_}, false}, x, hidden_, team);
  team.share_chunks(n, kContextRows, [&](std::size_t /*member*/, std::size_t i) {
    tanh_row(x + i * hidden_, layer.row(wide), hidden_);
    std::copy_n(x + i * hidden_, hidden_, x_.data() + i * hidden_);
  });
}

void LayerEncoder::backward(LearntState& state, const StepRows& rows, float* dx, const OtherGradients& others,
                            const LearntRate& rate, Team& team) {
  const Embedding& layer = state.tables.mixing;
  const std::size_t n = rows.size(), wide = width_ * hidden_;
  team.share_chunks(n, kContextRows, [&](std::size_t /*member*/, std::size_t i) {
    tanh_slope(dx + i * hidden_, x_.data() + i * hidden_, hidden_);
  });
  to_words_.multiply({{dx, n, hidden_, hidden_}, false},
                     {{layer.numbers.data(), wide, hidden_, hidden_}, true}, slope_.data(), wide, team);
  dropout_.apply(slope_.data(), n, wide, team);
  update_layer(state, n, dx, rate, team);
  uses_.step(rows.size(), state.tables.features, state.features_square, others, rate, team,
             [&](float* sum, const VectorUses::Use& use, const float* /*vector*/) {
               add_scaled(sum, slope_.data() + std::size_t{use.row} * hidden_, 1, hidden_);
             });
}

void LayerEncoder::update_layer(LearntState& state, std::size_t rows, const float* dx, const LearntRate& rate,
                                Team& team) {
  Embedding& layer = state.tables.mixing;
  const std::size_t wide = width_ * hidden_;
  to_layer_.multiply({{words_.data(), rows, wide, wide}, true}, {{dx, rows, hidden_, hidden_}, false},
                     gradient_.data(), hidden_, team);
  float* const of_bias = gradient_.data() + wide * hidden_;
  std::fill(of_bias, of_bias + hidden_, 0.0F);
  for (std::size_t i = 0; i < rows; ++i) add_scaled(of_bias, dx + i * hidden_, 1, hidden_);
  team.share_chunks(wide + 1, kLayerRows, [&](std::size_t /*member*/, std::size_t r) {
    float* const g = gradient_.data() + r * hidden_;
    if (rate.ridge > 0 && r < wide) add_scaled(g, layer.row(r), rate.ridge, hidden_);
    rms_step(layer.row(r), state.mixing_square.data() + r * hidden_, g, hidden_, rate.rate, rate.keep);
  });
}

double LayerEncoder::largest_x(double parameter) const {
  return (static_cast<double>(width_ * hidden_) * parameter + 1) * std::max(1.0, parameter) /
         (1 - dropout_.rate());
}

double LayerEncoder::largest_gradient(double parameter) const {
  return static_cast<double>(width_ * hidden_) * std::max(1.0, parameter) / (1 - dropout_.rate());
}

}  // namespace truemax
