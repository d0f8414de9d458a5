#include "train/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "evaluate/evaluate.hpp"
#include "train/bind.hpp"
#include "train/resolve.hpp"

namespace truemax {
namespace {

constexpr double kLeastSeconds = 0.15;  // shorter runs measure mostly clock and cold caches
constexpr std::uint64_t kBudgetEpochs = 50;
constexpr int kBudgetRuns = 3;

std::vector<std::string_view> parts(std::string_view text, char between) {
  std::vector<std::string_view> all;
  for (std::size_t at = 0;;) {
    const std::size_t end = text.find(between, at);
    all.push_back(text.substr(at, end == std::string_view::npos ? end : end - at));
    if (end == std::string_view::npos) return all;
    at = end + 1;
  }
}

Contender parse_contender(std::string_view entry, const Asked& base) {
  const auto refuse = [&](std::string_view found, std::string_view advice) {
    return UserError(fmt::format("--methods: in {} {}; {}", in_quotes(entry), found, advice));
  };
  Contender contender{std::string(entry), base, true};
  const std::vector<std::string_view> words = parts(entry, ':');
  OptionTable table;
  contender.asked.describe(table);
  try {
    table.find("method")->parse(words[0]);
  } catch (const UserError&) {
    throw refuse(fmt::format("{} is not a method", in_quotes(words[0])), "'truemax methods' lists them");
  }
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == std::string_view::npos)
      throw refuse(fmt::format("{} is not option=value", in_quotes(words[i])),
                   "write for example umax:classes-per-step=5");
    const std::string_view name = words[i].substr(0, equals);
    const Option* option = table.find(name);
    if (const Option* now = table.find_other_name(name))
      throw refuse(fmt::format("{} has another name here", in_quotes(name)),
                   fmt::format("write {}", now->name));
    if (option == nullptr || name == "method" || !option->tags.tunable)
      throw refuse(
          fmt::format("{} {}", in_quotes(name),
                      option == nullptr ? "is not an option" : "is not for --methods"),
          "take options of training such as classes-per-step, draw or ridge ('truemax train --help')");
    try {
      option->parse(words[i].substr(equals + 1));
    } catch (const UserError& error) {
      throw UserError(fmt::format("--methods: in {}: {}", in_quotes(entry), error.what()));
    }
    if (name == "step") contender.grid = false;
  }
  Asked& asked = contender.asked;
  if (!asked.device) asked.device = device::kCpu;
  if (asked.automatic()) {
    contender.grid = false;
    if (!asked.target) asked.target = Target::train;
    asked.encoder = EncoderKind::linear;  // the methods are compared on one model
    // All get the same epochs or seconds, of which Newton's method has no use.
    if (asked.target == Target::train && !asked.newton) asked.newton = 0;
  }
  try {
    static_cast<void>(resolve_reading(asked, {}, {}));
  } catch (const UserError& error) {
    throw UserError(fmt::format("--methods: in {}: {}", in_quotes(entry), error.what()));
  }
  return contender;
}

// What a contender does within a budget.
Asked within(Asked asked, const Budget& budget) {
  asked.threads = 1;
  asked.steps.reset();
  if (budget.epochs > 0)
    asked.epochs = budget.epochs, asked.seconds.reset();
  else if (budget.seconds > 0)
    asked.seconds = budget.seconds, asked.epochs.reset();
  return asked;
}

class Comparison {
 public:
  Comparison(const std::vector<CompareData>& data, const CompareOptions& options,
             const std::atomic<bool>& stop, const std::function<void(const CompareProgress&)>& progress)
      : data_(data), options_(options), stop_(stop), progress_(progress) {
    for (const CompareData& d : data) {
      sets_.push_back({d.train, d.test});
      problems_.push_back(
          facts_of(sets_.back(), false, {.norms = true, .units = true, .cosines = groups()}, 1));
      machines_.push_back(machine_of(1, options.memory_limit, problems_.back()));
    }
    for (std::size_t d = 0; d < data.size(); ++d)
      for (const Contender& c : options.contenders) {
        const Asked asked = within(c.asked, {.seconds = options.seconds, .epochs = options.epochs});
        const Resolved resolved = resolve(asked, problems_[d], machines_[d], {});
        for (const std::string& note : resolved.notes) {
          std::string text = fmt::format("{}: {}", c.entry, note);
          std::vector<std::string>& notes = result_.notes;
          if (std::find(notes.begin(), notes.end(), text) == notes.end()) notes.push_back(std::move(text));
        }
        bind(resolved.recipe, problems_[d], machines_[d]).memory.require();
      }
    for (const Contender& c : options.contenders) of_ += c.grid ? options.steps.size() : 1;
    of_ *= data.size();
    if (measures()) of_ += data.size() * (options.steps.size() + kBudgetRuns - 1);
  }

