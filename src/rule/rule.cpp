#include "rule/rule.hpp"

#include <cmath>
#include <string>

namespace truemax {

template <template <class> class As>
void RuleFields<As>::describe(OptionTable& table) {
  const RuleOptions d;
  const auto of = [](std::vector<std::string> methods) {
    return OptionTags{.tunable = true, .methods = std::move(methods)};
  };
  table.group("Options of one method");
  table.number("delta", {&delta, d.delta}, {0, 100, true},
               "u jumps to its lower bound once it lies this far below; small values keep gradients small.",
               of({"umax"}));
  table.number("double-sum-alpha", {&double_sum_alpha, d.double_sum_alpha}, {0, 1},
               "which double sum (the paper's Appendix A); 0 is the paper's, 1 is Raman's.",
               of({"vanilla", "umax"}));
  table.toggle("log-q", {&log_q, d.log_q}, "correct scores by the logarithm of how often a class is drawn.",
               of({"nce", "importance"}));
  table.toggle("label-noise", {&label_noise, d.label_noise},
               "the label counts as noise too, as often as it is drawn on average.", of({"nce"}));
  table.count("refresh", {&refresh, d.refresh}, {1, 1e9},
              "epochs between two exact passes for the normalisers.", of({"raman"}));
  table.number("running-rate", {&running_rate, d.running_rate}, {0, 1, true},
               "share of the new value in the running means; falls with the step.", of({"composition"}));
  table.number("rho", {&rho, d.rho}, {1e-12, 1e6},
               "how far one step moves u (the mirror strength); large values follow each draw.",
               of({"prox", "scent"}));
  table.toggle("rho-falls", {&rho_falls, d.rho_falls},
               "rho falls with the step; a fixed rho is biased: it stops slightly off the optimum.",
               of({"prox", "scent"}));
  table.number("sox-rate", {&sox_rate, d.sox_rate}, {1e-12, 1},
               "share of the new value in the running mean of a row's normaliser.", of({"sox"}));
  table.number("softplus-bend", {&softplus_bend, d.softplus_bend}, {1e-6, 1},
               "1 is Bouchard's bound; smaller values are closer to the log-sum and steeper.",
               of({"softplus"}));
}

template struct RuleFields<Plain>;
template struct RuleFields<std::optional>;

double ProblemInfo::weight_bound() const {
  if (ridge <= 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(2 / ridge * total_weight * std::log(classes));
}

double ProblemInfo::u_bound() const {
  if (ridge <= 0 || free_intercept) return std::numeric_limits<double>::infinity();
  const double most =
      2 * longest_row * weight_bound() + std::log(classes - 1);  // log of (K-1) exp(2 B_x B_W)
  return most > 40 ? most : std::log1p(std::exp(most));
}

}  // namespace truemax
