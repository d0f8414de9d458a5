// The step of learnt features as the formulas say it, in double and with dense arrays: the oracle of
// LearntLane.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "data/data_view.hpp"
#include "train/recipe.hpp"
#include "train/run_state.hpp"

namespace truemax {

class SlowLearnt {
 public:
  using Matrix = std::vector<std::vector<double>>;

  SlowLearnt(const DataView& data, const Recipe& options, const RunState& from)
      : data_(data), options_(options), h_(options.hidden) {
    const auto table = [&](const Embedding& t) {
      Matrix m(t.rows, std::vector<double>(h_));
      for (std::size_t r = 0; r < t.rows; ++r)
        for (std::size_t d = 0; d < h_; ++d) m[r][d] = static_cast<double>(t.row(r)[d]);
      return m;
    };
    e = table(from.learnt.tables.features), c = table(from.learnt.tables.mixing);
    w = table(from.learnt.classes);
    c_square.assign(c.size(), std::vector<double>(h_));
    e_square.assign(e.size(), std::vector<double>(h_));
    w_square.assign(w.size(), std::vector<double>(h_));
    b.assign(from.learnt.intercept.begin(), from.learnt.intercept.end());
    b_square.assign(b.size(), 0);
    for (const RowState& row : from.rows) u.push_back(row.u);
  }

  std::vector<double> x(ExampleId i) const {
    std::vector<double> out(h_);
    const RowView row = data_.x(i);
    for (std::size_t j = 0; j < row.index.size(); ++j)
      for (std::size_t d = 0; d < h_; ++d) out[d] += factor(row, j, d) * e[row.index[j]][d];
    return out;
  }
  double score(ExampleId i, ClassId k) const {
    const std::vector<double> of = x(i);
    double z = b.empty() ? 0 : b[k];
    for (std::size_t d = 0; d < h_; ++d) z += of[d] * output()[k][d];
    return z;
  }

  // The mean over the rows of weight (u + exp(-u) (1 + sum_j o_j exp(z_j - z_y))), without the parts that do
  // not depend on the parameters.
  double loss(const std::vector<ExampleId>& rows, const std::vector<ClassId>& drawn,
              const std::vector<double>& weight, const std::vector<double>& at_u) const {
    double sum = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const ClassId y = data_.label(rows[r]);
      for (std::size_t j = 0; j < drawn.size(); ++j)
        if (drawn[j] != y)
          sum += data_.weight(rows[r]) * weight[j] *
                 std::exp(score(rows[r], drawn[j]) - score(rows[r], y) - at_u[r]);
    }
    return sum / static_cast<double>(rows.size());
  }

  struct Gradient {
    Matrix e, c, w;  // w empty if tied: its part is in e
    std::vector<double> b;
  };
  // The gradient of loss() and the new u of the rows.
  Gradient gradient(const std::vector<ExampleId>& rows, const std::vector<ClassId>& drawn,
                    const std::vector<double>& weight, double rho, std::vector<double>& new_u) const {
    const std::size_t classes = data_.classes->size();
    Gradient g{Matrix(e.size(), std::vector<double>(h_)), Matrix(c.size(), std::vector<double>(h_)),
               Matrix(w.size(), std::vector<double>(h_)), std::vector<double>(classes)};
    Matrix& of_class = w.empty() ? g.e : g.w;
    new_u.clear();
    for (const ExampleId i : rows) {
      const ClassId y = data_.label(i);
      double sum = 0;
      for (std::size_t j = 0; j < drawn.size(); ++j)
        if (drawn[j] != y) sum += weight[j] * std::exp(score(i, drawn[j]) - score(i, y));
      const double kept = u[data_.input_of(i)];
      const double old = data_.shares_inputs() ? std::max(0.0, kept - score(i, y)) : kept;
      const double ratio = data_.shares_inputs() ? (std::exp(old) + rho * (1 + sum)) / (1 + rho)
                                                 : (1 + rho * (1 + sum)) / (rho + std::exp(-old));
      const double next = std::max(0.0, std::log(ratio));
      new_u.push_back(next);
      const std::vector<double> of = x(i);
      std::vector<double> dx(h_);
      for (std::size_t j = 0; j < drawn.size(); ++j) {
        if (drawn[j] == y) continue;
        const double p = data_.weight(i) * weight[j] * std::exp(score(i, drawn[j]) - score(i, y) - next) /
                         static_cast<double>(rows.size());
        for (std::size_t d = 0; d < h_; ++d) {
          of_class[drawn[j]][d] += p * of[d];
          of_class[y][d] -= p * of[d];
          dx[d] += p * (output()[drawn[j]][d] - output()[y][d]);
        }
        g.b[drawn[j]] += p, g.b[y] -= p;
      }
      const RowView row = data_.x(i);
      for (std::size_t j = 0; j < row.index.size(); ++j)
        for (std::size_t d = 0; d < h_; ++d) {
          g.e[row.index[j]][d] += factor(row, j, d) * dx[d];
          if (!c.empty()) g.c[j][d] += e[row.index[j]][d] * dx[d];
        }
    }
    return g;
  }

