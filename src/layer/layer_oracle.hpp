// For tests: a slow and obvious layer in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "layer/layer.hpp"

namespace truemax {

// A layer's arrays with random numbers.
struct TestLayer {
  TestLayer(std::size_t all, std::size_t wide, std::size_t rows, bool with_bias, unsigned seed,
            double scale = 1, std::size_t padding = 0)
      : classes(all),
        features(wide),
        stride(features + padding),
        weight(classes * stride),
        bias(with_bias ? classes : 0),
        u(rows, std::numeric_limits<float>::quiet_NaN()),
        moments(classes),
        columns(2 * features),
        recent(2 * classes),
        recent_count(classes) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (float& w : weight) w = static_cast<float>(scale * normal(random));
    for (float& b : bias) b = static_cast<float>(scale * normal(random));
  }
  LayerArrays arrays() {
    LayerArrays a;
    a.weight = weight.data(), a.weight_stride = static_cast<std::ptrdiff_t>(stride);
    a.bias = bias.empty() ? nullptr : bias.data();
    a.moments = moments.data(), a.columns = columns.data(), a.u = u.data(), a.rows = u.size();
    a.recent = recent.data(), a.recent_size = recent.size(), a.recent_count = recent_count.data();
    a.counters = counters.data();
    return a;
  }
  double w(std::size_t k, std::size_t c) const { return static_cast<double>(weight[k * stride + c]); }
  double b(std::size_t k) const { return bias.empty() ? 0.0 : static_cast<double>(bias[k]); }

  std::size_t classes, features, stride;
  std::vector<float> weight, bias, u;
  std::vector<ClassMoments> moments;
  std::vector<float> columns;
  std::vector<std::int32_t> recent, recent_count;
  std::vector<std::int64_t> counters{0, 0};
};

struct TestBatch {
  TestBatch(std::size_t rows, std::size_t wide, std::size_t classes, unsigned seed, double scale = 1)
      : features(wide), x(rows * features), target(rows), index(rows), gradient(rows) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (float& v : x) v = static_cast<float>(scale * normal(random));
    for (std::size_t i = 0; i < rows; ++i) {
      target[i] = static_cast<std::int64_t>(random() % classes);
      index[i] = static_cast<std::int64_t>(i);
      gradient[i] = static_cast<float>(0.5 + static_cast<double>(random() % 100) / 100);
    }
  }
  LayerBatch batch(bool with_index) const {
    LayerBatch b;
    b.x = x.data(), b.x_stride = static_cast<std::ptrdiff_t>(features), b.rows = target.size();
    b.target = target.data(), b.index = with_index ? index.data() : nullptr;
    return b;
  }
  std::size_t features;
  std::vector<float> x;
  std::vector<std::int64_t> target, index;
  std::vector<float> gradient;
};

struct OracleStep {
  std::vector<double> loss;  // [rows]
  std::vector<double> dx;    // [rows][D]
  std::vector<double> of_w;  // [K][D]: the gradient of W, with shares of rows that sum to 1 in absolute value
  std::vector<double> of_b;  // [K]
  std::vector<bool> touched;   // [K]
  std::vector<double> weight;  // [K][D]: W after the step, if no class has moved before
};

inline std::vector<double> oracle_column_squares(const std::vector<double>& gradient, std::size_t d) {
  std::vector<double> out(d);
  for (std::size_t i = 0; i < gradient.size(); ++i) out[i % d] += gradient[i] * gradient[i];
  return out;
}
// How far the numbers of each column move, by mean squares of the columns.
inline std::vector<double> oracle_columns(std::vector<double> square) {
  double mean = 0;
  for (const double s : square) mean += s / static_cast<double>(square.size());
  for (double& s : square) s = s > 0 ? std::clamp(std::sqrt(mean / s), 0.1, 10.0) : 1;
  return square;
}

