// Exact softmax SGD over all classes (eq:original_log_likelihood): C[i,k] = e (1[k = y] - p_k). The baseline
// that sampled methods are compared with.
#pragma once

#include <algorithm>
#include <cmath>

#include "rule/rule.hpp"

namespace truemax {

class ExactRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "exact",
      .description = "Softmax SGD over all classes: the yardstick; m is not used.",
      .biased = false,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "nK scores, nK updates, nK exponentials",
      .objective = Objective::softmax,
      .whole_set = true};

  ExactRule(const RuleOptions& /*options*/, const ProblemInfo& /*problem*/) {}

  void step(const StepView& view, StepResult& out) const noexcept {
    for (std::size_t i = 0; i < view.rows; ++i) {
      const auto [z, o, c, y, e] = row_of(view, out, i);
      const double highest = *std::max_element(z, z + view.columns);
      double sum = 0;
      for (std::size_t k = 0; k < view.columns; ++k) sum += c[k] = std::exp(z[k] - highest);
      const double factor = -e / sum;
      double others = 0;  // sum of p_k over k != y: 1 - p_y without cancellation
      for (std::size_t k = 0; k < view.columns; ++k) {
        c[k] *= factor;
        if (k != y) others -= c[k];
      }
      c[y] = others;
    }
  }
};

}  // namespace truemax
