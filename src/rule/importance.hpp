// Importance sampling (Bengio and Senecal; "sampled softmax"): SGD on the softmax log-loss over the label and
// the drawn classes alone,  log(exp(z_y) + sum_k o_k exp(z_k)) - z_y,  where o_k = count_k/(mean number of
// draws of k) makes the sum an unbiased estimate of the normaliser (with --no-log-q: count_k alone). Biased:
// the logarithm of an unbiased estimate is not unbiased; the bias vanishes as m grows. BSGD, mini-batch
// log-sum-exp (Hu et al.), is the same step under another name: an alias in rule/methods.hpp.
#pragma once

#include <algorithm>
#include <cmath>

#include "rule/rule.hpp"

namespace truemax {

// Row i of the step. If log_q is given, weights are multiplied by exp(log_q), which turns them into counts.
inline void descend_sampled_softmax(const StepView& view, const StepResult& out, std::size_t i,
                                    const double* log_q) noexcept {
  const auto [z, o, c, y, e] = row_of(view, out, i);
  double highest = z[y];
  for (std::size_t k = 0; k < view.columns; ++k)
    if (o[k] > 0) highest = std::max(highest, z[k]);
  double sum = c[y] = std::exp(z[y] - highest);
  for (std::size_t k = 0; k < view.columns; ++k) {
    if (k == y) continue;
    const double times = log_q == nullptr ? o[k] : o[k] * std::exp(log_q[k]);
    sum += c[k] = o[k] == 0 ? 0.0 : times * std::exp(z[k] - highest);
  }
  double others = 0;
  for (std::size_t k = 0; k < view.columns; ++k) {
    if (k == y) continue;
    others += c[k] *= e / sum;
    c[k] = -c[k];
  }
  c[y] = others;
}

class ImportanceRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "importance",
      .description = "Importance sampling: softmax over the label and the drawn classes.",
      .biased = true,
      .most_rows = kAnyNumber,
      .most_classes = kAnyNumber,
      .cost = "n(m+1) scores, n(m+1) updates, n(m+1) exponentials",
      .objective = Objective::sampled_softmax,
      .needs_log_q = true};

  ImportanceRule(const RuleOptions& options, const ProblemInfo& /*problem*/) : log_q_(options.log_q) {}

  void step(const StepView& view, StepResult& out) const noexcept {
    for (std::size_t i = 0; i < view.rows; ++i)
      descend_sampled_softmax(view, out, i, log_q_ ? nullptr : view.log_q);
  }

 private:
  bool log_q_;
};

}  // namespace truemax
