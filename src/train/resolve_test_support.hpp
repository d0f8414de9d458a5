// For tests of what a run decides: options as somebody said them, and what becomes of them with data in
// memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "train/search.hpp"
#include "train/test_support.hpp"

namespace truemax {

// These options, said to be what they are by default.
inline void say(const std::vector<std::string>& names, Asked& asked) {
  OptionTable table;
  asked.describe(table);
  for (const std::string& name : names) {
    const Option& option = *table.find(name);
    option.from_json(option.to_json());
  }
}
inline void say_all_but(const std::vector<std::string>& names, Asked& asked) {
  OptionTable table;
  asked.describe(table);
  for (const Option& option : table.options())
    if (std::find(names.begin(), names.end(), option.name) == names.end() && !option.said())
      option.from_json(option.to_json());
}
inline Asked asked_for(const std::vector<std::string>& names = {}, Target target = Target::valid) {
  Asked asked;
  say(names, asked);
  if (target == Target::train) asked.target = target;
  asked.threads = 1;
  return asked;
}

inline Recipe decided(const DataView& data, const Asked& asked) {
  return Decided(asked, data).recipe;
}

// The trials of a search, in order.
struct TrialsSeen : TrainObserver {
  std::vector<SearchTrial> trials;
  void tried(const SearchTrial& trial) override { trials.push_back(trial); }
};

inline Found run_search(const TrainSets& sets, const Decided& run, TrainObserver& seen,
                        const Stopwatch& watch, const std::atomic<bool>& stop) {
  TrainObserver* const observers[] = {&seen};
  return search(run.recipe, {sets, run.problem, run.machine, watch, observers, stop});
}
inline Found run_search(const TrainSets& sets, const Decided& run, TrainObserver& seen,
                        const std::atomic<bool>& stop) {
  Stopwatch watch;
  watch.resume();
  return run_search(sets, run, seen, watch, stop);
}

// The recipe of the fit: decided, then found by trials.
inline Recipe chosen_for(const Dataset& data, const Asked& asked, TrialsSeen& seen,
                         const std::optional<DataView>& valid = {}) {
  static const std::atomic<bool> go{false};
  const TrainSets sets{data, {}, valid};
  const Found found = run_search(sets, Decided(asked, sets), seen, go);
  EXPECT_TRUE(found.search.finished);
  return found.recipe;
}

}  // namespace truemax
