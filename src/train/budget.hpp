// A run for so many seconds of training, or for so many epochs, with the log-loss along the way.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/data_view.hpp"
#include "train/options.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

// One of the two: seconds of training (nothing else counts), or epochs.
struct Budget {
  double seconds = 0;
  std::uint64_t epochs = 0;
  std::size_t points = 8;   // evaluations along the way, the last at the end; geometric in time or epochs
  std::size_t threads = 1;  // of an evaluation; training has one
  std::function<void()> tick{};  // called now and then by the thread that trains
  TimeSource time{};             // what tells the seconds; empty: the steady clock
};

struct CurvePoint {
  double seconds = 0, epochs = 0;
  double train_loss = 0;
  std::optional<double> test_loss;
};

struct BudgetedRun {
  std::vector<CurvePoint> curve;
  std::string divergence;    // the message, where the method diverged
  bool interrupted = false;  // `stop` was raised
  double seconds = 0;        // of training
  std::uint64_t steps = 0;
  double step = 0;  // size of the first one: given, or found by auto

  bool finished() const { return !interrupted && divergence.empty(); }
};

// Over a budget of seconds the schedule decay falls as in a run of 50 epochs: by options.decay each fiftieth.
BudgetedRun run_for(const TrainOptions& options, const DataView& data, const std::optional<DataView>& test,
                    const Budget& budget, const std::atomic<bool>& stop);

}  // namespace truemax
