#include "train/alternatives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/files.hpp"
#include "core/text.hpp"
#include "train/start_values.hpp"
#include "train/step_cost.hpp"
#include "weights/weights.hpp"

namespace truemax {
namespace {

// Methods that keep vectors of the shape of W may be chosen, W is so small that they stay in the cache, and
// their sums stay in float32.
std::string why_not_near(const Facts& facts) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 20;
  const auto& [recipe, problem, machine, draw] = facts;
  if (recipe.on_gpu()) return "the run is on a GPU";
  if (problem.stream) return "the rows are streamed";
  const std::uint64_t bytes = Weights::bytes_needed(problem.classes, problem.features);
  if (bytes > kMostBytes)
    return fmt::format("every step reads all weights, {}; it is taken up to {}", size_text(bytes),
                       size_text(kMostBytes));
  if (!(*problem.units_fit)[recipe.intercept ? 1 : 0])
    return "features are so different in size that their sums leave float32";
  return "";
}

std::string too_short(const Recipe& recipe, double seconds, const char* of, double least) {
  return recipe.seconds > 0
             ? fmt::format("{:.0f} {} take {:.2g} s, and --seconds is {:g}", least, of, seconds,
                           recipe.seconds)
             : fmt::format("there are {}; it is taken from {:.0f}", counted(recipe.epochs, "epoch"), least);
}

}  // namespace

std::string why_not_newton(const Problem& problem, double seconds) {
  constexpr double kMore = 4;
  if (first_hidden(problem) != 0)
    return fmt::format("it is for at most {} classes or features, of which there are {} and {}",
                       kFewestHidden, problem.classes, problem.features);
  if (problem.windows) return "the rows are words of a text";
  if (problem.stream) return "the rows are streamed";
  if (problem.shares_inputs) return "rows have several labels";
  const double work = newton_work(problem, kMore);
  // Search and fit on an ordinary processor; many folds take longer.
  constexpr double kSecondsPerWork = 3e-7, kShareOfTime = 1. / 3;
  const double folds = static_cast<double>(newton_folds(problem).used) / 2;
  const double needed = work * folds * kSecondsPerWork;
  if (seconds > 0 && needed > kShareOfTime * seconds)
    return fmt::format("it would take about {:.2g} s, more than a third of --seconds {:g}", needed, seconds);
  constexpr const char* kWork = "{:.2g} multiplications a pass; {}it is taken up to {:.2g}";
  // Steps over sparse rows lead as far in less time.
  if (2 * problem.nonzeros_per_row >= static_cast<double>(problem.features)) {
    constexpr double kMostWork = 2e7;
    return work <= kMostWork ? "" : fmt::format(kWork, work, "", kMostWork);
  }
  constexpr std::size_t kMostClasses = 100, kFewRows = 2000;
  if (problem.classes > kMostClasses)
    return fmt::format("{} classes; of sparse rows it is taken up to {}", problem.classes, kMostClasses);
  const double most = problem.rows < kFewRows ? 1.2e7 : 4e6, sparse = newton_work(problem);
  return sparse <= most ? "" : fmt::format(kWork, sparse, "of so many sparse rows ", most);
}

// With few rows for every feature, classes can nearly or fully be told apart, and the log-loss of L-BFGS
// falls to its least in some dozens of steps. With more, single steps of many rows each lead further than one
// of all (delicious: 16 rows for every feature lose, 6 gain).
std::string why_not_lbfgs(const Facts& facts) {
  constexpr double kMostExamples = 8192, kRowsOfFeature = 6, kFewestSteps = 80;
  const auto& [recipe, problem, machine, draw] = facts;
  if (std::string why = why_not_near(facts); !why.empty()) return why;
  const auto rows = static_cast<double>(problem.examples), features = static_cast<double>(problem.features);
  if (rows > std::min(kMostExamples, kRowsOfFeature * features))
    return fmt::format("{} for {}; it is taken up to {:.0f} rows and {:.0f} for each",
                       counted(problem.examples, "row"), counted(problem.features, "feature"), kMostExamples,
                       kRowsOfFeature);
  const double needed = kFewestSteps * lbfgs_seconds(facts);
  const bool enough =
      recipe.seconds > 0 ? recipe.seconds >= needed : static_cast<double>(recipe.epochs) >= kFewestSteps;
  return enough ? "" : too_short(recipe, needed, "of its steps", kFewestSteps);
}

std::string why_not_adam(const Facts& facts) {
  constexpr double kFewestEpochs = 8;  // fewer leave it further from the optimum than prox
  // Of an ordinary processor: a line of W that a row's scores and gradient take, or that all weights take
  // once a step.
  constexpr double kSecondsPerAdamLine = 4e-9;
  const auto& [recipe, problem, machine, draw] = facts;
  if (std::string why = why_not_near(facts); !why.empty()) return why;
  const auto rows = static_cast<double>(problem.examples);
  const double of_step = static_cast<double>(problem.features) / static_cast<double>(adam_rows(problem));
  const double lines =  // of a row
      std::ceil(static_cast<double>(problem.classes) / kBlockClasses) * (problem.nonzeros_per_row + of_step);
  // Where classes are easily told apart, steps over drawn ones lead as far, so all of them must not cost much
  // more: delicious has 4.6 times the lines and gains, generated rows with 5.7 and more lose.
  constexpr double kMostTimesDrawn = 5;
  const StepCost cost = step_cost(problem);
  const double drawn = cost.step(2 + cost.tail_draws());
  if (lines > kMostTimesDrawn * drawn)
    return fmt::format(
        "a row takes {:.2g} times the weights of a step over drawn classes; it is taken up to "
        "{:.0f} times",
        lines / drawn, kMostTimesDrawn);
  const double needed = kFewestEpochs * (rows * lines * kSecondsPerAdamLine);
  const bool enough =
      recipe.seconds > 0 ? recipe.seconds >= needed : static_cast<double>(recipe.epochs) >= kFewestEpochs;
  return enough ? "" : too_short(recipe, needed, "of its epochs", kFewestEpochs);
}

}  // namespace truemax
