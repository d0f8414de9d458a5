#include "train/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/random.hpp"
#include "core/text.hpp"
#include "evaluate/evaluate.hpp"
#include "train/bind.hpp"
#include "train/require.hpp"
#include "train/resolve.hpp"
#include "train/study.hpp"

namespace truemax {
namespace {

constexpr std::uint64_t kMostTrials = 10000;

TryList parse_try(const std::string& text) {
  const auto refuse = [&](std::string_view found, std::string_view advice) {
    return UserError(fmt::format("--try {}: {}; {}", in_quotes(text), found, advice));
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) throw refuse("there is no '='", "write for example --try step=0.1,1,10");
  TryList list{text.substr(0, equals), {}};
  Asked asked;
  OptionTable table;
  asked.describe(table);
  const Option* option = table.find(list.option);
  if (const Option* now = table.find_other_name(list.option))
    throw refuse(fmt::format("{} has another name here", in_quotes(list.option)),
                 fmt::format("write {}", now->name));
  if (option == nullptr || !option->tags.tunable)
    throw refuse(
        fmt::format("{} {}", in_quotes(list.option),
                    option == nullptr ? "is not an option of training" : "is the same for all trials"),
        "take one such as step, ridge, decay, method or classes-per-step ('truemax train --help')");
  for (std::size_t at = equals + 1;;) {
    const std::size_t end = text.find(',', at);
    const std::string value = text.substr(at, end == std::string::npos ? end : end - at);
    try {
      option->parse(value);
    } catch (const UserError& error) {
      throw UserError(fmt::format("--try: {}", error.what()));
    }
    if (std::find(list.values.begin(), list.values.end(), value) != list.values.end())
      throw refuse(fmt::format("{} is listed twice", in_quotes(value)), "name it once");
    list.values.push_back(value);
    if (end == std::string::npos) return list;
    at = end + 1;
  }
}

Trial make_trial(const Asked& base, const std::vector<TryList>& tries, std::uint64_t number) {
  Trial trial;
  trial.asked = base;
  OptionTable table;
  trial.asked.describe(table);
  std::vector<std::size_t> at(tries.size());
  for (std::size_t i = tries.size(); i-- > 0;) {
    at[i] = number % tries[i].values.size();
    number /= tries[i].values.size();
  }
  std::string words;
  for (std::size_t i = 0; i < tries.size(); ++i) {
    const std::string& value = tries[i].values[at[i]];
    table.find(tries[i].option)->parse(value);
    trial.settings.emplace_back(tries[i].option, value);
    words += fmt::format("{}{}={}", words.empty() ? "" : " ", tries[i].option, value);
  }
  try {
    static_cast<void>(resolve_reading(trial.asked, {.has_valid = true}, {}));
  } catch (const UserError& error) {
    throw UserError(fmt::format("with {}: {}", words, error.what()));
  }
  return trial;
}

// Better first: the trial that got further, then the lower log-loss. Diverged trials come last; ties keep the
// order of the grid.
bool better(const Trial& a, const Trial& b) {
  const auto lost = [](const Trial& t) { return t.state == Trial::State::diverged || t.marks.empty(); };
  if (lost(a) != lost(b)) return lost(b);
  if (lost(a)) return false;
  if (a.epochs() != b.epochs()) return a.epochs() > b.epochs();
  return a.marks.back().valid_loss < b.marks.back().valid_loss;
}

class Tuner {
 public:
  Tuner(const DataView& train, const DataView& valid, TuneOptions&& options, const std::atomic<bool>& stop,
        const TuneProgress& progress)
      : sets_{train}, valid_(valid), options_(std::move(options)), stop_(stop), progress_(progress) {
    plan();
  }

