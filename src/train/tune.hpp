// Tuning by successive halving: trials on a part of the data; the better half continues for twice the epochs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/data_view.hpp"
#include "train/options.hpp"
#include "train/recipe.hpp"

namespace truemax {

// One --try: an option of training and the values to try.
struct TryList {
  std::string option;
  std::vector<std::string> values;
};

// Parses "option=value,value,...". Throws UserError naming the option, or the invalid value.
std::vector<TryList> parse_tries(const std::vector<std::string>& texts);

struct Trial {
  enum class State { waiting, kept, stopped, diverged };
  struct Mark {
    std::uint64_t epochs = 0;
    double valid_loss = 0;
  };
  std::vector<std::pair<std::string, std::string>> settings;  // the tried options, as typed
  Asked asked;
  Recipe recipe;  // of `asked`, once the data are known
  State state = State::waiting;
  std::vector<Mark> marks;  // validation log-loss at the end of each of its rounds
  double seconds = 0;       // training time
  std::string divergence;

  std::uint64_t epochs() const { return marks.empty() ? 0 : marks.back().epochs; }
};
const char* state_name(Trial::State state);

// All combinations, the last option changing fastest, or `random` of them (0: all) drawn by the seed of
// `base`. Throws UserError if there are too many or a combination is invalid.
std::vector<Trial> make_trials(const Asked& base, const std::vector<TryList>& tries, std::uint64_t random);

// The epochs at which trials are compared: an eighth, a quarter, half, all.
std::vector<std::uint64_t> tune_rounds(std::uint64_t epochs);

// Threads per trial if `trials` run at once on `threads`.
std::size_t threads_of_trial(std::size_t threads, std::size_t trials);

struct TuneOptions {
  std::vector<Trial> trials;
  std::uint64_t epochs = 50;
  std::size_t threads = 1;  // for all trials together; never changes a result
  // The share of the rows in use. Ridge is added to the sum of the row losses, so on a share of the rows it
  // is scaled by that share, to make the best ridge the best for all rows.
  double ridge_share = 1;
  std::uint64_t memory_limit = 0;  // 0: available memory
};

struct TuneResult {
  std::vector<Trial> trials;  // best first
  bool interrupted = false;
  // Not enough memory to keep all trials: survivors restart each round. Same result, but slower.
  bool started_again = false;

  const Trial* best() const;  // null if none finished
};

// `done` epochs of about `of`.
using TuneProgress = std::function<void(double done, double of)>;

TuneResult tune(const DataView& train, const DataView& valid, TuneOptions options,
                const std::atomic<bool>& stop, const TuneProgress& progress = {});

nlohmann::ordered_json tune_json(const TuneResult& result);

}  // namespace truemax