  CompareResult run() {
    for (std::size_t d = 0; d < data_.size() && !stop_.load(); ++d) {
      result_.budgets.push_back(budget_for(d));
      const Budget budget = result_.budgets.back();
      if (stop_.load()) break;
      // Contenders without a grid run only with the first step.
      for (std::size_t s = 0; s < std::max<std::size_t>(options_.steps.size(), 1); ++s)
        for (std::size_t c = 0; c < options_.contenders.size() && !stop_.load(); ++c) {
          const Contender& contender = options_.contenders[c];
          if (!contender.grid && s > 0) continue;
          Asked asked = contender.asked;
          if (contender.grid) asked.step = options_.steps[s];
          CompareRun one{d, c, asked.step.value_or(0), false, once(d, &contender, asked, budget)};
          one.done = !one.result.interrupted;
          if (!contender.grid) one.step = one.result.step;
          result_.runs.push_back(std::move(one));
        }
    }
    result_.budgets.resize(data_.size());
    result_.budget_step.resize(data_.size());
    result_.interrupted = stop_.load();
    return std::move(result_);
  }

 private:
  bool measures() const { return options_.seconds == 0 && options_.epochs == 0; }

  bool groups() const {
    return std::any_of(options_.contenders.begin(), options_.contenders.end(),
                       [](const Contender& c) { return c.asked.group.value_or(0) > 0; });
  }
  Recipe recipe_for(std::size_t d, const Asked& asked) const {
    return resolve(asked, problems_[d], machines_[d], {}).recipe;
  }

  BudgetedRun once(std::size_t d, const Contender* contender, const Asked& asked, Budget budget) {
    const Recipe recipe = recipe_for(d, within(asked, budget));
    CompareProgress now{&data_[d], contender, recipe.step, done_, of_, 0};
    const auto show = [&] {
      const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
      if (done_ > 0) now.seconds_left = spent / static_cast<double>(done_) * static_cast<double>(of_ - done_);
      if (progress_) progress_(now);
    };
    show();
    budget.tick = show;
    BudgetedRun run = run_for(recipe, {sets_[d], problems_[d], machines_[d], stop_}, budget);
    ++done_;
    return run;
  }

  Budget budget_for(std::size_t d) {
    Budget budget{options_.seconds, options_.epochs, options_.points, options_.threads, {}, options_.time};
    result_.budget_step.push_back(0);
    if (!measures()) return budget;
    Asked train;
    train.method = "implicit";
    train.device = device::kCpu;
    if (!options_.contenders.empty()) {  // options common to all of them
      const Asked& common = options_.contenders[0].asked;
      train.seed = common.seed, train.decay = common.decay, train.visit = common.visit;
    }
    const Budget measured{0, kBudgetEpochs, 1, options_.threads, {}, options_.time};
    double best_loss = 0, best_seconds = 0;
    bool found = false;
    for (const double step : options_.steps) {
      train.step = step;
      const BudgetedRun run = once(d, nullptr, train, measured);
      if (run.interrupted) return budget;
      if (!run.finished() || (found && run.curve.back().train_loss >= best_loss)) continue;
      found = true, best_loss = run.curve.back().train_loss, best_seconds = run.seconds;
      result_.budget_step.back() = step;
    }
    train.step = result_.budget_step.back();
    for (int i = 1; i < kBudgetRuns && found; ++i) {
      const BudgetedRun run = once(d, nullptr, train, measured);
      if (run.interrupted) return budget;
      best_seconds = std::min(best_seconds, run.seconds);
    }
    budget.seconds = std::max(best_seconds, kLeastSeconds);
    return budget;
  }

