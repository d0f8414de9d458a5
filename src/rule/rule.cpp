#include "rule/rule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string>

namespace truemax {

std::span<const std::string_view> RuleOptions::users_of(std::string_view option) {
  static constexpr std::string_view kDelta[] = {"umax"}, kAlpha[] = {"vanilla", "umax"},
                                    kLogQ[] = {"nce", "importance"}, kNoise[] = {"nce"},
                                    kRefresh[] = {"raman"}, kRate[] = {"composition"},
                                    kRho[] = {"prox", "scent"}, kSox[] = {"sox"}, kBend[] = {"softplus"};
  if (option == "delta") return kDelta;
  if (option == "double-sum-alpha") return kAlpha;
  if (option == "log-q") return kLogQ;
  if (option == "label-noise") return kNoise;
  if (option == "refresh") return kRefresh;
  if (option == "running-rate") return kRate;
  if (option == "rho" || option == "rho-falls") return kRho;
  if (option == "sox-rate") return kSox;
  if (option == "softplus-bend") return kBend;
  return {};
}

void RuleOptions::describe(OptionTable& table) {
  const auto help = [](std::string_view option, std::string_view text) {
    return fmt::format("{}: {}", fmt::join(users_of(option), ", "), text);
  };
  table.number(
      "delta", &delta, {0, 100, true},
      help("delta",
           "u jumps to its lower bound once it lies this far below; small values keep gradients small."));
  table.number(
      "double-sum-alpha", &double_sum_alpha, {0, 1},
      help("double-sum-alpha", "which double sum (the paper's Appendix A); 0 is the paper's, 1 is Raman's."));
  table.toggle("log-q", &log_q,
               help("log-q", "correct scores by the logarithm of how often a class is drawn."));
  table.toggle("label-noise", &label_noise,
               help("label-noise", "the label counts as noise too, as often as it is drawn in the mean."));
  table.count("refresh", &refresh, {1, 1e9},
              help("refresh", "epochs between two exact passes for the normalisers."));
  table.number("running-rate", &running_rate, {0, 1, true},
               help("running-rate", "share of the new value in the running means; falls with the step."));
  table.number("rho", &rho, {1e-12, 1e6},
               help("rho", "how far one step moves u (the mirror strength); large values follow each draw."));
  table.toggle("rho-falls", &rho_falls,
               help("rho-falls",
                    "rho falls with the step; a fixed rho is biased: it stops slightly off the optimum."));
  table.number("sox-rate", &sox_rate, {1e-12, 1},
               help("sox-rate", "share of the new value in the running mean of a row's normaliser."));
  table.number(
      "softplus-bend", &softplus_bend, {1e-6, 1},
      help("softplus-bend", "1 is Bouchard's bound; smaller values are closer to the log-sum and steeper."));
}

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
