// Noise-contrastive estimation (Mnih and Teh): SGD on the binary log-losses that tell the label from the
// drawn classes,
//     -log sigma(t_y) - sum_k count_k log sigma(-t_k),   t_k = z_k - log(mean number of draws of k)
// (with --no-log-q: t_k = z_k), count_k how often k was drawn. A drawn class that is the row's own label is
// left out. With --label-noise the label counts as noise too, with the mean number of its draws in place of
// count_y, because draws for one row never contain its label. Biased: the optimum depends on m and the draw.
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

  NoiseContrastRule(const RuleOptions& options, const ProblemInfo& /*problem*/)
      : log_q_(options.log_q), label_noise_(options.label_noise) {}

  void step(const StepView& view, StepResult& out) const noexcept {
    for (std::size_t i = 0; i < view.rows; ++i) {
      const StepRow row = row_of(view, out, i);
      const auto corrected = [&](std::size_t k) {
        return log_q_ ? row.score[k] - view.log_q[k] : row.score[k];
      };
      for (std::size_t k = 0; k < view.columns; ++k) {
        // A class drawn c times has weight c/(mean draws).
        const double count = row.weight[k] * std::exp(view.log_q[k]);
        row.coefficient[k] = row.weight[k] == 0 ? 0.0 : -row.e * count * logistic(corrected(k));
      }
      const double t = corrected(row.label);
      const double pushed = label_noise_ ? std::exp(view.log_q[row.label]) * logistic(t) : 0.0;
      row.coefficient[row.label] = row.e * (logistic(-t) - pushed);
    }
  }

 private:
  bool log_q_, label_noise_;
};

}  // namespace truemax
