#include "train/start_values.hpp"

#include <algorithm>
#include <cmath>

#include "train/options.hpp"

namespace truemax {
namespace {

constexpr double kLeastStep = 1e-300;
// In units of 1/mean |x|^2: the middle of the range that works well on all our data sets.
constexpr double kValidStep = 3;
// In units of mean |x|^2.
constexpr double kFirstRidge = 0.1;

}  // namespace

double clamped_step(double step) {
  return std::clamp(step, kLeastStep, kLargestStep);
}
double clamped_ridge(double ridge) {
  return std::min(ridge, 1e15);
}

double unit_of_step(const Problem& problem, bool intercept) {
  const double norm = *problem.mean_square;
  return 1 / ((intercept ? std::max(norm, kShortRows) : norm) * problem.mean_weight);
}
double first_step(const Problem& problem, bool intercept) {
  return clamped_step(kValidStep * unit_of_step(problem, intercept));
}
double first_ridge(const Problem& problem) {
  return clamped_ridge(kFirstRidge * *problem.mean_square * problem.mean_weight);
}

// A row's |x|^2 is the number of its non-zeros in units in which values have size 1. So a row's score changes
// by at most about kAdamStep |x| in a step: large enough for short runs, and steps fall to a hundredth.
double adam_step(const Problem& problem, bool intercept) {
  constexpr double kAdamStep = 0.6;
  return clamped_step(kAdamStep / std::sqrt(std::max(1.0, problem.nonzeros_per_row) + (intercept ? 1 : 0)));
}

// Each step costs one pass over W. Fewer than 32 an epoch learn too little from it.
std::uint64_t adam_rows(const Problem& problem) {
  constexpr std::uint64_t kRowsAtMost = 256, kRowsAtLeast = 16, kStepsOfEpoch = 32;
  return std::min(std::clamp(problem.examples / kStepsOfEpoch, kRowsAtLeast, kRowsAtMost), problem.examples);
}

// With the ridge chosen for it, more features than needed do no harm; they only cost time. More than half of
// the full rank gained nothing (delicious, 128 beside 256).
std::uint64_t first_hidden(const Problem& problem) {
  constexpr std::uint64_t kUsual = 256;
  const std::uint64_t rank = problem.full_rank();
  for (std::uint64_t hidden = kUsual; hidden >= kFewestHidden; hidden /= 2)
    if (2 * hidden <= rank || (hidden < rank && hidden / 2 < kFewestHidden)) return hidden;
  return 0;
}

}  // namespace truemax
