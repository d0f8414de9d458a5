#include "layer/pass.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "solve/mirror.hpp"
#include "weights/fast_tile.hpp"

namespace truemax {
namespace {

constexpr std::uint32_t kEmpty = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kChunkRows = 16, kChunkClasses = 16, kChunkColumns = 64;
constexpr std::size_t kGatherAhead = 8;  // rows of W
constexpr float kTiny = 1e-8F;

void prefetch_row(const float* row, std::size_t count) {
  constexpr std::size_t kLine = 16;
  for (std::size_t i = 0; i < count; i += kLine) __builtin_prefetch(row + i);
}

}  // namespace

void LayerPass::take_rows(const PassSetup& setup, const LayerArrays& arrays, const LayerBatch& batch,
                          Team& team) {
  setup_ = setup;
  seen_ = arrays;
  all_rows_ = batch.rows;
  used_ = false;
  // A probability over u is at most 1 + 1/rho.
  const double most = std::min(kLayerLargest, kLayerLargestGradient / (1 + 1 / setup.rho));
  rows_.take(setup.classes, setup.features, arrays, batch, 0, batch.rows, most, team);
  u_.assign(rows_.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < rows_.index.size(); ++i)
    if (const auto kept = static_cast<double>(arrays.u[rows_.index[i]]); std::isfinite(kept))
      u_[i] = std::max(kept, 0.0);
  direction_.clear();
  if (arrays.columns != nullptr) find_direction(arrays);
}

// touched_, and the place of each label in it.
void LayerPass::find_touched(std::span<const ClassId> drawn, LayerWork& work) {
  touched_.assign(drawn.begin(), drawn.end());
  drawn_ = drawn.size();
  const std::size_t mask = std::bit_ceil(2 * (drawn.size() + rows_.target.size()) + 1) - 1;
  work.places.assign(mask + 1, kEmpty);
  const auto place_of = [&](ClassId k) -> std::uint32_t& {
    for (std::size_t at = (k * 0x9E3779B97F4A7C15ULL >> 32) & mask;; at = (at + 1) & mask)
      if (work.places[at] == kEmpty || touched_[work.places[at]] == k) return work.places[at];
  };
  for (std::uint32_t j = 0; j < drawn.size(); ++j) place_of(drawn[j]) = j;
  label_.clear();
  for (const ClassId y : rows_.target) {
    std::uint32_t& place = place_of(y);
    if (place == kEmpty) {
      place = static_cast<std::uint32_t>(touched_.size());
      touched_.push_back(y);
    }
    label_.push_back(place);
  }
}

void LayerPass::gather(const LayerArrays& arrays, LayerWork& work, Team& team) {
  const std::size_t features = setup_.features, count = touched_.size();
  w_.resize(count * features);
  bias_.resize(count);
  work.largest.resize(count);
  team.share_chunks(count, kChunkClasses, [&](std::size_t /*member*/, std::size_t j) {
    if (j + kGatherAhead < count) {
      prefetch_row(arrays.class_row(touched_[j + kGatherAhead]), features);
      if (arrays.bias != nullptr) __builtin_prefetch(arrays.bias + touched_[j + kGatherAhead]);
    }
    const ClassId k = touched_[j];
    std::copy_n(arrays.class_row(k), features, w_.data() + j * features);
    bias_[j] = arrays.bias == nullptr ? 0.0F : arrays.bias[k];
    work.largest[j] = std::max(largest_absolute(w_row(j), features), largest_absolute(&bias_[j], 1));
  });
  for (std::size_t j = 0; j < count; ++j)
    if (!(static_cast<double>(work.largest[j]) <= kLayerLargest))
      refuse_weights(arrays, touched_[j], features);
}

void LayerPass::score(const LayerArrays& arrays, std::span<const ClassId> drawn,
                      std::span<const double> weights, LayerWork& work, Team& team) {
  find_touched(drawn, work);
  gather(arrays, work, team);
  const std::size_t rows = rows_.size(), features = setup_.features;
  offset_.resize(drawn_);
  for (std::size_t j = 0; j < drawn_; ++j)
    offset_[j] = bias_[j] + static_cast<float>(weights[j] == 1 ? 0 : std::log(weights[j]));
  p_.resize(rows * drawn_);
  factor_.resize(rows);
  if (rows > 0 && drawn_ > 0)
    work.scores.multiply({{rows_.x.data(), rows, features, features}, false},
                         {{w_.data(), drawn_, features, features}, true}, p_.data(), drawn_, team);
  const bool forgets = setup_.complete || std::isinf(setup_.rho);
  team.share_chunks(rows, kChunkRows, [&](std::size_t /*member*/, std::size_t i) {
    const std::uint32_t label = label_[i];
    const float score = dot(x_row(i), w_row(label), features) + bias_[label];
    float highest = 0;
    const double log_sum = exp_scores(p_.data() + i * drawn_, offset_.data(), drawn_, score,
                                      std::min<std::size_t>(label, drawn_), &highest);
    u_[i] = forgets || std::isnan(u_[i]) ? softplus(log_sum)
                                         : std::max(Mirror(u_[i], setup_.rho).from_log_sum(log_sum), 0.0);
    factor_[i] = std::isinf(log_sum) ? 0.0 : std::exp(static_cast<double>(highest) - u_[i]);
  });
}

void LayerPass::require_same_shapes(const LayerArrays& arrays) const {
  constexpr const char* kAdvice = "give backward the arrays of its forward";
  if (arrays.rows != seen_.rows || (arrays.rows > 0 && arrays.u == nullptr))
    throw UserError(
        fmt::format("u has {} rows, and had {} in forward; {}", arrays.rows, seen_.rows, kAdvice));
  if ((arrays.bias == nullptr) != (seen_.bias == nullptr))
    throw UserError(fmt::format("there is {} bias, and there was {} in forward; {}",
                                arrays.bias == nullptr ? "no" : "a", seen_.bias == nullptr ? "none" : "one",
                                kAdvice));
  if (arrays.weight_stride != seen_.weight_stride)
    throw UserError(fmt::format("the classes of weight are {} numbers apart, and were {} in forward; {}",
                                arrays.weight_stride, seen_.weight_stride, kAdvice));
  if (arrays.recent_size != seen_.recent_size)
    throw UserError(fmt::format("recent has room for {} labels, and had for {} in forward; {}",
                                arrays.recent_size, seen_.recent_size, kAdvice));
}

void LayerPass::losses(float* out) const {
  std::fill(out, out + all_rows_, 0.0F);
  for (std::size_t i = 0; i < rows_.size(); ++i) out[rows_.row[i]] = static_cast<float>(u_[i]);
}

// RMSprop moves a number by at most step sqrt(D/(1 - keep)): one may have all of its row's gradient. The
// smoothed part is a mean of gradients that the squares still know, and adds at most as much (1.01 times). A
// column may move further.
void LayerPass::require_room_to_move(const LayerArrays& arrays, double step, LayerWork& work,
                                     Team& team) const {
  constexpr double kParts = 2.1;
  const double growth =
      kParts * kLayerMostOfColumn * step * std::sqrt(static_cast<double>(setup_.features) / (1 - kLayerKeep));
  work.largest.resize(touched_.size());
  team.share_chunks(touched_.size(), kChunkClasses, [&](std::size_t /*member*/, std::size_t j) {
    work.largest[j] = largest_weight(arrays, touched_[j], setup_.features);
  });
  for (std::size_t j = 0; j < touched_.size(); ++j) {
    const auto now = static_cast<double>(work.largest[j]);
    if (!(now <= kLayerLargest)) refuse_weights(arrays, touched_[j], setup_.features);
    if (!(now + growth <= kLayerLargest))
      throw DivergenceError(fmt::format(
          "a step of {:.3g} could take the weights of class {} from {:.3g} beyond {:.0e}; use a smaller step",
          step, touched_[j], now, kLayerLargest));
  }
}

bool LayerPass::differentiate(const LayerArrays& arrays, const float* gradient, double step, float* dx,
                              std::ptrdiff_t dx_stride, LayerWork& work, Team& team) {
  if (used_)
    throw UserError("this batch has been trained on already; call forward again before another backward");
  const std::size_t rows = rows_.size(), features = setup_.features, touched = touched_.size();
  double sum = 0;
  for (const std::uint32_t i : rows_.row) {
    if (!std::isfinite(gradient[i]))
      throw UserError(
          fmt::format("the gradient of the loss is {} in row {}; it must be finite", gradient[i], i));
    sum += std::abs(static_cast<double>(gradient[i]));
  }
  if (sum > 0) require_room_to_move(arrays, step, work, team);
  used_ = true;
  if (dx != nullptr)
    for (std::size_t i = 0; i < all_rows_; ++i)
      std::fill_n(dx + static_cast<std::ptrdiff_t>(i) * dx_stride, features, 0.0F);
  share_.assign(rows, 0.0);
  if (!(sum > 0)) return false;
  of_label_.resize(rows);
  team.share_chunks(rows, kChunkRows, [&](std::size_t /*member*/, std::size_t i) {
    share_[i] = static_cast<double>(gradient[rows_.row[i]]) / sum;
    of_label_[i] = static_cast<float>(
        scale_row(p_.data() + i * drawn_, drawn_, static_cast<float>(share_[i] * factor_[i])));
  });
  const Factor p{{p_.data(), rows, drawn_, drawn_}, false};
  if (dx != nullptr) {
    work.dx.resize(rows * features);
    if (drawn_ > 0)
      work.to_rows.multiply(p, {{w_.data(), drawn_, features, features}, false}, work.dx.data(), features,
                            team);
    else
      std::fill(work.dx.begin(), work.dx.end(), 0.0F);
    team.share_chunks(rows, kChunkRows, [&](std::size_t /*member*/, std::size_t i) {
      float* const from = work.dx.data() + i * features;
      add_scaled(from, w_row(label_[i]), -of_label_[i], features);
      float* const to = dx + static_cast<std::ptrdiff_t>(rows_.row[i]) * dx_stride;
      // In double: the sum of float gradients may exceed float.
      for (std::size_t c = 0; c < features; ++c)
        to[c] = static_cast<float>(sum * static_cast<double>(from[c]));
    });
  }
  work.gradient.resize(touched * features);
  if (drawn_ > 0)
    work.to_classes.multiply({p.of, true}, {{rows_.x.data(), rows, features, features}, false},
                             work.gradient.data(), features, team);
  std::fill(work.gradient.begin() + static_cast<std::ptrdiff_t>(drawn_ * features), work.gradient.end(),
            0.0F);
  work.bias_gradient.assign(touched, 0.0F);
  if (arrays.bias != nullptr)
    team.share((drawn_ + kChunkColumns - 1) / kChunkColumns, [&](std::size_t /*member*/, std::size_t chunk) {
      const std::size_t first = chunk * kChunkColumns, count = std::min(kChunkColumns, drawn_ - first);
      for (std::size_t i = 0; i < rows; ++i)
        add_scaled(work.bias_gradient.data() + first, p_.data() + i * drawn_ + first, 1, count);
    });
  for (std::size_t i = 0; i < rows; ++i) {
    add_scaled(work.gradient.data() + label_[i] * features, x_row(i), -of_label_[i], features);
    work.bias_gradient[label_[i]] -= of_label_[i];
  }
  return true;
}

// The direction of the mean of x, and how far columns move, by the running means of earlier steps: no class
// waits for the others. As in Adafactor, the mean square of a number's gradient is taken as that of its class
// times that of its column, relative to all columns.
void LayerPass::find_direction(const LayerArrays& arrays) {
  const std::size_t features = setup_.features;
  direction_.resize(features), of_column_.resize(features);
  const float *const mean = arrays.columns, *const square = arrays.columns + features;
  double of_mean = 0, of_square = 0;
  for (std::size_t c = 0; c < features; ++c) {
    of_mean += static_cast<double>(mean[c]) * static_cast<double>(mean[c]);
    of_square += static_cast<double>(square[c]) / static_cast<double>(features);
  }
  const double scale = of_mean > 0 && std::isfinite(of_mean) ? 1 / std::sqrt(of_mean) : 0;
  for (std::size_t c = 0; c < features; ++c) {
    const auto of_column = static_cast<double>(square[c]);
    direction_[c] = static_cast<float>(scale * static_cast<double>(mean[c]));
    of_column_[c] = static_cast<float>(of_column > 0 ? std::clamp(std::sqrt(of_square / of_column),
                                                                  1 / kLayerMostOfColumn, kLayerMostOfColumn)
                                                     : 1);
  }
}

// For the next step.
void LayerPass::keep_columns(const LayerArrays& arrays, LayerWork& work) const {
  constexpr float kMostSquare = 1e30F;
  const std::size_t features = setup_.features;
  std::vector<float>&of_batch = work.mean, &sum = work.square;
  of_batch.assign(features, 0.0F), sum.assign(features, 0.0F);
  for (std::size_t i = 0; i < rows_.size(); ++i)
    add_scaled(of_batch.data(), x_row(i), static_cast<float>(std::abs(share_[i])), features);
  for (std::size_t j = 0; j < touched_.size(); ++j) {
    const float* const g = work.gradient.data() + j * features;
    for (std::size_t c = 0; c < features; ++c) sum[c] += g[c] * g[c];
  }
  float *const mean = arrays.columns, *const square = arrays.columns + features;
  for (std::size_t c = 0; c < features; ++c) {
    mean[c] += static_cast<float>(1 - kLayerKeepMean) * (of_batch[c] - mean[c]);
    square[c] += static_cast<float>(1 - kLayerKeep) * (std::min(sum[c], kMostSquare) - square[c]);
  }
}

void LayerPass::move(const LayerArrays& arrays, double step, LayerWork& work, Team& team) {
  constexpr std::int64_t kTurn = std::int64_t{1} << 24;  // whole numbers below are exact in float
  constexpr auto kNew = static_cast<float>(1 - kLayerKeep), kNewMean = static_cast<float>(1 - kLayerSmooth);
  const std::size_t features = setup_.features;
  const auto rate = static_cast<float>(step);
  if (direction_.empty()) find_direction(arrays);  // forward was not given the columns
  const std::int64_t steps = arrays.counters[0] + 1, now = steps % kTurn;
  const auto weight = static_cast<float>(-std::expm1(static_cast<double>(steps) * std::log(kLayerKeep)));
  const float *const direction = direction_.data(), *const of_column = of_column_.data();
  team.share_chunks(touched_.size(), kChunkClasses, [&](std::size_t /*member*/, std::size_t j) {
    const ClassId k = touched_[j];
    if (j + kGatherAhead < touched_.size())
      __builtin_prefetch(arrays.moments + touched_[j + kGatherAhead], 1);
    const float* const g = work.gradient.data() + j * features;
    ClassMoments& m = arrays.moments[k];
    // A class that was not touched had gradient 0.
    const std::int64_t last =
        m.last >= 0 && m.last < static_cast<float>(kTurn) ? static_cast<std::int64_t>(m.last) : 0;
    const auto gap = static_cast<double>((now - last + kTurn) % kTurn);
    const auto keep = static_cast<float>(gap == 1 ? kLayerKeep : std::pow(kLayerKeep, gap)),
               smooth = static_cast<float>(gap == 1 ? kLayerSmooth : std::pow(kLayerSmooth, gap));
    m.last = static_cast<float>(now);
    m.mean_weight = smooth * m.mean_weight + kNewMean;
    m.square = keep * m.square + kNew * (dot(g, g, features) / static_cast<float>(features));
    const float along = dot(g, direction, features);
    m.along = smooth * m.along + kNewMean * along;
    const float of_weight = -rate / (std::sqrt(m.square / weight) + kTiny);
    const float smoothed = m.along / m.mean_weight - along;
    float* const w = arrays.class_row(k);
    for (std::size_t c = 0; c < features; ++c)
      w[c] += of_weight * of_column[c] * (g[c] + smoothed * direction[c]);
    if (arrays.bias == nullptr) return;
    const float of_bias = work.bias_gradient[j];
    m.bias_square = keep * m.bias_square + kNew * of_bias * of_bias;
    m.bias_mean = smooth * m.bias_mean + kNewMean * of_bias;
    arrays.bias[k] -= rate * (m.bias_mean / m.mean_weight) / (std::sqrt(m.bias_square / weight) + kTiny);
  });
  keep_columns(arrays, work);
  for (std::size_t i = 0; i < rows_.index.size(); ++i)
    if (share_[i] != 0) arrays.u[rows_.index[i]] = static_cast<float>(u_[i]);
}

}  // namespace truemax
