#include "train/plan_seconds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "rule/methods.hpp"
#include "train/fit_seconds.hpp"
#include "train/solver_seconds.hpp"

namespace truemax {
namespace {

// What counting leaves open: other loads, caches and processors, and how far a solver is from the mean.
constexpr double kLower = 0.76, kUpper = 1.51;
// Of Newton's method: with hardly any ridge, or none, it takes many more passes.
constexpr double kNewtonLess = 3, kNewtonMore = 4, kNewtonWithoutRidge = 16;

double steps_as_epochs(const Plan& plan, double epochs) {
  const Recipe& r = plan.recipe;
  if (r.steps == 0 || plan.steps_per_epoch == 0) return epochs;
  return std::min(epochs, static_cast<double>(r.steps) / static_cast<double>(plan.steps_per_epoch));
}

// Of the last epoch, and those before it.
Span evaluations_of(const Plan& plan, const Span& epochs) {
  const Recipe& r = plan.recipe;
  const Problem& p = plan.problem;
  const bool some = r.evaluation.kind != EvalKind::exact;
  constexpr double kManyRows = 50000;
  const auto inputs = static_cast<double>(p.shares_inputs ? p.inputs : p.rows);
  const bool some_train = some || (r.hidden > 0 && inputs > kManyRows);
  const Facts facts = plan.facts();
  double train = r.eval_train ? evaluation_seconds(facts, inputs, some_train) : 0;
  const double valid = evaluation_seconds(facts, static_cast<double>(p.valid_rows), some);
  const double test = evaluation_seconds(facts, static_cast<double>(p.test_rows), some);
  const auto times = [&](double e) {
    return r.eval_every == 0 ? 1 : std::max(1.0, std::ceil(e / static_cast<double>(r.eval_every)));
  };
  const bool watches = r.patience > 0;
  const auto of = [&](double e) {
    return watches ? times(e) * valid + train + test : times(e) * (valid + train + test);
  };
  return {kLower * of(epochs.low), kUpper * of(epochs.high)};
}

}  // namespace

PlanSeconds seconds_of(const Plan& plan) {
  const Recipe& r = plan.recipe;
  PlanSeconds s;
  s.search = outlook_of(plan);
  const auto given = static_cast<double>(r.epochs);
  Span epochs{given, given};
  for (const Outlook& t : s.search) {
    s.trials += {kLower * t.seconds.low, kUpper * t.seconds.high};
    if (&t == s.search.data() || t.why_none.empty())
      epochs = {std::min(epochs.low, t.epochs.low), std::max(epochs.high, t.epochs.high)};
    if (s.search.size() == 1) epochs = t.epochs;
  }
  epochs = {steps_as_epochs(plan, epochs.low), steps_as_epochs(plan, epochs.high)};
  const bool endless = epochs.high >= static_cast<double>(kUnlimitedEpochs);
  if (r.patience > 0) epochs.low = std::min(epochs.low, static_cast<double>((r.patience + 1) * r.eval_every));
  Recipe fit = r;
  fit.sought = {};
  const auto rows = static_cast<double>(plan.problem.examples);
  if (r.seconds > 0)
    epochs.high = std::min(epochs.high, 1 + r.seconds / (kLower * (fit_seconds(plan, fit, rows, 1) -
                                                                   fit_seconds(plan, fit, rows, 0))));
  s.fit = {kLower * fit_seconds(plan, fit, rows, epochs.low),
           kUpper * fit_seconds(plan, fit, rows, epochs.high)};
  if (s.search.size() > 1 && s.search.back().why_none.empty()) {  // learnt features may win
    const Outlook& t = s.search.back();
    Recipe learnt = *r.rival;
    learnt.sought = {};
    s.fit.low = std::min(s.fit.low, kLower * fit_seconds(plan, learnt, rows, t.epochs.low));
    learnt.hidden = static_cast<std::uint64_t>(t.hidden.high);
    s.fit.high = std::max(s.fit.high, kUpper * fit_seconds(plan, learnt, rows, t.epochs.high));
  } else if (!s.search.empty() && r.hidden > 0) {
    Recipe largest = fit;
    largest.hidden = static_cast<std::uint64_t>(s.search[0].hidden.high);
    s.fit.high = std::max(s.fit.high, kUpper * fit_seconds(plan, largest, rows, epochs.high));
  }
  if (r.newton > 0) {
    s.fit.low /= kNewtonLess;
    s.fit.high *= r.sought.ridge || r.ridge == 0 ? kNewtonWithoutRidge : kNewtonMore;
  }
  s.training = s.trials + s.fit;
  if (r.seconds > 0) {
    constexpr double kLate = 1.05;
    s.trials.low = std::min(s.trials.low, r.seconds), s.trials.high = std::min(s.trials.high, r.seconds);
    s.fit.low = std::min(s.fit.low, r.seconds - s.trials.high), s.fit.high = std::min(s.fit.high, r.seconds);
    s.training.low = std::min(s.training.low, r.seconds),
    s.training.high = std::min(s.training.high, kLate * r.seconds);
  }
  s.evaluation = evaluations_of(plan, epochs);
  if (endless && r.seconds == 0)
    s.fit.high = s.training.high = s.evaluation.high = std::numeric_limits<double>::infinity();
  return s;
}

std::string span_text(const Span& seconds) {
  struct Unit {
    double seconds;
    const char* name;
  };
  constexpr Unit kUnits[] = {{1, "s"}, {60, "min"}, {3600, "h"}, {86400, "days"}};
  const auto unit_of = [&](double value) {
    std::size_t unit = 0;
    while (unit + 1 < std::size(kUnits) && value >= 2 * kUnits[unit + 1].seconds) ++unit;
    return kUnits[unit];
  };
  const auto number = [](double value, const Unit& unit) {
    const double in_unit = std::max(0.01, value / unit.seconds);
    return in_unit >= 10 ? fmt::format("{:.0f}", in_unit) : fmt::format("{:.2g}", in_unit);
  };
  const Unit low = unit_of(seconds.low), high = unit_of(seconds.high);
  const std::string from = number(seconds.low, low), to = number(seconds.high, high);
  if (seconds.high < 0.01) return "under 0.01 s";
  if (std::isinf(seconds.high)) return fmt::format("{} {} or more", from, low.name);
  if (low.seconds != high.seconds) return fmt::format("{} {} to {} {}", from, low.name, to, high.name);
  return from == to ? fmt::format("{} {}", to, high.name) : fmt::format("{} to {} {}", from, to, high.name);
}

}  // namespace truemax
