// Noise-contrastive estimation (Mnih and Teh): SGD on the binary log-losses that tell the label from the
// drawn classes,
//     -log sigma(t_y) - sum_k count_k log sigma(-t_k),   t_k = z_k - log(mean number of draws of k)
// (with --no-log-q: t_k = z_k), count_k how often k was drawn. A drawn class that is the row's own label is
// left out. Biased: the optimum depends on m and on the draw.
#pragma once

#include <cmath>

#include "rule/rule.hpp"
#include "solve/log_sum.hpp"

namespace truemax {

class NoiseContrastRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "nce",
      .description = "Noise-contrastive estimation: the label against the drawn classes.",
      .biased = true,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "n(m+1) scores, n(m+1) updates, n(m+1) exponentials",
      .objective = Objective::noise_contrast,
      .needs_log_q = true};

  NoiseContrastRule(const RuleOptions& options, const ProblemInfo& /*problem*/) : log_q_(options.log_q) {}

  void step(const StepView& view, StepResult& out) const noexcept {
    for (std::size_t i = 0; i < view.rows; ++i) {
      const double* z = view.score + i * view.columns;
      const double* o = view.weight + i * view.columns;
      double* c = out.coefficient + i * view.columns;
      const std::size_t y = view.label[i];
      const double e = view.step * view.row_weight[i];
      const auto corrected = [&](std::size_t k) { return log_q_ ? z[k] - view.log_q[k] : z[k]; };
      for (std::size_t k = 0; k < view.columns; ++k) {
        const double count =
            o[k] * std::exp(view.log_q[k]);  // a class drawn c times has weight c/(mean draws)
        c[k] = o[k] == 0 ? 0.0 : -e * count * logistic(corrected(k));
      }
      c[y] = e * logistic(-corrected(y));
    }
  }

 private:
  bool log_q_;
};

}  // namespace truemax
