#include "train/search_and_fit.hpp"

#include <utility>

#include "data/hold_out.hpp"
#include "train/device_choice.hpp"
#include "train/fit.hpp"
#include "train/learnt_lane.hpp"
#include "train/step_shape.hpp"
#include "train/warm_start.hpp"

namespace truemax {

void set_validation_aside(DataView& data, std::optional<DataView>& valid, const TrainOptions& options) {
  if (options.valid_share == 0) return;
  if (options.open.any()) {
    if (data.row_count() >= kFewestRows) require_share(data.row_count(), options.valid_share);
    return;
  }
  RowSplit split = set_aside(data, options.valid_share, options.seed);
  data = std::move(split.rest), valid = std::move(split.valid);
}

RunState search_and_fit(const TrainSets& sets, TrainOptions& options, Stopwatch& watch,
                        std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                        const TrainExtras& extras, FitResult& result, const std::function<void()>& searched) {
  Weights spare;  // memory of the trials
  if (options.seconds > 0 && extras.recording == nullptr && !on_gpu(options))
    spare = cleared_weights(sets.data, options);
  watch.resume();
  result.search.finished = true;
  if (options.open.any()) {
    result.search = choose_by_trials(sets, options, {watch, observers, stop, &spare, extras.known_trials});
    result.trial_seconds = watch.seconds_running();
  }
  if (searched) searched();
  RunState state = make_state(sets.data, options, &spare);
  if (extras.restore || extras.start != nullptr) state.zero_weights = false;
  if (extras.restore) {
    if (!state.learnt.empty()) LearntLane::add_squares(state.learnt, options);
    extras.restore(state);
  } else if (extras.start != nullptr) {
    start_from(*extras.start, sets.data, options, state);
  }
  TrainExtras of_fit = extras;
  of_fit.search_seconds = result.trial_seconds;
  if (result.search.finished)
    result.outcome = train(sets, options, state, watch, observers, stop, of_fit);
  else
    result.outcome.interrupted = true;
  return state;
}

}  // namespace truemax