  TuneResult run() {
    std::vector<Trial>& trials = options_.trials;
    std::vector<std::size_t> alive(trials.size());
    std::iota(alive.begin(), alive.end(), std::size_t{0});
    const std::vector<std::uint64_t> rounds = tune_rounds(options_.epochs);
    for (std::size_t r = 0; r < rounds.size() && !stop_.load(); ++r) {
      if (alive.size() == 1 && r + 1 < rounds.size()) continue;  // nothing to compare with
      share_ = threads_of_trial(options_.threads, std::min(alive.size(), at_once_));
      parallel_for(alive.size(), at_once_, [&](std::size_t i) { advance(alive[i], rounds[r]); });
      if (stop_.load()) break;
      std::erase_if(alive, [&](std::size_t t) { return trials[t].state == Trial::State::diverged; });
      std::stable_sort(alive.begin(), alive.end(),
                       [&](std::size_t a, std::size_t b) { return better(trials[a], trials[b]); });
      if (r + 1 == rounds.size()) {
        for (const std::size_t t : alive) trials[t].state = Trial::State::kept;
        break;
      }
      const std::size_t stay = (alive.size() + 1) / 2;
      for (std::size_t i = stay; i < alive.size(); ++i) {
        trials[alive[i]].state = Trial::State::stopped;
        runs_[alive[i]].reset();
      }
      alive.resize(stay);
      std::sort(alive.begin(), alive.end());
    }
    TuneResult result;
    result.interrupted = stop_.load();
    result.started_again = !keep_;
    result.trials = std::move(trials);
    std::stable_sort(result.trials.begin(), result.trials.end(), better);
    return result;
  }

 private:
  void plan() {
    std::uint64_t largest = 0, sum = 0, there = 0;
    problem_ = facts_of({sets_.data, {}, valid_}, false, {}, options_.threads);
    machine_ = machine_of(options_.threads, options_.memory_limit, problem_);
    for (const Trial& trial : options_.trials) {
      require_shape(trial.recipe, problem_);
      const MemoryPlan plan = bind(trial.recipe, problem_, machine_).memory;
      plan.require();
      there = plan.there - std::min(plan.there, plan.data + plan.evaluation);
      const std::uint64_t bytes = plan.weights + plan.rows;
      largest = std::max(largest, bytes);
      sum += bytes;
    }
    keep_ = sum <= there / 2;
    const std::uint64_t fit =
        std::max<std::uint64_t>(1, keep_ ? options_.threads : there / std::max<std::uint64_t>(largest, 1));
    at_once_ = static_cast<std::size_t>(std::min<std::uint64_t>(options_.threads, fit));
    runs_.resize(options_.trials.size()), machines_.resize(options_.trials.size());
    std::size_t alive = options_.trials.size();
    std::uint64_t before = 0;
    for (const std::uint64_t epochs : tune_rounds(options_.epochs)) {
      of_ += static_cast<double>(alive) * static_cast<double>(epochs - (keep_ ? before : 0));
      before = epochs;
      alive = (alive + 1) / 2;
    }
  }

  // Trains a trial up to `epochs` epochs and evaluates it.
  void advance(std::size_t t, std::uint64_t epochs) {
    Trial& trial = options_.trials[t];
    Recipe recipe = trial.recipe;
    recipe.threads = recipe.lock_free ? 1 : share_;  // lock-free steps on several threads are not repeatable
    recipe.epochs = options_.epochs;                 // the length of a linear schedule
    recipe.ridge *= options_.ridge_share;
    try {
      const double before = runs_[t] ? runs_[t]->seconds() : 0;
      if (!runs_[t]) {
        machines_[t] = machine_;
        machines_[t].threads = recipe.threads;
        runs_[t] = std::make_unique<StudyRun>(recipe, StudyRows{sets_, problem_, machines_[t], stop_});
      }
      StudyRun& run = *runs_[t];
      while (run.whole_epochs() < epochs) {
        run.train_until_epoch(run.whole_epochs() + 1);
        if (stop_.load()) return;
        count_epoch();
      }
      trial.seconds += run.seconds() - before;
      const auto loss = run.log_loss(valid_, share_);
      if (!loss) return;
      trial.marks.push_back({epochs, *loss});
      if (!keep_) runs_[t].reset();
    } catch (const DivergenceError& error) {
      trial.state = Trial::State::diverged;
      trial.divergence = error.what();
      runs_[t].reset();
    }
  }

  void count_epoch() {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (progress_) progress_(done_, std::max(of_, done_));
  }

