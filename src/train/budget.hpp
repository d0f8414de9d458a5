// A run for a given number of training seconds or epochs, with the log-loss along the way.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/machine.hpp"
#include "train/problem.hpp"
#include "train/recipe.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

// Either seconds (of training only) or epochs.
struct Budget {
  double seconds = 0;
  std::uint64_t epochs = 0;
  std::size_t points = 8;        // evaluations, the last at the end; geometric in time or epochs
  std::size_t threads = 1;       // for evaluation; training uses one
  std::function<void()> tick{};  // called periodically by the training thread
  TimeSource time{};             // empty: the steady clock
};

struct CurvePoint {
  double seconds = 0, epochs = 0;
  double train_loss = 0;
  std::optional<double> test_loss;
};

struct BudgetedRun {
  std::vector<CurvePoint> curve;
  std::string divergence;    // the message, if the method diverged
  bool interrupted = false;  // `stop` was raised
  double seconds = 0;        // of training
  std::uint64_t steps = 0;
  double step = 0;  // first step size: given, or found by auto

  bool finished() const { return !interrupted && divergence.empty(); }
};

// The recipe ends as the budget says. With a budget of seconds, --schedule decay multiplies the step by
// recipe.decay every fiftieth of the time.
BudgetedRun run_for(const Recipe& recipe, const TrainSets& sets, const Problem& problem,
                    const Machine& machine, const Budget& budget, const std::atomic<bool>& stop);

}  // namespace truemax
