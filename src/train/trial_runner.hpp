// One trial of a search: trains from scratch and returns the log-loss on rows that it did not train on.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "train/search.hpp"

namespace truemax {

// Rows to train on, and rows to evaluate trials on (the judges).
struct TrialRows {
  const DataView& data;
  const DataView& judge;
};

class TrialRunner {
 public:
  // A trial that still runs when the clock reads `latest` seconds is given up, and no other is started.
  // `before`: trials of this search that others have run.
  TrialRunner(const SearchTools& tools, double latest, std::uint64_t before = 0)
      : machine_(tools.machine),
        watch_(tools.watch),
        latest_(latest),
        observers_(tools.observers),
        stop_(tools.stop),
        spare_(*tools.spare),
        known_(tools.known),
        count_(before) {}

  // For so many steps (0: for o.epochs). Infinity if it diverged, was stopped or was given up.
  double run(const char* about, const TrialRows& rows, Recipe o, std::uint64_t steps);

  static std::uint64_t planned_steps(const TrialRows& rows, const Recipe& o, std::uint64_t steps);
  bool stopped() const { return stop_.load(std::memory_order_relaxed); }
  bool late() const { return late_; }
  std::uint64_t count() const { return count_; }  // those before included

 private:
  const SearchTrial* known(const SearchTrial& planned) const;
  std::optional<double> loss_of(const TrialRows& rows, const Plan& plan, SearchTrial& tried);

  const Machine& machine_;
  const Stopwatch& watch_;
  double latest_;
  std::span<TrainObserver* const> observers_;
  const std::atomic<bool>& stop_;
  Weights& spare_;
  std::span<const SearchTrial> known_;
  std::uint64_t count_;
  bool late_ = false;
};

}  // namespace truemax
