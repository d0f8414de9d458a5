// A run on data in memory: the search, if something is sought, then the fit with what it found. Used by the
// command line and the C++ API.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>

#include "train/search.hpp"
#include "train/trainer.hpp"

namespace truemax {

struct FitResult {
  SearchResult search;       // `finished` also if there was nothing to search
  double trial_seconds = 0;  // part of the training time
  std::optional<Plan> plan;  // of the fit; if the search was stopped, with the best so far
  TrainOutcome outcome;
};

// For a recipe with --valid-share that is not for trials: moves that share of the rows to `valid`. Throws
// UserError if either side would be empty, also for the rows that a search will set aside.
void set_validation_aside(DataView& data, std::optional<DataView>& valid, const Recipe& recipe);

// Finds what is sought, makes the plan of the fit, calls `searched`, then trains. `watch` must not be
// running; it counts search and training. Returns the last state; if the search was stopped, the first one.
RunState search_and_fit(const TrainSets& sets, const Plan& plan, Stopwatch& watch,
                        std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                        const TrainExtras& extras, FitResult& result,
                        const std::function<void()>& searched = {});

}  // namespace truemax
