// Trying options: a grid of them on a part of the data, the better half going on with twice as many epochs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/data_view.hpp"
#include "train/options.hpp"

namespace truemax {

// An option of training with the values to try: one --try.
struct TryList {
  std::string option;
  std::vector<std::string> values;
};

// "option=value,value,..." each. Throws UserError naming the option, or the value that it does not take.
std::vector<TryList> parse_tries(const std::vector<std::string>& texts);

struct Trial {
  enum class State { waiting, kept, stopped, diverged };
  struct Mark {
    std::uint64_t epochs = 0;
    double valid_loss = 0;
  };
  std::vector<std::pair<std::string, std::string>> settings;  // what is tried, as typed
  TrainOptions options;
  State state = State::waiting;
  std::vector<Mark> marks;  // the validation log-loss at the end of each round it was in
  double seconds = 0;       // of training
  std::string divergence;

  std::uint64_t epochs() const { return marks.empty() ? 0 : marks.back().epochs; }
};
const char* state_name(Trial::State state);

// All combinations, the last option changing fastest, or `random` of them (0: all) drawn by the seed of
// `base`. Throws UserError where there are too many, or where a method does not take a combination.
std::vector<Trial> make_trials(const TrainOptions& base, const std::vector<TryList>& tries,
                               std::uint64_t random);

// The epochs at which trials are compared: an eighth, a quarter, half, all.
std::vector<std::uint64_t> tune_rounds(std::uint64_t epochs);

// The threads of one trial where `trials` run at once on `threads`.
std::size_t threads_of_trial(std::size_t threads, std::size_t trials);

struct TuneOptions {
  std::vector<Trial> trials;
  std::uint64_t epochs = 50;
  std::size_t threads = 1;  // of all trials together. Never changes a result.
  // Ridge stands beside the sum of the row losses: on a share of the rows it is this share of what was asked,
  // so that the best one is the best for all rows.
  double ridge_share = 1;
  std::uint64_t memory_limit = 0;  // 0: what is there
};

struct TuneResult {
  std::vector<Trial> trials;  // best first
  bool interrupted = false;
  // Where the memory does not hold all trials, those that go on start again: the same result, more slowly.
  bool started_again = false;

  const Trial* best() const;  // null where none came to its end
};

// `done` epochs of about `of`.
using TuneProgress = std::function<void(double done, double of)>;

TuneResult tune(const DataView& train, const DataView& valid, TuneOptions options,
                const std::atomic<bool>& stop, const TuneProgress& progress = {});

nlohmann::ordered_json tune_json(const TuneResult& result);

}  // namespace truemax
