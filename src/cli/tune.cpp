// truemax tune
#include "train/tune.hpp"
#include "train/resolve.hpp"
#include "train/start_values.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "data/hold_out.hpp"
#include "evaluate/evaluate.hpp"
#include "report/table.hpp"
#include "rule/methods.hpp"
#include "train/run.hpp"

namespace truemax {
namespace {

constexpr double kLeastRows = 1000;

struct TuneCommand {
  RunOptions run;
  std::vector<std::string> tries;
  std::uint64_t random = 0;
  double subset = 0.25, valid_share = 0.1;
  std::string valid, json_file;
  bool json = false;
  std::vector<std::string> given;

  void describe(OptionTable& table);
  bool was_given(std::string_view name) const {
    return std::find(given.begin(), given.end(), name) != given.end();
  }
};

void TuneCommand::describe(OptionTable& table) {
  table.group("Trials");
  table.list("try", "OPTION=A,B,...", &tries,
             "Values to try for an option of 'truemax train'; with several --try, all combinations.",
             {.brief = true});
  table.count_alias("random", &random, {1, 1e4}, kUnlimited,
                    "Try at most this many combinations, drawn at random.", {.brief = true});
  table.number(
      "subset", &subset, {0, 1, true},
      "Share of the rows used for trials, at least 1000 rows or all. The ridge is scaled with it, so "
      "that it means the same as on all rows.",
      {.brief = true});
  table.number("valid-share", &valid_share, {0, 0.9, true},
               "Share of these rows that is held out to judge the trials.");
  table.text("valid", "FILE", &valid,
             "Judge the trials on this file instead, in the format of the training data.", {.brief = true});
  describe_json(table, &json, "all trials, and the command to type next, as one object.");
  table.text("json-file", "FILE", &json_file, "Write all trials to this file as JSON.", {.brief = true});
  run.read.describe(table);
  describe_row_weights(table, &run.read.row_weights);
  describe_class_weights(table, &run.class_weights);
  run.preprocess.describe(table);
  describe_max_rows(table, &run.max_rows);
  OptionTable training;
  run.asked.describe(training);
  for (Option option : training.options()) {
    if (!option.tags.tunable) continue;
    // auto would tune these; a trial computes them from the data.
    if (option.tags.plain_default == kFoundByTrials) option.tags.plain_default = kChosenFromData;
    table.take(std::move(option));
  }
  table.group("Trials");
  table.count("epochs", {&run.asked.epochs, Recipe{}.epochs}, {1, 1e9}, "Epochs of the longest trials.",
              {.brief = true});
  describe_threads(table, {&run.asked.threads, 0});
  describe_memory_limit(table, &run.memory_limit);
}

bool tried(const std::vector<TryList>& tries, std::string_view option) {
  return std::any_of(tries.begin(), tries.end(), [&](const TryList& list) { return list.option == option; });
}

// A value as it is typed; numbers with the fewest digits that parse back to the same value.
std::string typed_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? fmt::format("{}", value.get<double>()) : value.dump();
}

// The command to run next: the options of the winner, and those typed here that 'truemax train' has too.
std::string next_command(TuneCommand& command, const Trial& winner, const std::vector<TryList>& tries) {
  std::string line = "truemax train " + shell_word(command.run.train_path);
  if (!command.valid.empty()) line += " --valid " + shell_word(command.valid);
  Recipe best = winner.recipe;
  // auto makes the same choices again, provided nothing is left for it to tune.
  const bool automatic = winner.asked.automatic();
  OptionTable all, of_winner;
  command.run.describe(all);  // what training takes
  best.describe(of_winner);
  for (const Option& option : all.options()) {
    if (option.name == "valid") continue;  // added above
    const Option* chosen = of_winner.find(option.name);
    const bool always =
        option.name == "step" ||
        (automatic ? option.name == "ridge" || option.name == "epochs" : option.name == "method");
    const bool typed = command.was_given(option.name) &&
                       (option.name == "epochs" || option.tags.tunable || chosen == nullptr);
    if (!always && !typed && !tried(tries, option.name)) continue;
    const nlohmann::json value = chosen == nullptr ? option.to_json() : chosen->to_json();
    if (option.is_switch)
      line += fmt::format(" --{}{}", value.get<bool>() ? "" : "no-", option.name);
    else
      line += fmt::format(" --{} {}", option.name, shell_word(typed_text(value)));
  }
  return line;
}

void print_result(TuneCommand& command, const TuneResult& result, const std::vector<TryList>& tries) {
  std::vector<std::string> header;
  header.reserve(tries.size() + 4);
  for (const TryList& list : tries) header.push_back(list.option);
  header.insert(header.end(), {"epochs", "valid log-loss", "seconds", "state"});
  Table table(header, {header.size() - 1});
  for (const Trial& trial : result.trials) {
    std::vector<std::string> row;
    for (const auto& setting : trial.settings) row.push_back(setting.second);
    const bool lost = trial.state == Trial::State::diverged || trial.marks.empty();
    row.push_back(trial.marks.empty() ? "-" : fmt::format("{}", trial.epochs()));
    row.push_back(lost ? "-" : fmt::format("{:.4f}", trial.marks.back().valid_loss));
    row.push_back(fmt::format("{:.2f}", trial.seconds));
    row.emplace_back(state_name(trial.state));
    table.add(std::move(row));
  }
  say(stdout, "\n{}", table.to_text());
  const Trial* best = result.best();
  if (best == nullptr) return;
  for (const Trial::Mark& mark : best->marks)
    if (mark.valid_loss < best->marks.back().valid_loss) {
      say(stdout,
          "\nthe best trial had a lower log-loss after {} ({:.4f}): fewer --epochs, more --ridge or a "
          "smaller step may help\n",
          counted(mark.epochs, "epoch"), mark.valid_loss);
      break;
    }
  say(stdout, "\nnext    {}\n", printable(next_command(command, *best, tries)));
}

void check(const TuneCommand& command) {
  if (!command.valid.empty() && command.was_given("valid-share"))
    throw UserError("--valid and --valid-share: only one of them can judge the trials; give one");
  const std::string& file = command.json_file;
  if (file.empty()) return;
  if (file == "-")
    throw UserError("--json-file takes the name of a file, not '-'; type --json for standard output");
  if (!is_stream(file)) require_writable(file, 0, "json-file");
  for (const std::string& input : {command.run.train_path, command.valid})
    if (!input.empty() && input != "-" && same_file(file, input))
      throw UserError(fmt::format("--json-file {}: this is an input; give another name", file));
}

int run_tune(TuneCommand& command) {
  check(command);
  const DropClaimsOnSignal on_signal;
  const Claim claim = claim_output(command.json_file, "json-file");
  const std::vector<TryList> tries = parse_tries(command.tries);
  TuneOptions options;
  options.trials = make_trials(command.run.asked, tries, command.random);
  RunOptions read = command.run;
  read.valid_path = command.valid;
  read.model = read.log = "none";
  // Each trial has options of its own, checked with the data.
  read.asked = {};
  read.asked.threads = command.run.asked.threads, read.asked.seed = command.run.asked.seed;
  read.asked.method = "prox";
  read.asked.device = device::kCpu;
  PreparedRun run = prepare_run(std::move(read));
  print_notes(run.notes);
  // Without --method: the values that the search of 'truemax train' would start from.
  const Problem problem =
      facts_of(run.sets(), false, {.norms = true, .squares = true, .units = true, .cosines = true}, 1);
  std::vector<std::string> said;
  for (Trial& trial : options.trials) {
    Asked asked = trial.asked;
    if (!asked.device) asked.device = device::kCpu;
    if (asked.automatic()) asked.encoder = EncoderKind::linear;
    if (asked.ridge_auto)
      throw UserError(
          "--try ridge=auto: a trial has one ridge; give numbers, or leave it to 'truemax train'");
    if (!asked.newton) asked.newton = 0;  // trials take steps
    Resolved resolved = resolve(asked, problem, run.machine, {});
    for (std::string& note : resolved.notes)
      if (std::find(said.begin(), said.end(), note) == said.end()) said.push_back(std::move(note));
    trial.recipe = resolved.recipe.found(false);
    if (asked.target) trial.recipe.target = *asked.target;
    if (!resolved.recipe.sought.step) continue;
    const bool by_weight = find_method(trial.recipe.method).by_weight, intercept = trial.recipe.intercept;
    trial.recipe.step = by_weight ? adam_step(problem, intercept) : first_step(problem, intercept);
  }
  print_notes(said);

  const std::size_t all_rows = run.data.row_count();
  const auto rows = static_cast<double>(all_rows);
  const double share = std::max(command.subset, kLeastRows / rows);
  const std::uint64_t seed = command.run.asked.seed.value_or(Recipe{}.seed);
  const bool all = std::llround(std::min(share, 1.0) * rows) >= std::llround(rows);
  DataView part = all ? run.data : set_aside(run.data, share, seed).valid, valid;
  if (run.valid) {
    valid = *run.valid;
  } else {
    RowSplit split = set_aside(part, command.valid_share, seed + 1);
    part = std::move(split.rest), valid = std::move(split.valid);
  }
  options.epochs = command.run.asked.epochs.value_or(Recipe{}.epochs);
  options.threads = resolve_threads(command.run.asked.threads.value_or(0));
  options.ridge_share = static_cast<double>(part.row_count()) / rows;
  options.memory_limit = command.run.memory_limit;
  if (!command.json) {
    say(stdout, "trials  {} of up to {} on {} of {}, judged by {}\n", options.trials.size(),
        counted(options.epochs, "epoch"), part.row_count(), counted(all_rows, "row"),
        counted(valid.row_count(), "other row"));
    std::fflush(stdout);
  }

  const StopOnSignal signals;
  ProgressLine line;
  const bool talks = ProgressLine::wanted();
  const auto start = std::chrono::steady_clock::now();
  const TuneResult result =
      tune(part, valid, std::move(options), StopOnSignal::flag(), [&](double done, double of) {
        if (!talks || !line.due()) return;
        const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        line.show(
            fmt::format("{:.0f} of {:.0f} epochs, {:.0f} s left", done, of, spent / done * (of - done)));
      });
  line.clear();
  if (result.started_again)
    print_notes({"not enough memory to keep all trials: those that went on were started again"});
  if (command.json) {
    nlohmann::ordered_json json = tune_json(result);
    if (result.best() != nullptr) json["next"] = next_command(command, *result.best(), tries);
    print_json(json);
  } else {
    print_result(command, result, tries);
  }
  if (!command.json_file.empty()) {
    write_file(command.json_file, json_file_text(tune_json(result)), "json-file");
    if (!command.json) say(stdout, "json    {}\n", command.json_file);
  }
  if (result.interrupted) {
    say(stderr, "truemax: stopped; the results so far are shown\n");
    return StopOnSignal::exit_code();
  }
  if (result.best() == nullptr) {
    say(stderr, "truemax: error: all trials diverged; try smaller steps, as in --try step=0.001,0.01,0.1\n");
    return kDiverged;
  }
  return kSuccess;
}

}  // namespace

Command tune_command() {
  auto command = std::make_shared<TuneCommand>();
  Command self;
  self.name = "tune";
  self.summary = "Try values of options on a part of the data";
  self.arguments = {{"DATA", "Training data: a file, '-' for standard input; gzip and zstd are recognised",
                     &command->run.train_path}};
  command->describe(self.table);
  self.example =
      "  truemax generate train.txt --rows 4000 --classes 100\n"
      "  truemax tune train.txt --try step=0.1,1,10 --try ridge=0,0.1,1 --epochs 16 --normalize l2\n"
      "All trials start with an eighth of --epochs; the better half goes on with twice as many, and so on.";
  self.given = &command->given;
  self.over_ranks = OverRanks::refused;
  self.run = [command] { return run_tune(*command); };
  return self;
}

}  // namespace truemax
