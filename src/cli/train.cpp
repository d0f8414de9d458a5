// truemax train
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/chosen_text.hpp"
#include "cli/command.hpp"
#include "cli/counts_text.hpp"
#include "cli/prepare_command.hpp"
#include "cli/progress.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "data/cache_file.hpp"
#include "data/triples.hpp"
#include "evaluate/evaluate.hpp"
#include "ranks/ranks.hpp"
#include "report/table.hpp"
#include "rule/methods.hpp"
#include "train/plan_text.hpp"
#include "train/run.hpp"

namespace truemax {
namespace {

struct TrainCommand {
  RunOptions run;
  bool quiet = false, json = false;
  std::vector<std::string> given;
};

// The command as typed, plus what the search had found when it was stopped.
std::string continued_command(const Recipe& best, const SearchResult& search,
                              const std::vector<std::string>& given) {
  std::string line = program_to_type();
  const std::vector<std::string>& words = typed_words();
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--ridge=auto") continue;
    if (words[i] == "--ridge" && i + 1 < words.size() && words[i + 1] == kAutomatic) {
      ++i;
      continue;
    }
    line += " " + shell_word(words[i]);
  }
  // Of the linear model, a ridge or a step says enough.
  if (best.hidden > 0 && std::find(given.begin(), given.end(), "hidden") == given.end())
    line += fmt::format(" --hidden {}", best.hidden);
  if (search.ridge) line += fmt::format(" --ridge {:.6g}", best.ridge);
  if (best.newton > 0) line += fmt::format(" --newton {}", best.newton);
  if (best.ridge_by_spread) line += " --ridge-by-spread";
  if (search.step) line += fmt::format(" --step {:.6g}", best.step);
  if (search.epochs) line += fmt::format(" --epochs {}", best.epochs);
  if (search.layers) line += fmt::format(" --layers {}", best.layers);
  if (search.tied) line += best.tied ? " --tied" : " --no-tied";
  if (search.dropout) line += fmt::format(" --dropout {:g}", best.dropout);
  return line;
}

// Ctrl-C during the search.
void say_stopped_search(const Recipe& best, const FinishedRun& finished,
                        const std::vector<std::string>& given, bool resumes) {
  const SearchResult& search = finished.search;
  say(stderr, "truemax: stopped in the search for options, after {}; no model was trained{}\n",
      counted(search.trials, "trial"),
      finished.log_path == "none" ? "" : fmt::format("; the log is {}", finished.log_path));
  if (resumes) return;  // there is one thing to type then
  if (search.found())
    say(stderr,
        "truemax: to train with the best options so far, run:\n  {}\ntruemax: a complete search may find "
        "better ones: for that, run the same command again\n",
        printable(continued_command(best, search, given)));
  else
    say(stderr, "truemax: no trial was finished; run the command again, or limit its time with --seconds\n");
}

// The command as typed, with --resume.
void say_how_to_resume(const PreparedRun& run) {
  if (run.options.checkpoint.empty()) return;
  std::string line = program_to_type();
  for (std::size_t i = 1; i < typed_words().size(); ++i) line += " " + shell_word(typed_words()[i]);
  if (!run.options.resume) line += " --resume";
  say(stderr, "truemax: to go on, run:\n  {}\n", printable(line));
}

std::string loss_text(double loss) {
  return loss < 1e6 ? fmt::format("{:.4f}", loss) : fmt::format("{:.4g}", loss);
}

bool ranks_triples(const PreparedRun& run) {
  return run.test && run.test->ranking && run.recipe().evaluation.kind == EvalKind::exact;
}

// One row of the table; `record` has the sets that were evaluated.
std::vector<std::string> table_row(const std::string& name, bool trained, const PreparedRun& run,
                                   const EvaluationRecord& record) {
  const auto loss = [](const std::optional<Metrics>& m) {
    if (!m) return std::string("-");
    return loss_text(m->log_loss) + (m->estimate ? fmt::format(" +- {:.2g}", m->estimate->error_bar) : "");
  };
  std::vector<std::string> row{name, trained ? fmt::format("{}", record.epoch) : "-",
                               trained ? fmt::format("{:.2f}", record.train_seconds) : "-",
                               loss(record.train)};
  if (run.valid) row.push_back(loss(record.valid));
  row.push_back(loss(record.test));
  const std::optional<Metrics>& shown = run.test ? record.test : record.train;
  if (ranks_triples(run)) {
    for (const int place : {-1, 0, 2}) {
      if (!shown || !shown->ranking)
        row.emplace_back("-");
      else
        row.push_back(fmt::format("{:.4f}", place < 0 ? shown->ranking->mrr : shown->ranking->hits[place]));
    }
    return row;
  }
  for (const int place : {-1, 0, 2}) {
    if (!shown || !shown->has_top)
      row.emplace_back("-");
    else
      row.push_back(fmt::format("{:.4f}", place < 0 ? shown->error : shown->precision[place]));
  }
  return row;
}

void print_perplexity(const PreparedRun& run, const TrainOutcome& outcome) {
  if (!reads_words(run.data.space->encoder) || !outcome.last) return;
  const auto said = [](const char* name, const std::optional<Metrics>& m) {
    if (!m) return;
    const std::optional<double> p = m->perplexity();
    say(stdout, "perplexity {} on the {} text\n", p ? fmt::format("{:.2f}", *p) : "over 1e308", name);
  };
  said("validation", outcome.last->valid);
  said("test", outcome.last->test);
  if (!outcome.last->test && !outcome.last->valid) said("training", outcome.last->train);
}

void print_table(const PreparedRun& run, const FinishedRun& finished) {
  const TrainOutcome& outcome = finished.outcome;
  if (!outcome.last) return;
  std::vector<std::string> columns{"method", "epochs", "seconds", "train log-loss"};
  if (run.valid) columns.emplace_back("valid log-loss");
  columns.emplace_back("test log-loss");
  if (ranks_triples(run))
    columns.insert(columns.end(), {"MRR", "hits at 1", "hits at 10"});
  else
    columns.insert(columns.end(), {"error", "precision at 1", "precision at 5"});
  Table table(columns);
  EvaluationRecord frequencies;
  frequencies.train = evaluate_class_frequencies(tails_of(run.data));
  if (run.valid) frequencies.valid = evaluate_class_frequencies(*run.valid);
  if (run.test) frequencies.test = evaluate_class_frequencies(*run.test);
  table.add(table_row("class frequencies", false, run, frequencies));
  table.add(table_row(finished.plan->recipe.method_name(), outcome.last->epoch > 0 || outcome.last->steps > 0,
                      run, *outcome.last));
  say(stdout, "\n{}", table.to_text());
  if (ranks_triples(run))
    say(stdout,
        "MRR and hits are of the heads and tails of the test triples among {}; other triples of the "
        "training, "
        "validation and test data do not count\n",
        counted(run.test->ranking->all_entities, "entity", "entities"));
  else
    say(stdout, "error and precision are on the {} rows\n", run.test ? "test" : "training");
  const auto said = [&](const char* name, const std::optional<Metrics>& m) {
    if (m && m->estimate)
      say(stdout, "the {} log-loss is an estimate with its 95% error bar, from {}{}\n", name,
          m->estimate->to_text(),
          m->has_top ? "; error and precision are those of these rows"
                     : "; error and precision need all classes");
  };
  said("train", outcome.last->train);
  said("valid", outcome.last->valid);
  said("test", outcome.last->test);
  if (outcome.last->test && outcome.last->test->statistics.unseen > 0)
    say(stdout, "{}{}\n",
        counted(outcome.last->test->statistics.unseen,
                fmt::format("test {}", run.data.space->of_triples()
                                           ? "triple"
                                           : example_word(run.options.preprocess.labels))),
        run.data.space->of_triples()
            ? " with a name unseen in training: left out of the log-loss, not of the ranks"
            : " with a label unseen in training: left out of log-loss and error, not of precision");
  if (outcome.kept_best)
    say(stdout, "best epoch {} of {}: the model has the lowest log-loss on the validation rows\n",
        outcome.last->epoch, outcome.epochs);
}

// The output of --json.
nlohmann::ordered_json result_json(const PreparedRun& run, const FinishedRun& finished) {
  const TrainOutcome& outcome = finished.outcome;
  const Recipe& o = finished.plan->recipe;
  nlohmann::ordered_json json{{"method", o.method_name()},
                              {"solver", finished.plan->solver().name},
                              {"hidden", o.hidden},
                              {"step", o.step},
                              {"ridge", o.ridge},
                              {"epochs", outcome.epochs},
                              {"steps", outcome.steps},
                              {"train_seconds", outcome.train_seconds},
                              {"interrupted", outcome.interrupted}};
  if (run.automatic()) json["trials"] = finished.search.trials;
  if (!outcome.divergence.empty()) json["diverged"] = outcome.divergence;
  if (!outcome.unsolved.empty()) json["unsolved"] = outcome.unsolved;
  if (outcome.last) {
    if (outcome.kept_best) json["best_epoch"] = outcome.last->epoch;
    if (outcome.last->train) json["train"] = outcome.last->train->to_json();
    if (outcome.last->valid) json["valid"] = outcome.last->valid->to_json();
    if (outcome.last->test) json["test"] = outcome.last->test->to_json();
  }
  json["model"] = finished.saved ? finished.model_path : "none";
  json["log"] = finished.log_path;
  return json;
}

// Why the model fits its own rows worse than the class frequencies do, and what to do.
std::string why_above(const PreparedRun& run, const Recipe& recipe, bool aims_at_train,
                      std::string_view scale) {
  const bool has_step = recipe.method != "lbfgs";
  if ((!run.automatic() || run.options.asked.step) && has_step)
    return fmt::format("the step is too large, or too small for so few epochs; try another --step{}", scale);
  return fmt::format(
      "the features seem to say little about the labels, or there are too few rows or epochs; look at the "
      "data, or {}",
      run.automatic() && !aims_at_train ? "fit the training rows alone with --target train"
                                        : "give more --epochs or --seconds");
}

// Tells about what failed without ending the run.
class Warnings final : public TrainObserver {
 public:
  void warned(const std::string& what) override { say(stderr, "truemax: warning: {}\n", printable(what)); }
};

int run_train(TrainCommand& command) {
  const DropClaimsOnSignal claims;
  PreparedRun run = prepare_command(std::move(command.run), command.given);
  const bool talks = !command.quiet && !command.json;
  if (!command.quiet) print_notes(run.notes);
  if (talks) {
    say(stdout, "{}{}{}{}", sets_text(run), method_text(run.recipe()), beginning_text(run),
        memory_text(*run.plan));
    std::fflush(stdout);
  }
  const StopOnSignal signals;
  Warnings warnings;
  std::unique_ptr<TrainProgress> progress;
  std::vector<TrainObserver*> observers{&warnings};
  if (!command.quiet && ProgressLine::wanted()) {
    progress = std::make_unique<TrainProgress>();
    observers.push_back(progress.get());
  }
  const FinishedRun finished = execute_run(run, observers, StopOnSignal::flag());
  progress.reset();
  const TrainOutcome& outcome = finished.outcome;
  const Recipe& recipe = finished.plan->recipe;
  const bool aims_at_train = run.reading.draft.target == Target::train;
  if (command.json) print_json(result_json(run, finished));
  if (!finished.search.finished) {
    say_stopped_search(recipe, finished, command.given, !run.options.checkpoint.empty());
    say_how_to_resume(run);
    return StopOnSignal::exit_code();
  }
  if (talks) {
    if (run.automatic() && !outcome.interrupted) say(stdout, "{}", chosen_text(run, finished));
    print_table(run, finished);
    print_perplexity(run, outcome);
    if (outcome.last && !outcome.kept_best && (outcome.interrupted || !outcome.divergence.empty()))
      say(stdout, "these figures are from epoch {}; the model was trained for {} ({} steps in total)\n",
          outcome.last->epoch, counted(outcome.epochs, "whole epoch"), outcome.steps);
    say(stdout, "\nmodel   {}\nlog     {}\n", finished.model_path, finished.log_path);
    if (finished.saved && !outcome.interrupted && outcome.divergence.empty())
      say(stdout, "next    truemax predict {} DATA --top 5\n", shell_word(finished.model_path));
  }
  // Older files that are kept because this run did not succeed.
  std::vector<std::string> left;
  if (finished.saved && finished.model_path != run.options.model) left.push_back(run.options.model);
  if (finished.log_path != run.options.log) left.push_back(run.options.log);
  const std::string untouched =
      left.empty() ? ""
                   : fmt::format("; {} {} not replaced, the log is {}", fmt::join(left, " and "),
                                 left.size() == 1 ? "is" : "are", finished.log_path);
  if (outcome.interrupted) {
    say(stderr, "truemax: stopped after {} ({}); the model is {}{}\n", counted(outcome.steps, "step"),
        counted(outcome.epochs, "whole epoch"),
        !finished.saved
            ? "not saved"
            : fmt::format("in {}{}", finished.model_path,
                          outcome.kept_best ? fmt::format(" (epoch {}, the best on the validation rows)",
                                                          outcome.last->epoch)
                                            : ""),
        untouched);
    say_how_to_resume(run);
    return StopOnSignal::exit_code();
  }
  const bool has_values = !reads_words(run.data.space->encoder) && !run.data.space->of_triples();
  const char* scale =
      has_values && !outcome.at_evaluation && run.options.preprocess.normalize == Normalize::none
          ? " or --normalize l2"
          : "";
  if (!outcome.divergence.empty()) {
    say(stderr, "truemax: error: {}{}; {}{}\n", outcome.divergence, scale,
        finished.saved ? fmt::format("{} holds the model {}", finished.model_path,
                                     outcome.kept_best       ? "that was best on the validation rows"
                                     : outcome.at_evaluation ? "so far"
                                                             : "before that step")
                       : "no model was written",
        untouched);
    return kDiverged;
  }
  if (command.quiet) return kSuccess;
  constexpr double kAbove = 1 + 1e-4;  // not by rounding
  if (!outcome.unsolved.empty()) say(stderr, "truemax: note: {}\n", outcome.unsolved);
  if (outcome.steps == 0 && recipe.seconds > 0 && recipe.newton == 0)
    say(stderr, "truemax: note: no step was taken in {:g} s; give more --seconds\n", recipe.seconds);
  else if (outcome.last && outcome.last->train &&
           outcome.last->train->log_loss > kAbove * evaluate_class_frequencies(run.data).log_loss)
    say(stderr, "truemax: note: the train log-loss is above that of the class frequencies: {}\n",
        why_above(run, recipe, aims_at_train, scale));
  return kSuccess;
}

}  // namespace

Command train_command() {
  auto command = std::make_shared<TrainCommand>();
  Command self;
  self.name = "train";
  self.summary = "Train a model on a data file, evaluate it and save it";
  self.arguments = {{"TRAIN", "Training data: a file, '-' for standard input; gzip and zstd are recognised",
                     &command->run.train_path}};
  command->run.describe(self.table);
  self.table.group("Output");
  self.table.toggle("quiet", &command->quiet, "Print nothing but errors.");
  describe_json(self.table, &command->json, "the result as one object, instead of text.");
  self.example =
      "  truemax generate train.txt --test test.txt --test-rows 1000\n"
      "  truemax train train.txt --test test.txt --model model.safetensors\n"
      "One method without tuning:\n"
      "  truemax train train.txt --test test.txt --method implicit --step 10 --epochs 50 --normalize l2";
  self.given = &command->given;
  self.over_ranks = OverRanks::all;
  self.run = [command] { return run_train(*command); };
  return self;
}

}  // namespace truemax
