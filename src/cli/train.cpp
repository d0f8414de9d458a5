// truemax train
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/chosen_text.hpp"
#include "cli/command.hpp"
#include "cli/counts_text.hpp"
#include "cli/progress.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "data/cache_file.hpp"
#include "data/triples.hpp"
#include "evaluate/evaluate.hpp"
#include "ranks/ranks.hpp"
#include "report/table.hpp"
#include "rule/methods.hpp"
#include "train/replay.hpp"
#include "train/resume.hpp"
#include "train/run.hpp"
#include "train/warm_start.hpp"

namespace truemax {
namespace {

struct TrainCommand {
  RunOptions run;
  bool quiet = false, json = false;
  std::vector<std::string> given;

  bool was_given(const char* name) const {
    return std::find(given.begin(), given.end(), name) != given.end();
  }
};

std::string method_text(const TrainOptions& o) {
  const bool linear = o.schedule == Schedule::linear;
  std::string shape = o.draw == "head-blocks" ? fmt::format(", head {}", o.draws.head) : "";
  if (o.draws.rivals > 0) shape += fmt::format(", rivals {}", o.draws.rivals);
  const std::string classes = find_method(o.method_used()).whole_set
                                  ? "all classes"
                                  : fmt::format("{}, draw {}{}", o.classes_per_step, o.draw, shape);
  const bool newton = o.newton > 0 && o.epochs == 0, all = find_method(o.method_used()).all_rows;
  std::string text =
      newton ? fmt::format("method  Newton's, all rows and classes, seed {}", o.seed)
      : all  ? fmt::format("method  {}, all rows x {}, seed {}", o.method, classes, o.seed)
             : fmt::format("method  {}, {} x {}, seed {}", o.method, o.rows_per_step, classes, o.seed);
  if (o.group > 0) text += fmt::format(", groups of {}", o.group);
  if (!o.open.step && !newton && !all)
    text += fmt::format(", step {:.4g}, {}", o.step, linear ? "falling" : fmt::format("decay {:g}", o.decay));
  if (!o.open.ridge) text += ridge_text(o);
  if (!o.open.epochs && !newton) text += ", " + budget_text(o);
  std::vector<std::string> found;
  if (o.compares_encoders()) found.emplace_back("linear or learnt features");
  if (o.learnt() && o.open.hidden) found.emplace_back("hidden");
  if (o.open.step && !all) found.emplace_back("step");
  if (o.open.ridge) found.emplace_back("ridge");
  if (o.open.epochs) found.emplace_back("epochs");
  if (o.open.layers) found.emplace_back("layers");
  if (o.open.tied) found.emplace_back("tied vectors");
  if (o.open.dropout) found.emplace_back("dropout");
  if (!found.empty()) text += fmt::format("; to be tuned: {}", fmt::join(found, ", "));
  return text + "\n";
}

// The command as typed, plus what the search had found when it was stopped.
std::string continued_command(const TrainOptions& best, const SearchResult& search,
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
void say_stopped_search(const TrainOptions& best, const FinishedRun& finished,
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

// Where a resumed run goes on.
std::string resume_text(const PreparedRun& run) {
  const SavedRun& saved = run.resumed->about();
  if (!saved.fitting && saved.trials.empty()) return fmt::format("{}: at the start", run.options.checkpoint);
  if (!saved.fitting)
    return fmt::format("{}: in the search, {} done", run.options.checkpoint,
                       counted(saved.trials.size(), "trial"));
  return fmt::format("{}: {}, {} done{}", run.options.checkpoint, counted(saved.epochs, "epoch"),
                     counted(saved.steps, "step"),
                     saved.finished && run.options.train.epochs <= saved.epochs ? ", which was all" : "");
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
  return run.test && run.test->ranking && run.options.train.evaluation.kind == EvalKind::exact;
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

void print_table(const PreparedRun& run, const TrainOutcome& outcome) {
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
  table.add(table_row(run.options.train.method, outcome.last->epoch > 0 || outcome.last->steps > 0, run,
                      *outcome.last));
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
  const TrainOptions& o = run.options.train;
  nlohmann::ordered_json json{{"method", o.method},
                              {"hidden", o.hidden},
                              {"step", o.step},
                              {"ridge", o.ridge},
                              {"epochs", outcome.epochs},
                              {"steps", outcome.steps},
                              {"train_seconds", outcome.train_seconds},
                              {"interrupted", outcome.interrupted}};
  if (run.automatic) json["trials"] = finished.search.trials;
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

// Notes on options that were typed but have no effect on the method.
std::vector<std::string> notes_of_unused(TrainCommand& command) {
  OptionTable table;
  command.run.describe(table);
  const MethodInfo& info = find_method(command.run.train.method_used());
  std::vector<std::string> notes;
  for (const std::string& name : command.given) {
    const Option* option = table.find(name);
    if (option == nullptr) continue;  // an option of the command only, such as --quiet
    const std::vector<std::string>&users = option->tags.methods, &draw_users = option->tags.draws;
    const bool chosen =
        command.run.train.automatic() && !command.run.train.learnt() && !command.was_given("draw");
    const std::string_view draw = chosen ? "head-blocks" : command.run.train.draw.c_str();
    if (!users.empty() && find_alias(command.run.train.method) != nullptr)
      notes.push_back(fmt::format("--{} has no effect on {}, whose options are fixed; it is for {}", name,
                                  command.run.train.method, fmt::join(users, ", ")));
    else if (!users.empty() && std::find(users.begin(), users.end(), info.name) == users.end())
      notes.push_back(
          fmt::format("--{} has no effect on {}; it is for {}", name, info.name, fmt::join(users, ", ")));
    else if (info.whole_set && (name == "draw" || !draw_users.empty()))
      notes.push_back(fmt::format("--{} has no effect on {}, which takes all classes", name, info.name));
    else if (!draw_users.empty() && std::find(draw_users.begin(), draw_users.end(), draw) == draw_users.end())
      notes.push_back(fmt::format("--{} has no effect on the draw {}; it is for {}", name, draw,
                                  fmt::join(draw_users, ", ")));
    else if (name == "classes-per-step" && !info.whole_set && !find_draw(draw).takes_count)
      notes.push_back(fmt::format("--{} has no effect on the draw {}, which takes all classes", name, draw));
  }
  if (info.name == "lbfgs")
    for (const char* name : {"step", "schedule", "decay", "rows-per-step", "visit"})
      if (command.was_given(name))
        notes.push_back(
            fmt::format("--{} has no effect on lbfgs, which finds its own step over all rows", name));
  if (info.name == "adam" && !command.run.train.automatic() && command.run.train.rows_per_step == 1)
    notes.emplace_back(
        "adam takes a step over all weights for every row; --rows-per-step 256 takes a fraction of the time");
  if (info.whole_set && command.run.train.classes_per_step > 1)
    notes.push_back(
        fmt::format("--classes-per-step has no effect on {}, which takes all classes", info.name));
  if (command.was_given("decay") && command.run.train.schedule == Schedule::linear)
    notes.emplace_back("--decay has no effect on --schedule linear");
  if (command.run.train.ridge_intercept && !command.run.train.intercept)
    notes.emplace_back("--ridge-intercept has no effect without --intercept");
  return notes;
}

// Why the model fits its own rows worse than the class frequencies do, and what to do.
std::string why_above(const PreparedRun& run, const TrainCommand& command, bool aims_at_train,
                      std::string_view scale) {
  const bool has_step = run.options.train.method != "lbfgs";
  if ((!run.automatic || command.was_given("step")) && has_step)
    return fmt::format("the step is too large, or too small for so few epochs; try another --step{}", scale);
  return fmt::format(
      "the features seem to say little about the labels, or there are too few rows or epochs; look at the "
      "data, or {}",
      run.automatic && !aims_at_train ? "fit the training rows alone with --target train"
                                      : "give more --epochs or --seconds");
}

// The encoder that data of this format ask for.
EncoderKind encoder_of(Format format) {
  return format == Format::text      ? EncoderKind::context
         : format == Format::triples ? EncoderKind::complex
                                     : EncoderKind::automatic;
}

// --init: reads the model, and its shape and preprocessing become those of the run.
void start_from_model(TrainCommand& command, std::vector<std::string>& notes) {
  RunOptions& run = command.run;
  if (run.init.empty()) return;
  const std::uint64_t memory = run.memory_limit > 0 ? run.memory_limit : memory_of_each(ranks().here());
  run.start = std::make_shared<const Model>(load_model(run.init, memory, run.train.thread_count()));
  if (!run.replay.empty()) return;  // the log has it all
  const auto given = [&](const char* name) { return command.was_given(name); };
  try {
    continue_reading(*run.start, given, run.read, run.preprocess, notes);
    continue_shape(*run.start, given, run.train);
  } catch (const UserError& error) {
    throw UserError(fmt::format("--init {}: {}", run.init, error.what()));
  }
}

// Tells about what failed without ending the run.
class Warnings final : public TrainObserver {
 public:
  void warned(const std::string& what) override { say(stderr, "truemax: warning: {}\n", printable(what)); }
};

int run_train(TrainCommand& command) {
  if (!command.run.replay.empty()) command.run = replayed_options(std::move(command.run), command.given);
  std::vector<std::string> notes;
  start_from_model(command, notes);
  if (command.run.replay.empty()) {
    command.run.read.format = format_in_cache(command.run.read.format, command.run.train_path);
    const Model* start = command.run.start.get();
    const std::uint64_t group = group_to_continue(command.run);
    command.run.train.complete(
        [&](const char* name) {
          return command.was_given(name) || (start != nullptr && is_of_shape(*start, name));
        },
        encoder_of(command.run.read.format), group > 0);
    if (command.run.train.group == 0) command.run.train.group = group;
    if (start != nullptr) try {
        command.run.train.check();
      } catch (const UserError& error) {
        const std::string_view text = error.what();
        if (command.was_given("hidden") || text.find("--hidden") == std::string_view::npos) throw;
        throw UserError(fmt::format("{} (--hidden comes from --init {})", text, command.run.init));
      }
  }
  for (std::string& note : notes_of_unused(command)) notes.push_back(std::move(note));
  const DropClaimsOnSignal claims;
  const bool aims_at_train = command.run.train.target == Target::train;
  PreparedRun run = prepare_run(std::move(command.run));
  run.notes.insert(run.notes.end(), notes.begin(), notes.end());
  const LabelRule labels = run.options.preprocess.labels;
  const bool talks = !command.quiet && !command.json;
  if (!command.quiet) print_notes(run.notes);
  if (talks) {
    say(stdout, "{}", counts_text("train", run.data, labels));
    if (const StreamedRows* stream = run.data.streamed()) say(stdout, "{}", stream_text(*stream));
    if (run.valid) say(stdout, "{}", counts_text("valid", *run.valid, labels));
    if (run.test) say(stdout, "{}", counts_text("test", *run.test, labels));
    say(stdout, "{}", method_text(run.options.train));
    if (run.engine)
      say(stdout, "device  {}, card {} ({})\n", printable(run.engine->card().name), run.engine->card().number,
          size_text(run.engine->card().memory));
    if (run.recording)
      say(stdout, "replay  {} of {}\n", counted(run.recording->steps, "step"), run.options.replay);
    if (run.start)
      say(stdout, "start   {}: {} of {} and {} of {} are known to it\n", run.options.init,
          run.start_match.classes, counted(run.data.classes->size(), "class", "classes"),
          run.start_match.features, counted(run.data.space->features, "feature"));
    if (run.resumed) say(stdout, "resume  {}\n", resume_text(run));
    say(stdout, "memory  {}\n", run.memory.to_text());
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
  if (command.json) print_json(result_json(run, finished));
  if (!finished.search.finished) {
    say_stopped_search(run.options.train, finished, command.given, !run.options.checkpoint.empty());
    say_how_to_resume(run);
    return StopOnSignal::exit_code();
  }
  if (talks) {
    if (run.automatic && !outcome.interrupted) say(stdout, "{}", chosen_text(run, finished));
    print_table(run, outcome);
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
  if (outcome.steps == 0 && run.options.train.seconds > 0 && run.options.train.newton == 0)
    say(stderr, "truemax: note: no step was taken in {:g} s; give more --seconds\n",
        run.options.train.seconds);
  else if (outcome.last && outcome.last->train &&
           outcome.last->train->log_loss > kAbove * evaluate_class_frequencies(run.data).log_loss)
    say(stderr, "truemax: note: the train log-loss is above that of the class frequencies: {}\n",
        why_above(run, command, aims_at_train, scale));
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