  const std::vector<CompareData>& data_;
  std::vector<TrainSets> sets_;
  std::vector<Problem> problems_;
  std::vector<Machine> machines_;
  const CompareOptions& options_;
  const std::atomic<bool>& stop_;
  const std::function<void(const CompareProgress&)>& progress_;
  CompareResult result_;
  std::size_t done_ = 0, of_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

std::vector<Contender> parse_contenders(std::string_view list, const Asked& base) {
  std::vector<Contender> all;
  for (const std::string_view entry : parts(list, ',')) {
    if (entry.empty())
      throw UserError(fmt::format("--methods {}: an entry is empty; write for example implicit,umax,exact",
                                  in_quotes(list)));
    for (const Contender& other : all)
      if (other.entry == entry)
        throw UserError(fmt::format("--methods: {} is listed twice; name it once", in_quotes(entry)));
    all.push_back(parse_contender(entry, base));
  }
  return all;
}

std::string default_contenders() {
  return "auto,prox:draw=head-blocks,implicit,umax:classes-per-step=5,vanilla:classes-per-step=5,"
         "ove:classes-per-step=5,nce:classes-per-step=5,importance:classes-per-step=5,"
         "scent:classes-per-step=16,exact";
}

std::vector<double> parse_grid(std::string_view text) {
  const std::vector<std::string_view> ends = parts(text, ':');
  const auto number = [](std::string_view word, int* out) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *out);
    return error == std::errc() && end == word.data() + word.size() && *out >= -15 && *out <= 15;
  };
  int low = 0, high = 0;
  if (ends.size() != 2 || !number(ends[0], &low) || !number(ends[1], &high) || low > high)
    throw UserError(fmt::format(
        "--grid {}: this option takes two whole numbers from -15 to 15, the lower first; write for example "
        "--grid=-3:3 for the steps 0.001 to 1000",
        in_quotes(text)));
  std::vector<double> steps;
  for (int power = low; power <= high; ++power)  // parsed, so that each is the double nearest to the power
    steps.push_back(std::stod(fmt::format("1e{}", power)));
  return steps;
}

std::optional<double> CompareRun::figure(CompareBy by) const {
  if (!done || !result.finished() || result.curve.empty()) return std::nullopt;
  const CurvePoint& last = result.curve.back();
  return by == CompareBy::test ? last.test_loss : std::optional(last.train_loss);
}

const CompareRun* CompareResult::best(std::size_t of_data, std::size_t of_contender, CompareBy by) const {
  const CompareRun* best = nullptr;
  for (const CompareRun& run : runs) {
    if (run.data != of_data || run.contender != of_contender || !run.figure(by)) continue;
    if (best == nullptr || *run.figure(by) < *best->figure(by)) best = &run;
  }
  return best;
}

CompareResult compare(const std::vector<CompareData>& data, const CompareOptions& options,
                      const std::atomic<bool>& stop,
                      const std::function<void(const CompareProgress&)>& progress) {
  return Comparison(data, options, stop, progress).run();
}

nlohmann::ordered_json compare_json(const std::vector<CompareData>& data, const CompareOptions& options,
                                    const CompareResult& result) {
  using Json = nlohmann::ordered_json;
  Json json{{"by", options.by == CompareBy::test ? "test" : "train"},
            {"interrupted", result.interrupted},
            {"steps", options.steps},
            {"data", Json::array()},
            {"methods", Json::array()},
            {"runs", Json::array()}};
  for (std::size_t d = 0; d < data.size(); ++d) {
    Json one{{"name", data[d].name},
             {"rows", data[d].train.row_count()},
             {"examples", data[d].train.size()},
             {"features", data[d].train.space->features},
             {"classes", data[d].train.classes->size()},
             {"class_frequencies_log_loss", evaluate_class_frequencies(data[d].train).log_loss}};
    if (options.epochs > 0)
      one["epochs"] = options.epochs;
    else
      one["seconds"] = result.budgets[d].seconds;
    if (result.budget_step[d] > 0) one["implicit_best_step"] = result.budget_step[d];
    json["data"].push_back(std::move(one));
  }
  for (const Contender& c : options.contenders) {
    const Reading reading = resolve_reading(c.asked, {}, {});
    Recipe draft = reading.draft;
    OptionTable table;
    draft.describe(table);
    Json all = reading.to_json();
    for (const Option& option : table.options())
      if (!option.tags.tunable || (c.grid && option.name == "step")) all.erase(option.name);
    json["methods"].push_back({{"entry", c.entry}, {"grid", c.grid}, {"options", all}});
  }
  for (const CompareRun& run : result.runs) {
    Json one{{"data", data[run.data].name},
             {"method", options.contenders[run.contender].entry},
             {"step", run.step},
             {"best", result.best(run.data, run.contender, options.by) == &run},
             {"seconds", run.result.seconds},
             {"training_steps", run.result.steps},
             {"interrupted", run.result.interrupted},
             {"curve", Json::array()}};
    if (!run.result.divergence.empty()) one["diverged"] = run.result.divergence;
    for (const CurvePoint& p : run.result.curve) {
      Json point{{"seconds", p.seconds}, {"epochs", p.epochs}, {"train_log_loss", p.train_loss}};
      if (p.test_loss) point["test_log_loss"] = *p.test_loss;
      one["curve"].push_back(std::move(point));
    }
    json["runs"].push_back(std::move(one));
  }
  return json;
}

}  // namespace truemax
