#include "train/search_and_fit.hpp"

#include <utility>

#include "data/hold_out.hpp"
#include "train/bind.hpp"
#include "train/learnt_lane.hpp"
#include "train/start.hpp"
#include "train/start_values.hpp"
#include "train/warm_start.hpp"

namespace truemax {

void set_validation_aside(DataView& data, std::optional<DataView>& valid, const Recipe& recipe) {
  if (recipe.valid_share == 0) return;
  if (recipe.sought.any()) {
    if (data.row_count() >= kFewestRows) require_share(data.row_count(), recipe.valid_share);
    return;
  }
  RowSplit split = set_aside(data, recipe.valid_share, recipe.seed);
  data = std::move(split.rest), valid = std::move(split.valid);
}

RunState search_and_fit(const TrainSets& sets, const Plan& plan, Stopwatch& watch,
                        std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                        const TrainExtras& extras, FitResult& result, const std::function<void()>& searched) {
  Weights spare;  // memory of the trials
  const Recipe& asked = plan.recipe;
  if (asked.seconds > 0 && extras.recording == nullptr && !asked.on_gpu())
    spare = cleared_weights(sets.data, asked);
  watch.resume();
  result.search.finished = true;
  if (asked.sought.any()) {
    const Found found = search(
        asked, {sets, plan.problem, plan.machine, watch, observers, stop, &spare, extras.known_trials});
    result.search = found.search;
    result.trial_seconds = watch.seconds_running();
    result.plan.emplace(bind(found.recipe, plan.problem, plan.machine));
  } else {
    result.plan.emplace(plan);
  }
  if (searched) searched();
  const Recipe& recipe = result.plan->recipe;
  RunState state = make_state(sets.data, recipe, &spare);
  if (extras.restore || extras.start != nullptr) state.zero_weights = false;
  if (extras.restore) {
    if (!state.learnt.empty()) LearntLane::add_squares(state.learnt, recipe);
    extras.restore(state);
  } else if (extras.start != nullptr) {
    start_from(*extras.start, sets.data, recipe, state);
  }
  TrainExtras of_fit = extras;
  of_fit.search_seconds = result.trial_seconds;
  if (result.search.finished)
    result.outcome = train(sets, *result.plan, state, watch, observers, stop, of_fit);
  else
    result.outcome.interrupted = true;
  return state;
}

}  // namespace truemax
