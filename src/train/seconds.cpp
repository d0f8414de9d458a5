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

// Of one core of an ordinary processor, in seconds.
constexpr double kClearing = 4e9;  // bytes per second of W, when a run begins
constexpr double kDeviceSteps = 2e8, kDeviceProducts = 2e13;

double rows_of(const Facts& facts) {
  return static_cast<double>(facts.problem.examples);
}
double nonzeros(const Facts& facts) {
  return facts.problem.nonzeros_per_row + (facts.recipe.intercept ? 1 : 0);
}
double weight_bytes(const Facts& facts) {
  return static_cast<double>(Weights::bytes_needed(facts.problem.classes, facts.problem.features));
}

// A cache line of W that a step reads and writes, by where W lies: L2, L3, memory, memory beyond the reach of
// the tables of pages. Between these sizes it grows with their logarithm.
double line_seconds(double bytes) {
  struct At {
    double bytes, seconds;
  };
  constexpr At kAt[] = {{5e5, 2e-9}, {3e6, 3e-9}, {3e7, 1e-8}, {3e8, 3e-8}, {3e9, 6e-8}};
  if (bytes <= kAt[0].bytes) return kAt[0].seconds;
  for (std::size_t i = 1; i < std::size(kAt); ++i)
    if (bytes <= kAt[i].bytes) {
      const double share = std::log(bytes / kAt[i - 1].bytes) / std::log(kAt[i].bytes / kAt[i - 1].bytes);
      return kAt[i - 1].seconds + share * (kAt[i].seconds - kAt[i - 1].seconds);
    }
  return std::end(kAt)[-1].seconds;
}

// Threads that share a work of so many seconds a piece: meeting costs about a microsecond.
double over_threads(double seconds, double threads, double share_of_one = 0.1) {
  return seconds * (share_of_one + (1 - share_of_one) / threads);
}

double blocks_of_step(const Facts& facts) {
  const auto all = static_cast<double>(facts.problem.blocks());
  if (facts.draw == nullptr) return all;
  return std::min(all, static_cast<double>(facts.draw->most_blocks()));
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
  constexpr double kStep = 1.5e-7;
  return rows_of(facts) * (kStep + 2 * nonzeros(facts) * line_seconds(weight_bytes(facts)));
}

double general_seconds(const Facts& facts) {
  constexpr double kStep = 4e-7, kClass = 2e-8;
  const double classes = facts.draw == nullptr ? static_cast<double>(facts.problem.classes)
                                               : static_cast<double>(facts.draw->most_classes());
  const auto n = static_cast<double>(facts.recipe.rows_per_step);
  const double steps = rows_of(facts) / n;
  return steps * (kStep + n * (classes + n) * (kClass + nonzeros(facts) * line_seconds(weight_bytes(facts))));
}

double block_seconds(const Facts& facts) {
  constexpr double kStep = 2.5e-7, kBlock = 4e-8;
  const double blocks = blocks_of_step(facts);
  return rows_of(facts) * (kStep + blocks * (kBlock + nonzeros(facts) * line_seconds(weight_bytes(facts))));
}

double group_seconds(const Facts& facts) {
  constexpr double kStep = 3e-7, kBlock = 8e-8;
  const double blocks = blocks_of_step(facts);
  return over_threads(
      rows_of(facts) * (kStep + blocks * (kBlock + nonzeros(facts) * line_seconds(weight_bytes(facts)))),
      static_cast<double>(facts.machine.threads), 0.3);
}

double all_classes_seconds(const Facts& facts) {
  constexpr double kStep = 5e-7, kBlock = 1e-7;
  const auto blocks = static_cast<double>(facts.problem.blocks());
  return rows_of(facts) * (kStep + blocks * (kBlock + nonzeros(facts) * line_seconds(weight_bytes(facts))));
}

double adam_seconds(const Facts& facts) {
  constexpr double kLine = 1.5e-9, kRow = 1e-7;
  const double of_step =
      static_cast<double>(facts.problem.features) / static_cast<double>(facts.recipe.rows_per_step);
  const double seconds = rows_of(facts) * (kRow + static_cast<double>(facts.problem.blocks()) *
                                                      (nonzeros(facts) + 3 * of_step) * kLine);
  return over_threads(seconds, static_cast<double>(facts.machine.threads));
}

double lbfgs_epoch_seconds(const Facts& facts) {
  return lbfgs_seconds(facts) / static_cast<double>(facts.machine.threads);
}

double learnt_seconds(const Facts& facts) {
  constexpr double kProducts = 5e10;  // floating-point operations per second of a core
  return over_threads(learnt_products(facts) / kProducts, static_cast<double>(facts.machine.threads));
}
double device_learnt_seconds(const Facts& facts) {
  return learnt_products(facts) / kDeviceProducts;
}
double device_seconds(const Facts& facts) {
  return rows_of(facts) / kDeviceSteps;
}

double newton_seconds(const Facts& facts) {
  constexpr double kProductsOfFit = 300, kProduct = 1e-9;
  return newton_work(facts.problem, 4) * kProductsOfFit * kProduct;
}

double evaluation_seconds(const Facts& facts, double rows, bool sampled) {
  constexpr double kLine = 1e-9;
  const auto& [recipe, problem, machine, draw] = facts;
  const double columns = recipe.hidden > 0 ? static_cast<double>(recipe.hidden) : nonzeros(facts);
  double blocks = static_cast<double>(problem.blocks());
  if (sampled) {
    rows = std::min(rows, static_cast<double>(recipe.evaluation.rows));
  }
  return rows * blocks * (0.5 * columns + 6) * kLine / static_cast<double>(machine.threads);
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
constexpr double kLower = 0.72, kUpper = 1.42;

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
