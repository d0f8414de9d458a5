// A run on data in memory: the search, if options are open, then the fit with what it found. Used by the
// command line and the C++ API.
#pragma once

#include <atomic>
#include <functional>
#include <span>

#include "train/automatic.hpp"
#include "train/trainer.hpp"

namespace truemax {

struct FitResult {
  SearchResult search;       // of --method auto; `finished` also if there was nothing to search
  double trial_seconds = 0;  // part of the training time
  TrainOutcome outcome;
};

// For a named method with --valid-share: moves that share of the rows to `valid`. Throws UserError if either
// side would be empty, also for the rows that a search will set aside.
void set_validation_aside(DataView& data, std::optional<DataView>& valid, const TrainOptions& options);

// Chooses what is open in `options`, calls `searched`, then trains. `watch` must not be running; it counts
// search and training. Returns the last state; if the search was stopped, the first one.
RunState search_and_fit(const TrainSets& sets, TrainOptions& options, Stopwatch& watch,
                        std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                        const TrainExtras& extras, FitResult& result,
                        const std::function<void()>& searched = {});

}  // namespace truemax