// One step with these classes. rho infinite: u is what the draw says.
inline OracleStep oracle_step(const TestLayer& layer, const TestBatch& batch, std::span<const ClassId> drawn,
                              std::span<const double> weights, double rho, double step) {
  const std::size_t rows = batch.target.size(), d = layer.features;
  OracleStep out{std::vector<double>(rows),
                 std::vector<double>(rows * d),
                 std::vector<double>(layer.classes * d),
                 std::vector<double>(layer.classes),
                 std::vector<bool>(layer.classes),
                 std::vector<double>(layer.classes * d)};
  double total = 0;
  for (std::size_t i = 0; i < rows; ++i)
    if (batch.target[i] >= 0) total += std::abs(static_cast<double>(batch.gradient[i]));
  for (const ClassId k : drawn) out.touched[k] = true;
  for (std::size_t i = 0; i < rows; ++i) {
    if (batch.target[i] < 0) continue;
    const auto y = static_cast<std::size_t>(batch.target[i]);
    const auto score = [&](std::size_t k) {
      double z = layer.b(k);
      for (std::size_t c = 0; c < d; ++c) z += layer.w(k, c) * static_cast<double>(batch.x[i * d + c]);
      return z;
    };
    out.touched[y] = true;
    double s = 1;
    for (std::size_t j = 0; j < drawn.size(); ++j)
      if (drawn[j] != y) s += weights[j] * std::exp(score(drawn[j]) - score(y));
    const double old = layer.u.empty() ? NAN : static_cast<double>(layer.u[i]);
    const double u =
        std::isnan(old) || std::isinf(rho) ? std::log(s) : std::log((1 + rho * s) / (rho + std::exp(-old)));
    out.loss[i] = u;
    const auto g = static_cast<double>(batch.gradient[i]);
    const auto add = [&](std::size_t k, double p) {
      for (std::size_t c = 0; c < d; ++c) {
        out.dx[i * d + c] += g * p * layer.w(k, c);
        out.of_w[k * d + c] += g / total * p * static_cast<double>(batch.x[i * d + c]);
      }
      out.of_b[k] += g / total * p;
    };
    for (std::size_t j = 0; j < drawn.size(); ++j) {
      if (drawn[j] == y) continue;
      const double p = weights[j] * std::exp(score(drawn[j]) - score(y) - u);
      add(drawn[j], p);
      add(y, -p);
    }
  }
  for (std::size_t k = 0; k < layer.classes; ++k) {
    double square = 0;
    for (std::size_t c = 0; c < d; ++c) square += out.of_w[k * d + c] * out.of_w[k * d + c];
    const double size = std::sqrt(square / static_cast<double>(d)) + 1e-8;
    for (std::size_t c = 0; c < d; ++c)
      out.weight[k * d + c] = layer.w(k, c) - (out.touched[k] ? step * out.of_w[k * d + c] / size : 0);
  }
  return out;
}

// The path of W and b over several steps: Adam on gradients of size K x D, with one second moment for a
// class, and with the first moment only along the mean of x, where steps that do not touch a class do not
// count.
struct OraclePath {
  explicit OraclePath(const TestLayer& layer)
      : features(layer.features),
        classes(layer.classes),
        mean(layer.features),
        column_square(layer.features),
        w(classes * features) {
    for (std::size_t k = 0; k < classes; ++k)
      for (std::size_t c = 0; c < features; ++c) w[k * features + c] = layer.w(k, c);
    for (std::size_t k = 0; k < classes; ++k) b.push_back(layer.b(k));
  }
  void take(const OracleStep& gradient, const TestBatch& batch, double step) {
    constexpr double kKeep = 0.999, kSmooth = 0.9, kKeepMean = 0.99, kTiny = 1e-8;
    ++steps;
    double length = 0;
    for (const double v : mean) length += v * v;
    length = steps == 1 ? 1 : std::sqrt(length);  // the mean is 0 before the first step
    const double weight = 1 - std::pow(kKeep, steps);
    const Numbers of_column = oracle_columns(column_square);
    for (std::size_t k = 0; k < classes; ++k) {
      for (Numbers* all : {&square, &bias_square}) (*all)[k] *= kKeep;
      for (Numbers* all : {&along, &bias_along, &along_weight}) (*all)[k] *= kSmooth;
      if (!gradient.touched[k]) continue;
      const double* const g = gradient.of_w.data() + k * features;
      double of_mean = 0;
      for (std::size_t c = 0; c < features; ++c) {
        of_mean += g[c] * mean[c] / length;
        square[k] += (1 - kKeep) * g[c] * g[c] / static_cast<double>(features);
      }
      bias_square[k] += (1 - kKeep) * gradient.of_b[k] * gradient.of_b[k];
      along[k] += (1 - kSmooth) * of_mean;
      bias_along[k] += (1 - kSmooth) * gradient.of_b[k];
      along_weight[k] += 1 - kSmooth;
      for (std::size_t c = 0; c < features; ++c)
        w[k * features + c] -= step * of_column[c] *
                               (g[c] + (along[k] / along_weight[k] - of_mean) * mean[c] / length) /
                               (std::sqrt(square[k] / weight) + kTiny);
      b[k] -= step * bias_along[k] / along_weight[k] / (std::sqrt(bias_square[k] / weight) + kTiny);
    }
    double total = 0;
    for (const float g : batch.gradient) total += std::abs(static_cast<double>(g));
    const Numbers now = oracle_column_squares(gradient.of_w, features);
    for (std::size_t c = 0; c < features; ++c) {
      double of_batch = 0;
      for (std::size_t i = 0; i < batch.target.size(); ++i)
        of_batch += std::abs(static_cast<double>(batch.gradient[i])) / total *
                    static_cast<double>(batch.x[i * features + c]);
      mean[c] = kKeepMean * mean[c] + (1 - kKeepMean) * of_batch;
      column_square[c] = kKeep * column_square[c] + (1 - kKeep) * now[c];
    }
  }

  using Numbers = std::vector<double>;
  std::size_t features, classes;
  int steps = 0;
  Numbers mean, column_square, w, b;
  Numbers square = Numbers(classes), bias_square = Numbers(classes), along = Numbers(classes),
          bias_along = Numbers(classes), along_weight = Numbers(classes);
};

}  // namespace truemax
