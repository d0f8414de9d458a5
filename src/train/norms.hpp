// |w_k|^2 of all classes, tracked from scores and coefficients, for a method that projects W onto a ball.
#pragma once

#include <algorithm>
#include <cmath>

#include "rule/rule.hpp"
#include "train/run_state.hpp"
#include "train/step_arrays.hpp"

namespace truemax {

class Norms {
 public:
  static void recompute(NormState& norms, const Weights& weights) {
    norms.of_class.resize(weights.classes());
    norms.total = 0, norms.common = 1;
    for (ClassId k = 0; k < norms.of_class.size(); ++k)
      norms.total += norms.of_class[k] = weights.squared_norm(k);
  }

  // Before the step is applied: |w_k + sum_i C_ik x_i|^2 / r_k^2. Scores and the Gram matrix include an
  // intercept, W does not.
  static void update(NormState& norms, const StepView& view, const StepArrays& a, const Weights& weights) {
    const double of_intercept = weights.has_intercept() ? 1.0 : 0.0;
    for (std::size_t c = 0; c < a.classes.size(); ++c) {
      const ClassId k = a.classes[c];
      const double b = weights.intercept_of(k);
      double change = 0;
      for (std::size_t i = 0; i < view.rows; ++i) {
        const double c_i = a.coefficient[i * view.columns + c];
        if (c_i == 0) continue;
        double across = 0;
        for (std::size_t j = 0; j < view.rows; ++j)
          across += a.coefficient[j * view.columns + c] * (view.gram[i * view.rows + j] - of_intercept);
        change += c_i * (2 * (view.score[i * view.columns + c] - b) + across);
      }
      const double before = norms.of_class[k];
      const double after = std::max(before + change / norms.common, 0.0) / (view.ridge[c] * view.ridge[c]);
      norms.of_class[k] = after;
      norms.total = std::max(norms.total + after - before, 0.0);
    }
  }

  // After the step: projects W onto the ball.
  static void project(NormState& norms, Weights& weights, double bound) {
    if (!std::isfinite(norms.common * norms.total)) recompute(norms, weights);  // products overflowed
    project(norms, weights, bound, norms.common * norms.total);
  }
  // The same where these are a rank's own weights: `squared` is |W|^2 of all.
  static void project(NormState& norms, Weights& weights, double bound, double squared) {
    const double length = std::sqrt(squared);
    if (length <= bound) return;
    const double factor = bound / length;
    weights.scale_all(factor);
    norms.common *= factor * factor;
    if (norms.common > 1e-100) return;
    for (double& norm : norms.of_class) norm *= norms.common;
    norms.total *= norms.common;
    norms.common = 1;
  }
};

}  // namespace truemax
