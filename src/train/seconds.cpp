#include "train/seconds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rule/methods.hpp"
#include "train/newton.hpp"
#include "train/solvers.hpp"
#include "train/step_cost.hpp"
#include "train/step_inputs.hpp"
#include "weights/weights.hpp"

namespace truemax {
namespace {

// Measured on one core of an AMD EPYC (Zen 5), with the real data sets of the project.
constexpr double kClearing = 1.5e10;  // bytes per second of W, when a run begins
constexpr double kDeviceSteps = 2e8, kDeviceProducts = 2e13;

double rows_of(const Facts& facts) {
  return static_cast<double>(facts.problem.examples);
}
double threads_of(const Facts& facts) {
  return static_cast<double>(facts.machine.threads);
}
double nonzeros(const Facts& facts) {
  return facts.problem.nonzeros_per_row + (facts.recipe.intercept ? 1 : 0);
}
double weight_bytes(const Facts& facts) {
  const Problem& p = facts.problem;
  return static_cast<double>(Weights::bytes_needed(p.classes, facts.recipe.weight_columns(p.features)));
}

// Of a cache line of W that a step reads and writes, by where W lies; between these sizes it grows with
// their logarithm. Where there are few blocks, steps wait for the lines of the step before.
double line_seconds(const Facts& facts) {
  struct At {
    double bytes, seconds;
  };
  constexpr At kAt[] = {{1e6, 8e-10}, {3e7, 3e-9}, {1e9, 7e-9}, {1e10, 9e-9}};
  constexpr double kWaiting = 6e-10;
  const double waiting = kWaiting / static_cast<double>(facts.problem.blocks());
  const double bytes = std::clamp(weight_bytes(facts), kAt[0].bytes, std::end(kAt)[-1].bytes);
  std::size_t i = 1;
  while (bytes > kAt[i].bytes) ++i;
  const double share = std::log(bytes / kAt[i - 1].bytes) / std::log(kAt[i].bytes / kAt[i - 1].bytes);
  return kAt[i - 1].seconds + share * (kAt[i].seconds - kAt[i - 1].seconds) + waiting;
}

// `alone`: the share of a work that one thread does while the others wait.
double over_threads(double seconds, double threads, double alone) {
  return seconds * (alone + (1 - alone) / threads);
}

double blocks_of_step(const Facts& facts) {
  const auto all = static_cast<double>(facts.problem.blocks());
  if (facts.draw == nullptr) return all;
  return std::min(all, static_cast<double>(facts.draw->most_blocks()));
}

// Shrinking a block by its ridge.
double ridge_seconds(const Facts& facts) {
  constexpr double kBlock = 7e-8;
  return facts.recipe.ridge > 0 || facts.recipe.sought.ridge ? kBlock : 0;
}

double learnt_products(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  const auto h = static_cast<double>(recipe.hidden);
  const double layer = static_cast<double>(recipe.layers * problem.width) * h;
  const auto classes = static_cast<double>(std::min<std::uint64_t>(recipe.classes_per_step, problem.classes));
  return 6 * rows_of(facts) * h * (classes + layer);
}

}  // namespace

double pair_seconds(const Facts& facts) {
  constexpr double kStep = 5e-8;
  return rows_of(facts) * (kStep + 2 * nonzeros(facts) * line_seconds(facts));
}

double general_seconds(const Facts& facts) {
  constexpr double kStep = 2e-7, kPair = 1.2e-8;  // a row and a class; a row and another in their products
  const double classes = facts.draw == nullptr ? static_cast<double>(facts.problem.classes)
                                               : static_cast<double>(facts.draw->most_classes());
  const auto n = static_cast<double>(facts.recipe.rows_per_step);
  const double line = nonzeros(facts) * line_seconds(facts) + (ridge_seconds(facts) > 0 ? kPair : 0);
  return rows_of(facts) / n * (kStep + n * (classes + 1) * (kPair + line) + n * (n - 1) * kPair);
}

double block_seconds(const Facts& facts) {
  constexpr double kStep = 3e-7, kBlock = 3.5e-8;
  return rows_of(facts) * (kStep + blocks_of_step(facts) * (kBlock + ridge_seconds(facts) +
                                                            nonzeros(facts) * line_seconds(facts)));
}

double group_seconds(const Facts& facts) {
  constexpr double kStep = 2.3e-7, kBlock = 4e-8, kPasses = 1.5, kAlone = 0.45;
  const double step = kStep + blocks_of_step(facts) * (kBlock + ridge_seconds(facts) +
                                                       kPasses * nonzeros(facts) * line_seconds(facts));
  return over_threads(rows_of(facts) * step, threads_of(facts), kAlone);
}

double all_classes_seconds(const Facts& facts) {
  constexpr double kStep = 5e-7, kBlock = 1.1e-7;
  const auto blocks = static_cast<double>(facts.problem.blocks());
  return rows_of(facts) *
         (kStep + blocks * (kBlock + ridge_seconds(facts) + nonzeros(facts) * line_seconds(facts)));
}

double adam_seconds(const Facts& facts) {
  // Each weight and its two means are read and written once a step.
  constexpr double kRow = 3.5e-7, kBlock = 8e-9, kLine = 1.5e-9, kVectors = 3, kAlone = 0.15;
  const auto n = static_cast<double>(facts.recipe.rows_per_step);
  const double lines = nonzeros(facts) + kVectors * static_cast<double>(facts.problem.features) / n;
  const double row = kRow + static_cast<double>(facts.problem.blocks()) * (kBlock + lines * kLine);
  return over_threads(rows_of(facts) * row, threads_of(facts), kAlone);
}

double lbfgs_epoch_seconds(const Facts& facts) {
  // A step reads or writes vectors of the shape of W about so many times.
  constexpr double kRow = 3e-7, kLine = 1.3e-9, kVectors = 100, kAlone = 0.2;
  const auto blocks = static_cast<double>(facts.problem.blocks());
  const double lines =
      blocks * (rows_of(facts) * nonzeros(facts) + kVectors * static_cast<double>(facts.problem.features));
  return over_threads(rows_of(facts) * kRow + lines * kLine, threads_of(facts), kAlone);
}

double learnt_seconds(const Facts& facts) {
  // A number of a vector that a row's feature reads, moves, and has a mean of squares for.
  constexpr double kRow = 3e-7, kNumber = 3.4e-10, kProducts = 1.15e11, kAlone = 0.3;
  const double encoder = facts.problem.nonzeros_per_row * static_cast<double>(facts.recipe.hidden) * kNumber;
  const double seconds = rows_of(facts) * (kRow + encoder) + learnt_products(facts) / kProducts;
  return over_threads(seconds, threads_of(facts), kAlone);
}
double device_learnt_seconds(const Facts& facts) {
  return learnt_products(facts) / kDeviceProducts;
}
double device_seconds(const Facts& facts) {
  return rows_of(facts) / kDeviceSteps;
}

// How many products of all rows with W it takes depends on the data: three times as many, or as few.
double newton_seconds(const Facts& facts) {
  constexpr double kProductsOfFit = 100, kProduct = 1e-9;
  return newton_work(facts.problem, 4) * kProductsOfFit * kProduct;
}

double evaluation_seconds(const Facts& facts, double rows, bool sampled) {
  constexpr double kLine = 1e-9;
  const Recipe& recipe = facts.recipe;
  const double columns = recipe.hidden > 0 ? static_cast<double>(recipe.hidden) : nonzeros(facts);
  if (sampled) rows = std::min(rows, static_cast<double>(recipe.evaluation.rows));
  const double lines = rows * static_cast<double>(facts.problem.blocks()) * (0.5 * columns + 6);
  return lines * kLine / threads_of(facts);
}

double fit_seconds(const Plan& plan, const Recipe& recipe, double rows, double epochs) {
  Problem part = plan.problem;
  const double share = rows / static_cast<double>(part.examples);
  for (std::uint64_t* count : {&part.rows, &part.examples, &part.inputs, &part.nonzeros})
    *count = static_cast<std::uint64_t>(std::max(1.0, share * static_cast<double>(*count)));
  const std::unique_ptr<Draw> draw = draw_for(recipe, part);
  const Facts facts{recipe, part, plan.machine, draw.get()};
  const Solver& steps = solver_of_steps(facts);
  double seconds = epochs * steps.seconds(facts);
  if (!recipe.on_gpu()) seconds += weight_bytes(facts) / kClearing;
  if (recipe.newton > 0) seconds += newton_solver().seconds(facts);
  return seconds;
}

namespace {

// What counting leaves open: other loads, caches and processors, and how far a solver is from the mean.
constexpr double kLower = 0.71, kUpper = 1.41, kNewton = 3;

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
  if (r.patience > 0) epochs.low = std::min(epochs.low, static_cast<double>((r.patience + 1) * r.eval_every));
  Recipe fit = r;
  fit.sought = {};
  const auto rows = static_cast<double>(plan.problem.examples);
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
  if (r.newton > 0) s.fit.low /= kNewton, s.fit.high *= kNewton;
  s.training = s.trials + s.fit;
  if (r.seconds > 0) {
    constexpr double kLate = 1.05;
    s.trials.low = std::min(s.trials.low, r.seconds), s.trials.high = std::min(s.trials.high, r.seconds);
    s.fit.low = std::min(s.fit.low, r.seconds - s.trials.high), s.fit.high = std::min(s.fit.high, r.seconds);
    s.training.low = std::min(s.training.low, r.seconds),
    s.training.high = std::min(s.training.high, kLate * r.seconds);
  }
  s.evaluation = evaluations_of(plan, epochs);
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
  if (low.seconds != high.seconds) return fmt::format("{} {} to {} {}", from, low.name, to, high.name);
  return from == to ? fmt::format("{} {}", to, high.name) : fmt::format("{} to {} {}", from, to, high.name);
}

}  // namespace truemax
