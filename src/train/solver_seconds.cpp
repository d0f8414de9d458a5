#include "train/solver_seconds.hpp"

#include <algorithm>
#include <cmath>

#include "rule/methods.hpp"
#include "train/step_cost.hpp"
#include "weights/weights.hpp"

namespace truemax {
namespace {

// Measured on one core of an AMD EPYC (Zen 5), with the real data sets of the project.
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
  constexpr double kStep = 6e-8;
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
  constexpr double kRow = 3.5e-7, kBlock = 9.5e-9, kLine = 1.5e-9, kVectors = 3, kAlone = 0.15;
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

// How many products of all rows with W it takes depends on data and ridge: this is a usual number.
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

}  // namespace truemax
