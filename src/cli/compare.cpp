// truemax compare
#include "train/compare.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "data/weight_files.hpp"
#include "evaluate/evaluate.hpp"
#include "report/plot.hpp"
#include "report/table.hpp"
#include "train/run.hpp"

namespace truemax {
namespace {

struct CompareCommand {
  std::vector<std::string> paths, tests;
  RunOptions read;  // how the files are read
  Asked common;
  std::string methods = default_contenders(), grid = "-3:3", plot, json_file;
  double seconds = 0;
  std::uint64_t epochs = 0, points = 8;
  CompareBy by = CompareBy::train;
  bool by_step = false, json = false;
  std::vector<std::string> given;

  void describe(OptionTable& table);
};

void CompareCommand::describe(OptionTable& table) {
  table.group("Comparison");
  table.text("methods", "LIST", &methods,
             "Methods to compare: method[:option=value...], separated by commas; the options are those of "
             "'truemax train'. An entry with step=VALUE runs only with that step.",
             {.brief = true});
  table.text("grid", "LO:HI", &grid, "Steps to try: powers of ten from 10^LO to 10^HI. The best is shown.",
             {.brief = true});
  table.number_alias(
      "seconds", &seconds, {0, 1e6, true}, "auto",
      "Training time per run, not counting reading and evaluation. auto: the time of 50 epochs of Implicit "
      "SGD 1 x 1, at least 0.15. With --schedule decay, --decay applies after each fiftieth of it.",
      {.brief = true});
  table.count_alias("epochs", &epochs, {1, 1e9}, "off", "Compare at equal epochs instead of equal time.",
                    {.brief = true});
  table.list("test", "FILE", &tests,
             "Test data, in the format of the training data; once for each DATA, in their order.",
             {.brief = true});
  table.choice("by", &by, {{"train", CompareBy::train}, {"test", CompareBy::test}},
               "Which log-loss chooses the best step and is plotted.");
  table.toggle("by-step", &by_step,
               "Print and plot the log-loss of every step, instead of the best step's curve over time.",
               {.brief = true});
  table.count(
      "points", &points, {1, 40},
      "Evaluations per run, each after twice as much training as the one before; 1: only at the end.");
  table.text("plot", "FILE", &plot,
             "Write the plot to this file as SVG; '-' prints it as text, as on a terminal.", {.brief = true});
  describe_json(table, &json, "all runs with their curves as one object.");
  table.text("json-file", "FILE", &json_file, "Write all runs with their curves to this file as JSON.",
             {.brief = true});
  read.read.describe(table);
  describe_row_weights(table, &read.read.row_weights);
  describe_class_weights(table, &read.class_weights);
  read.preprocess.describe(table);
  describe_max_rows(table, &read.max_rows);
  OptionTable training;
  common.describe(training);
  // Where auto's defaults (those of --target train) differ, the help shows both.
  Asked of_train;
  of_train.target = Target::train;
  Recipe of_auto = resolve_reading(of_train, {}, {}).draft;
  OptionTable automatic;
  of_auto.describe(automatic);
  for (Option option : training.options()) {
    if (!option.tags.common) continue;
    const std::string other = automatic.find(option.name)->default_value;
    if (other != option.default_value) option.default_value += fmt::format(" (auto: {})", other);
    option.tags.plain_default.clear();
    option.tags.brief = option.tags.replay == Replay::free;  // --threads
    table.take(std::move(option));
  }
  describe_memory_limit(table, &read.memory_limit);
}

// The shortest path suffixes that are all different.
std::vector<std::string> short_names(const std::vector<std::string>& paths) {
  for (std::size_t folders = 0; folders < 3; ++folders) {
    std::vector<std::string> names;
    for (const std::string& path : paths) {
      const std::filesystem::path full(path);
      std::filesystem::path name = full.filename();
      std::filesystem::path above = full.parent_path();
      for (std::size_t i = 0; i < folders && !above.filename().empty(); ++i, above = above.parent_path())
        name = above.filename() / name;
      names.push_back(name.string());
    }
    std::vector<std::string> sorted = names;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return names;
  }
  return paths;
}

void check(CompareCommand& command) {
  OptionTable table;
  command.describe(table);
  const auto refuse = [](std::string_view text) { throw UserError(std::string(text)); };
  if (!command.tests.empty() && command.tests.size() != command.paths.size())
    refuse(fmt::format("--test was given {}, but there are {}; give one --test for each DATA, in their order",
                       counted(command.tests.size(), "time"), counted(command.paths.size(), "data file")));
  if (command.by == CompareBy::test && command.tests.empty())
    refuse("--by test: there is no test data; add --test FILE");
  if (command.seconds > 0 && command.epochs > 0)
    refuse("--seconds and --epochs: runs are compared at equal time or at equal epochs; give one of them");
  if (command.paths.size() > 1)
    for (const std::string& name : command.given)
      if (table.find(name)->tags.one_file)
        refuse(fmt::format("--{} belongs to one data file, but there are {}; compare them one by one", name,
                           command.paths.size()));
  for (std::size_t i = 0; i < command.paths.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (command.paths[i] == command.paths[j])
        refuse(fmt::format("{} is named twice; name each data file once", in_quotes(command.paths[i])));
  std::vector<std::string> inputs = command.paths;
  inputs.insert(inputs.end(), command.tests.begin(), command.tests.end());
  if (command.json && command.plot == "-")
    refuse("--json and --plot -: both go to standard output; give --plot the name of a file");
  for (const auto& [option, path] :
       {std::pair("plot", command.plot), std::pair("json-file", command.json_file)}) {
    if (path.empty() || (path == "-" && std::string_view(option) == "plot")) continue;
    if (path == "-") refuse("--json-file takes the name of a file, not '-'; type --json for standard output");
    if (!is_stream(path)) require_writable(path, 0, option);
    for (const std::string& input : inputs)
      if (input != "-" && same_file(path, input))
        refuse(fmt::format("--{} {}: this is an input; give another name", option, path));
  }
  if (!command.json_file.empty() && !command.plot.empty() && command.plot != "-" &&
      same_file(command.json_file, command.plot))
    refuse(fmt::format("--json-file {}: the plot goes there; give another name", command.json_file));
}

std::vector<PreparedRun> read_all(const CompareCommand& command) {
  std::vector<PreparedRun> runs;
  // All data sets are in memory at once. Without a limit the budget is the free memory, which already
  // excludes those that were read.
  const auto memory = std::make_shared<MemoryBudget>(command.read.memory_limit);
  std::vector<MemoryCharge> held;
  for (std::size_t i = 0; i < command.paths.size(); ++i) {
    RunOptions options = command.read;
    options.read.memory = memory;
    options.train_path = command.paths[i];
    if (!command.tests.empty()) options.test_path = command.tests[i];
    options.asked = command.common;
    options.asked.device = device::kCpu;
    options.model = options.log = "none";
    runs.push_back(prepare_run(std::move(options)));
    const PreparedRun& run = runs.back();
    if (command.read.memory_limit > 0) held.emplace_back(memory, run.bytes());
    print_notes(run.notes);
  }
  return runs;
}

std::string compared_loss(double loss) {
  return loss < 1e4 ? fmt::format("{:.4f}", loss) : fmt::format("{:.3g}", loss);
}

// Tables and plots of a result.
struct Report {
  const CompareCommand& command;
  const CompareOptions& options;
  const std::vector<CompareData>& data;
  const CompareResult& result;

  const char* loss_name() const { return options.by == CompareBy::test ? "test log-loss" : "train log-loss"; }
  double loss_of(const CurvePoint& p) const {
    return options.by == CompareBy::test ? p.test_loss.value_or(0) : p.train_loss;
  }
  std::vector<const CompareRun*> runs_of(std::size_t d, std::size_t c) const {
    std::vector<const CompareRun*> runs;
    for (const CompareRun& run : result.runs)
      if (run.data == d && run.contender == c) runs.push_back(&run);
    return runs;
  }
  // Shown in place of a missing log-loss.
  std::string no_figure(std::size_t d, std::size_t c) const {
    const auto runs = runs_of(d, c);
    const bool diverged = std::any_of(runs.begin(), runs.end(),
                                      [](const CompareRun* run) { return !run->result.divergence.empty(); });
    return diverged ? "diverged" : "-";
  }

  std::string budget_line(std::size_t d) const {
    std::string line = fmt::format("{}: {}, {}, {}; ", data[d].name, counted(data[d].train.size(), "row"),
                                   counted(data[d].train.space->features, "feature"),
                                   counted(data[d].train.classes->size(), "class", "classes"));
    if (options.epochs > 0) return line + counted(options.epochs, "epoch") + " a run\n";
    if (result.budgets[d].seconds == 0) return line + "not reached\n";
    line += fmt::format("T = {:.3g} s of training a run", result.budgets[d].seconds);
    if (result.budget_step[d] > 0)
      line += fmt::format(" (Implicit SGD 1 x 1, 50 epochs, step {:g})", result.budget_step[d]);
    return line + "\n";
  }

  std::string table() const {
    std::vector<std::string> header{"method"};
    for (const CompareData& d : data) {
      header.push_back(data.size() > 1 ? d.name : loss_name());
      header.emplace_back("step");
      header.emplace_back("epochs");
      if (d.test) header.emplace_back(options.by == CompareBy::test ? "train" : "test");
    }
    Table table(header);
    std::vector<std::string> frequencies{"class frequencies"};
    for (const CompareData& d : data) {
      const double train = evaluate_class_frequencies(d.train).log_loss;
      const double test = !d.test ? 0 : evaluate_class_frequencies(*d.test).log_loss;
      const bool by_test = options.by == CompareBy::test;
      frequencies.insert(frequencies.end(), {compared_loss(by_test ? test : train), "-", "-"});
      if (d.test) frequencies.push_back(compared_loss(by_test ? train : test));
    }
    table.add(frequencies);
    for (std::size_t c = 0; c < options.contenders.size(); ++c) {
      std::vector<std::string> row{options.contenders[c].entry};
      for (std::size_t d = 0; d < data.size(); ++d) {
        const CompareRun* best = result.best(d, c, options.by);
        if (best == nullptr) {
          row.insert(row.end(), {no_figure(d, c), "-", "-"});
          if (data[d].test) row.emplace_back("-");
          continue;
        }
        const CurvePoint& end = best->result.curve.back();
        row.push_back(compared_loss(loss_of(end)));
        row.push_back(fmt::format("{:g}", best->step));
        row.push_back(fmt::format("{:.3g}", end.epochs));
        if (data[d].test)
          row.push_back(compared_loss(options.by == CompareBy::test ? end.train_loss : *end.test_loss));
      }
      table.add(std::move(row));
    }
    return table.to_text();
  }

  // Methods x steps; a star marks the best step of a method.
  std::string step_table(std::size_t d) const {
    std::vector<std::string> header{"method \\ step"};
    for (const double step : options.steps) header.push_back(fmt::format("{:g}", step));
    Table table(header);
    for (std::size_t c = 0; c < options.contenders.size(); ++c) {
      std::vector<std::string> row{options.contenders[c].entry};
      const auto runs = runs_of(d, c);
      const CompareRun* best = result.best(d, c, options.by);
      for (const double step : options.steps) {
        const auto found =
            std::find_if(runs.begin(), runs.end(), [&](const CompareRun* r) { return r->step == step; });
        if (found == runs.end())
          row.emplace_back("-");
        else if (const auto figure = (*found)->figure(options.by))
          row.push_back(compared_loss(*figure) + (*found == best ? "*" : " "));
        else
          row.emplace_back((*found)->result.divergence.empty() ? "-" : "diverged");
      }
      table.add(std::move(row));
    }
    return table.to_text();
  }

  Plot plot(std::size_t d) const {
    Plot plot{data[d].name, "", loss_name(), true, true, std::numeric_limits<double>::max(), {}};
    if (command.by_step) {
      plot.x_label = "step";
      // Runs far above the class frequencies learnt nothing and would squeeze the other curves.
      plot.y_most = 3 * evaluate_class_frequencies(data[d].train).log_loss;
    } else {
      plot.x_label = options.epochs > 0 ? "epochs" : "seconds of training";
    }
    for (std::size_t c = 0; c < options.contenders.size(); ++c) {
      PlotLine line{options.contenders[c].entry, {}};
      if (command.by_step) {
        for (const CompareRun* run : runs_of(d, c))
          if (const auto figure = run->figure(options.by)) line.points.push_back({run->step, *figure});
      } else if (const CompareRun* best = result.best(d, c, options.by)) {
        for (const CurvePoint& p : best->result.curve)
          line.points.push_back({options.epochs > 0 ? p.epochs : p.seconds, loss_of(p)});
      }
      plot.lines.push_back(std::move(line));
    }
    return plot;
  }

  void print() const {
    for (std::size_t d = 0; d < data.size(); ++d) say(stdout, "{}", budget_line(d));
    if (command.by_step)
      for (std::size_t d = 0; d < data.size(); ++d)
        say(stdout, "\n{}: {} by step, * the best of a method\n{}", data[d].name, loss_name(), step_table(d));
    else
      say(stdout, "\n{} of each method at its best step of {:g} to {:g}\n{}", loss_name(),
          options.steps.front(), options.steps.back(), table());
    if (command.plot == "-" || (command.plot.empty() && isatty(STDOUT_FILENO) == 1))
      for (std::size_t d = 0; d < data.size(); ++d) say(stdout, "\n{}", plot_text(plot(d)));
  }
};

int run_compare(CompareCommand& command) {
  check(command);
  const DropClaimsOnSignal on_signal;
  const Claim plot_claim = claim_output(command.plot, "plot"),
              json_claim = claim_output(command.json_file, "json-file");
  CompareOptions options;
  options.contenders = parse_contenders(command.methods, command.common);
  options.steps = parse_grid(command.grid);
  options.seconds = command.seconds;
  options.epochs = command.epochs;
  options.points = command.by_step ? 1 : command.points;
  options.memory_limit = command.read.memory_limit;
  options.by = command.by;
  options.threads = resolve_threads(command.common.threads.value_or(0));
  const std::vector<PreparedRun> runs = read_all(command);
  const std::vector<std::string> names = short_names(command.paths);
  std::vector<CompareData> data;
  for (std::size_t i = 0; i < runs.size(); ++i)
    data.push_back({printable(names[i]), runs[i].data, runs[i].test});

  const StopOnSignal signals;
  ProgressLine line;
  const bool talks = ProgressLine::wanted();
  const CompareResult result = compare(data, options, StopOnSignal::flag(), [&](const CompareProgress& now) {
    if (!talks || !line.due()) return;
    line.show(fmt::format("{}: {} step {:g}: {}/{} runs, {:.0f} s left", now.data->name,
                          now.contender == nullptr ? "time of implicit" : now.contender->entry, now.step,
                          now.done, now.of, now.seconds_left));
  });
  line.clear();

  print_notes(result.notes);
  const Report report{command, options, data, result};
  if (command.json)
    print_json(compare_json(data, options, result));
  else
    report.print();
  if (!command.plot.empty() && command.plot != "-") {
    std::vector<Plot> panels;
    for (std::size_t d = 0; d < data.size(); ++d) panels.push_back(report.plot(d));
    write_file(command.plot, plot_svg(panels), "plot");
    if (!command.json) say(stdout, "\nplot    {}\n", command.plot);
  }
  if (!command.json_file.empty()) {
    write_file(command.json_file, json_file_text(compare_json(data, options, result)), "json-file");
    if (!command.json)
      say(stdout, "{}json    {}\n", command.plot.empty() || command.plot == "-" ? "\n" : "",
          command.json_file);
  }
  if (result.interrupted) {
    say(stderr, "truemax: stopped after {}; only these are shown\n", counted(result.runs.size(), "run"));
    return StopOnSignal::exit_code();
  }
  return kSuccess;
}

}  // namespace

Command compare_command() {
  auto command = std::make_shared<CompareCommand>();
  Command self;
  self.name = "compare";
  self.summary = "Compare methods at equal training time, each at its best step";
  self.arguments = {{"DATA", "Training data: one file or more, in one format", nullptr, &command->paths}};
  command->describe(self.table);
  self.example =
      "  truemax generate train.txt --rows 2000 --classes 100\n"
      "  truemax compare train.txt --methods implicit,umax:classes-per-step=5,exact --grid=-1:2 --seconds "
      "0.2 "
      "--normalize l2 --plot -\n"
      "The curves as a picture, all runs as JSON:\n"
      "  truemax compare train.txt --methods implicit,exact --grid 0:1 --seconds 0.2 --plot curves.svg "
      "--json-file runs.json";
  self.given = &command->given;
  self.over_ranks = OverRanks::refused;
  self.run = [command] { return run_compare(*command); };
  return self;
}

}  // namespace truemax
