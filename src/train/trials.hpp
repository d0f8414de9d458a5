// The trials of a search: each is run once, told to observers, and not run again by a search that is resumed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "train/search.hpp"

namespace truemax {

// Rows to train on, and rows to evaluate trials on (the judges).
struct TrialRows {
  const DataView& data;
  const DataView& judge;
};

class Trials {
 public:
  // A trial that still runs when the clock reads `latest` seconds is given up, and no other is started.
  // `before`: trials of this search that others have run.
  Trials(const SearchTools& tools, double latest, std::uint64_t before = 0)
      : tools_(tools), latest_(latest), count_(before) {}

  // Trains from scratch for so many steps (0: for the epochs of the recipe) and returns the log-loss of the
  // judges. Infinity if it diverged, was stopped or was given up.
  double train(const char* about, const TrialRows& rows, const Recipe& recipe, std::uint64_t steps);
  static std::uint64_t planned_steps(const TrialRows& rows, const Recipe& recipe, std::uint64_t steps);

  // Any other trial. `judge` returns the log-loss, or nothing if it was stopped or given up; what it leaves
  // in `tried.memory` is there again if an earlier process has run the trial.
  double run(SearchTrial& tried, const std::function<std::optional<double>(SearchTrial&)>& judge);

  bool stopped() const { return tools_.stop.load(std::memory_order_relaxed); }
  bool gave_up() const { return late_; }
  const std::atomic<bool>& stop() const { return tools_.stop; }
  std::uint64_t count() const { return count_; }  // those before included

 private:
  const SearchTrial* known(const SearchTrial& planned) const;
  std::optional<double> loss_of(const TrialRows& rows, const Plan& plan, SearchTrial& tried);

  const SearchTools& tools_;
  double latest_;
  std::uint64_t count_;
  bool late_ = false;
};

}  // namespace truemax
