// A run on data that are there: the search, where options are open, and the fit with what it found. The
// command line and the C++ API both end up here.
#pragma once

#include <atomic>
#include <functional>
#include <span>

#include "train/automatic.hpp"
#include "train/trainer.hpp"

namespace truemax {

struct FitResult {
  SearchResult search;       // of --method auto; finished: also where there was nothing to search
  double trial_seconds = 0;  // part of the training time
  TrainOutcome outcome;
};

// For a named method with --valid-share: that share of the rows becomes the validation rows. Throws UserError
// where one side would be empty, also of the rows that a search will set aside.
void set_validation_aside(DataView& data, std::optional<DataView>& valid, const TrainOptions& options);

// Chooses what is open in `options`, then trains. `watch` has not been started; it counts both. `searched` is
// called between the two. Returns the weights; a search that was stopped has found nothing to fit with, and
// leaves them at their start.
Weights search_and_fit(const TrainSets& sets, TrainOptions& options, Stopwatch& watch,
                       std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                       const TrainExtras& extras, FitResult& result,
                       const std::function<void()>& searched = {});

}  // namespace truemax
