// What training is told.
#pragma once

#include <cstdint>
#include <string>

#include "core/options.hpp"
#include "draw/draw.hpp"
#include "rule/rule.hpp"

namespace truemax {

enum class Visit { random, shuffle, file };

inline constexpr double kLargestStep = 1e15;

struct TrainOptions {
  std::string method = "implicit";
  double step = 0.1;  // eta N; epoch e uses step * decay^e
  double decay = 0.9;
  std::uint64_t epochs = 50;
  std::uint64_t classes_per_step = 1;  // m
  std::uint64_t rows_per_step = 1;     // n
  std::string draw = "uniform";
  DrawOptions draws;
  Visit visit = Visit::random;
  bool intercept = false;
  double ridge = 0;              // mu, beside the sum of the row losses
  bool ridge_intercept = false;  // the intercept is in the ridge
  std::uint64_t seed = 1;
  std::uint64_t eval_every = 10;  // 0: only after the last epoch
  std::uint64_t threads = 0;      // 0: all cores
  RuleOptions rule;

  void describe(OptionTable& table);
  // What single ranges cannot say: that the method takes this n and m, and the draw this n. Throws UserError.
  void check() const;
  std::size_t thread_count() const;
  double step_at(std::uint64_t epoch) const;
};

}  // namespace truemax
