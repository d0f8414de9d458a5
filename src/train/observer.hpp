// What a run tells while it goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/plan.hpp"
#include "train/run_state.hpp"

namespace truemax {

// One trial of a search.
struct SearchTrial {
  std::string about;  // what it tests: "step", "ridge", "epochs", "hidden", or "linear" beside learnt ones
  std::uint64_t number = 0;
  std::uint64_t hidden = 0;  // learnt features; 0: linear
  double step = 0, ridge = 0;
  std::uint64_t rows = 0, steps = 0, judged_on = 0;
  std::uint64_t rows_per_step = 1;
  double log_loss = 0, seconds = 0;
  // What the next trial goes on from, and what the search compares trials by, where numbers above do not say
  // it (Newton's method): points, and log-losses by judge.
  struct Memory {
    std::vector<double> points, losses;
    bool empty() const { return losses.empty(); }
  };
  Memory memory;
};

// For the log, progress and callers' own code: observers never change the run.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void stepped(std::uint64_t /*epoch*/, std::uint64_t /*steps*/, std::uint64_t /*of*/,
                       double /*train_seconds*/) {}
  // The search of --method auto: the next trial (with its planned steps), its progress, its result.
  virtual void trying(const SearchTrial& /*next*/) {}
  virtual void trial_stepped(std::uint64_t /*steps*/, std::uint64_t /*of*/) {}
  virtual void tried(const SearchTrial& /*trial*/) {}
  // The fit begins, after so many seconds of training time.
  virtual void fitting(const Plan& /*plan*/, double /*train_seconds*/) {}
  virtual void evaluating(std::size_t /*rows*/, std::size_t /*of*/) {}
  virtual void evaluated(const EvaluationRecord& /*record*/) {}
  // Something failed that does not end the run.
  virtual void warned(const std::string& /*what*/) {}
};

}  // namespace truemax