  TrainSets sets_;
  const DataView& valid_;
  Problem problem_;
  Machine machine_;
  TuneOptions options_;
  const std::atomic<bool>& stop_;
  const TuneProgress& progress_;
  std::vector<std::unique_ptr<StudyRun>> runs_;
  std::vector<Machine> machines_;
  std::size_t at_once_ = 1, share_ = 1;  // trials at once, and threads per trial
  bool keep_ = true;                     // keep the weights of trials between rounds
  std::mutex mutex_;
  double done_ = 0, of_ = 0;
};

}  // namespace

std::vector<TryList> parse_tries(const std::vector<std::string>& texts) {
  if (texts.empty()) throw UserError("there is nothing to try; add for example --try step=0.1,1,10");
  std::vector<TryList> lists;
  for (const std::string& text : texts) {
    lists.push_back(parse_try(text));
    for (std::size_t i = 0; i + 1 < lists.size(); ++i)
      if (lists[i].option == lists.back().option)
        throw UserError(
            fmt::format("--try {0}=... is given twice; name all values of {0} in one", lists.back().option));
  }
  return lists;
}

const char* state_name(Trial::State state) {
  switch (state) {
    case Trial::State::waiting:
      return "not finished";
    case Trial::State::kept:
      return "kept";
    case Trial::State::stopped:
      return "stopped";
    case Trial::State::diverged:
      return "diverged";
  }
  return "unknown";
}

std::vector<Trial> make_trials(const Asked& base, const std::vector<TryList>& tries, std::uint64_t random) {
  constexpr std::uint64_t kMostCombinations = std::uint64_t{1} << 32;  // the draw uses 32 bits
  std::uint64_t all = 1;
  for (const TryList& list : tries) {
    if (all > kMostCombinations / list.values.size())
      throw UserError(
          fmt::format("--try: there are more than {} combinations; try fewer values", kMostCombinations));
    all *= list.values.size();
  }
  const std::uint64_t count = random == 0 ? all : std::min(random, all);
  if (count > kMostTrials)
    throw UserError(
        fmt::format("--try: {} trials are too many, at most {}; try fewer values, or give --random "
                    "100 to draw some of them",
                    count, kMostTrials));
  std::vector<std::uint32_t> numbers(count);
  if (count == all) {
    std::iota(numbers.begin(), numbers.end(), 0U);
  } else {
    const CounterRandom stream(base.seed.value_or(Recipe{}.seed), Stream::tune, 0);
    RandomWords words(stream, 0);
    draw_distinct(words, all, numbers);
    std::sort(numbers.begin(), numbers.end());
  }
  std::vector<Trial> trials;
  trials.reserve(count);
  for (const std::uint32_t number : numbers) trials.push_back(make_trial(base, tries, number));
  return trials;
}

std::vector<std::uint64_t> tune_rounds(std::uint64_t epochs) {
  std::vector<std::uint64_t> rounds;
  for (const std::uint64_t share : {8, 4, 2, 1}) {
    const std::uint64_t at = std::max<std::uint64_t>(1, epochs / share);
    if (rounds.empty() || at > rounds.back()) rounds.push_back(at);
  }
  return rounds;
}

std::size_t threads_of_trial(std::size_t threads, std::size_t trials) {
  return std::max<std::size_t>(1, threads / std::max<std::size_t>(1, trials));
}

const Trial* TuneResult::best() const {
  if (trials.empty() || trials.front().state != Trial::State::kept) return nullptr;
  return &trials.front();
}

TuneResult tune(const DataView& train, const DataView& valid, TuneOptions options,
                const std::atomic<bool>& stop, const TuneProgress& progress) {
  return Tuner(train, valid, std::move(options), stop, progress).run();
}

nlohmann::ordered_json tune_json(const TuneResult& result) {
  using Json = nlohmann::ordered_json;
  Json json{{"interrupted", result.interrupted}, {"trials", Json::array()}};
  for (const Trial& trial : result.trials) {
    Recipe recipe = trial.recipe;
    OptionTable table;
    recipe.describe(table);
    Json tried = Json::object(), marks = Json::array();
    for (const auto& [name, value] : trial.settings) tried[name] = table.find(name)->to_json();
    for (const Trial::Mark& mark : trial.marks)
      marks.push_back({{"epochs", mark.epochs}, {"valid_log_loss", mark.valid_loss}});
    Json one{{"tried", tried}, {"state", state_name(trial.state)}, {"epochs", trial.epochs()}};
    if (!trial.marks.empty()) one["valid_log_loss"] = trial.marks.back().valid_loss;
    one["seconds"] = trial.seconds;
    one["rounds"] = marks;
    if (!trial.divergence.empty()) one["diverged"] = trial.divergence;
    one["options"] = table.to_json();
    for (const Option& option : table.options())
      if (!option.tags.tunable) one["options"].erase(option.name);
    json["trials"].push_back(std::move(one));
  }
  return json;
}

}  // namespace truemax