  void step(const std::vector<ExampleId>& rows, const std::vector<ClassId>& drawn,
            const std::vector<double>& weight, double rho, double step_size, double total_weight) {
    constexpr double kKeep = 0.999;
    std::vector<double> new_u;
    const Gradient g = gradient(rows, drawn, weight, rho, new_u);
    for (std::size_t r = 0; r < rows.size(); ++r)
      u[data_.input_of(rows[r])] =
          new_u[r] + (data_.shares_inputs() ? score(rows[r], data_.label(rows[r])) : 0);
    ++updates_;
    const double rate = step_size * std::sqrt(1 - std::pow(kKeep, updates_)),
                 mu = options_.ridge / total_weight;
    const auto move = [&](double& value, double& square, double slope) {
      square = kKeep * square + (1 - kKeep) * slope * slope;
      value -= rate * slope / (std::sqrt(square) + 1e-8);
    };
    // One mean for a row: kept in the square of its first number, and copied to the others.
    const auto move_row = [&](std::vector<double>& row, std::vector<double>& square,
                              std::vector<double> slope) {
      for (std::size_t d = 0; d < h_; ++d) slope[d] += mu * row[d];
      double mean = 0;
      for (const double s : slope) mean += s * s / static_cast<double>(h_);
      for (std::size_t d = 0; d < h_; ++d) {
        if (!options_.row_state) {
          move(row[d], square[d], slope[d]);
          continue;
        }
        square[d] = kKeep * square[d] + (1 - kKeep) * mean;
        row[d] -= rate * slope[d] / (std::sqrt(square[d]) + 1e-8);
      }
    };
    std::vector<bool> has_feature(e.size()), has_class(data_.classes->size());
    for (const ExampleId i : rows) {
      has_class[data_.label(i)] = true;
      for (const FeatureId f : data_.x(i).index) has_feature[f] = true;
    }
    for (const ClassId k : drawn) has_class[k] = true;
    for (std::size_t f = 0; f < e.size(); ++f)
      if (has_feature[f] || (w.empty() && f < has_class.size() && has_class[f]))
        move_row(e[f], e_square[f], g.e[f]);
    for (std::size_t p = 0; p < c.size(); ++p)
      for (std::size_t d = 0; d < h_; ++d) move(c[p][d], c_square[p][d], g.c[p][d]);
    for (std::size_t k = 0; k < has_class.size(); ++k) {
      if (!has_class[k]) continue;
      if (!w.empty()) move_row(w[k], w_square[k], g.w[k]);
      if (!b.empty()) move(b[k], b_square[k], g.b[k] + (options_.ridge_intercept ? mu * b[k] : 0));
    }
  }

  Matrix e, c, w, e_square, c_square, w_square;
  std::vector<double> b, b_square, u;

 private:
  // What the vector of a row's j-th feature is multiplied by, number d.
  double factor(RowView row, std::size_t j, std::size_t d) const {
    return c.empty() ? static_cast<double>(row.value[j]) : c[j][d];
  }
  const Matrix& output() const { return w.empty() ? e : w; }

  const DataView& data_;
  const Recipe& options_;
  std::size_t h_;
  double updates_ = 0;
};

}  // namespace truemax
