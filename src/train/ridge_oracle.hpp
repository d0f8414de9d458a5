// For tests: a small problem with a known optimum. The objective, sum of weight times log-loss + mu/2 |W|^2,
// is computed from its definition in double, its minimum by Newton's method.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "data/test_access.hpp"
#include "train/test_support.hpp"

namespace truemax {

// Points around one centre per class, a fifth of them with a wrong label, so that the optimum is finite even
// without ridge.
inline Dataset centres_data(std::size_t rows, std::size_t classes, double noise = 0.4) {
  constexpr std::size_t kFeatures = 3;
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal;
  Dataset data = random_data({.rows = rows, .classes = classes, .features = kFeatures});
  data.rows = {};
  for (std::size_t i = 0; i < rows; ++i) {
    const double angle = 6.283185307 * static_cast<double>(i % classes) / static_cast<double>(classes);
    const double x[kFeatures] = {std::cos(angle) + noise * normal(random),
                                 std::sin(angle) + noise * normal(random), 1.0};
    for (FeatureId f = 0; f < kFeatures; ++f)
      data.rows.index.push_back(f), data.rows.value.push_back(static_cast<float>(x[f]));
    data.rows.begin.push_back(data.rows.index.size());
    data.label[i] = static_cast<ClassId>((i + (i % 5 == 0 ? i / 5 : 0)) % classes);
  }
  return data;
}

class RidgeOracle {
 public:
  using Matrix = std::vector<std::vector<double>>;

  RidgeOracle(const Dataset& data, double mu)
      : data_(data), mu_(mu), classes_(data.classes->size()), features_(data.space->features) {}

  double value(const std::vector<double>& w) const {
    double sum = 0;
    for (std::size_t i = 0; i < data_.size(); ++i) sum += weight_of(data_, i) * u_of(w, i);
    for (const double v : w) sum += mu_ / 2 * v * v;
    return sum;
  }
  double value(const RunState& state) const {
    std::vector<double> w;
    std::vector<float> row(features_);
    for (ClassId k = 0; k < classes_; ++k) {
      state.weights.copy_class(k, row);
      w.insert(w.end(), row.begin(), row.end());
    }
    return value(w);
  }

  // log(1 + sum of exp(z_k - z_y)): the optimal u and the row's loss.
  double u_of(const std::vector<double>& w, std::size_t i) const {
    const std::vector<double> p = probabilities(w, i);
    return -std::log(p[data_.label[i]]);
  }

  // Entry k * D + f is weight f of class k.
  std::vector<double> optimum() const {
    const std::size_t n = classes_ * features_;
    std::vector<double> w(n, 0.0);
    for (int iteration = 0; iteration < 100; ++iteration) {
      std::vector<double> g(n, 0.0);
      // Without ridge all scores can shift together; a tiny ridge makes the system regular.
      Matrix h(n, std::vector<double>(n, 0.0));
      for (std::size_t j = 0; j < n; ++j) g[j] = mu_ * w[j], h[j][j] = mu_ + 1e-9;
      for (std::size_t i = 0; i < data_.size(); ++i) add_row(w, i, g, h);
      double length = 0;
      for (const double v : g) length += v * v;
      if (std::sqrt(length) < 1e-9 * (1 + static_cast<double>(data_.size()))) return w;
      const std::vector<double> move = solve(h, g);
      double step = 1;
      const double before = value(w);
      std::vector<double> next(n);
      do {
        for (std::size_t j = 0; j < n; ++j) next[j] = w[j] - step * move[j];
        step /= 2;
      } while (value(next) > before * (1 + 1e-13));  // the last moves change only rounding
      w = next;
    }
    ADD_FAILURE() << "the oracle did not converge";
    return w;
  }

  // What the rules know about the problem.
  ProblemInfo info() const {
    ProblemInfo info;
    info.rows = static_cast<double>(data_.size()), info.classes = static_cast<double>(classes_),
    info.ridge = mu_;
    for (std::size_t i = 0; i < data_.size(); ++i) {
      info.total_weight += weight_of(data_, i);
      double norm = 0;
      for (const float v : x_of(data_, i).value) norm += static_cast<double>(v) * static_cast<double>(v);
      info.longest_row = std::max(info.longest_row, std::sqrt(norm));
    }
    return info;
  }

 private:
  std::vector<double> probabilities(const std::vector<double>& w, std::size_t i) const {
    const RowView x = x_of(data_, i);
    std::vector<double> p(classes_, 0.0);
    for (std::size_t k = 0; k < classes_; ++k)
      for (std::size_t j = 0; j < x.index.size(); ++j)
        p[k] += w[k * features_ + x.index[j]] * static_cast<double>(x.value[j]);
    const double highest = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& v : p) sum += v = std::exp(v - highest);
    for (double& v : p) v /= sum;
    return p;
  }

  void add_row(const std::vector<double>& w, std::size_t i, std::vector<double>& g, Matrix& h) const {
    const RowView x = x_of(data_, i);
    const std::vector<double> p = probabilities(w, i);
    const double weight = weight_of(data_, i);
    for (std::size_t k = 0; k < classes_; ++k)
      for (std::size_t a = 0; a < x.index.size(); ++a) {
        const std::size_t row = k * features_ + x.index[a];
        const double of_a = weight * static_cast<double>(x.value[a]);
        g[row] += of_a * (p[k] - (k == data_.label[i] ? 1 : 0));
        for (std::size_t l = 0; l < classes_; ++l)
          for (std::size_t b = 0; b < x.index.size(); ++b)
            h[row][l * features_ + x.index[b]] +=
                of_a * static_cast<double>(x.value[b]) * p[k] * ((k == l ? 1 : 0) - p[l]);
      }
  }

  // Gaussian elimination, for a definite matrix.
  static std::vector<double> solve(Matrix& h, std::vector<double> g) {
    const std::size_t n = g.size();
    for (std::size_t c = 0; c < n; ++c)
      for (std::size_t r = c + 1; r < n; ++r) {
        const double factor = h[r][c] / h[c][c];
        for (std::size_t j = c; j < n; ++j) h[r][j] -= factor * h[c][j];
        g[r] -= factor * g[c];
      }
    for (std::size_t c = n; c-- > 0;) {
      for (std::size_t j = c + 1; j < n; ++j) g[c] -= h[c][j] * g[j];
      g[c] /= h[c][c];
    }
    return g;
  }

  const Dataset& data_;
  double mu_;
  std::size_t classes_, features_;
};

}  // namespace truemax
