// truemax options: every option of every command, as the page docs/options.md.
#include <fmt/format.h>

#include "cli/command.hpp"
#include "data/generate.hpp"
#include "model/use.hpp"
#include "train/run.hpp"

namespace truemax {
namespace {

std::string in_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

void print_page(const char* title, const OptionTable& table) {
  fmt::print("\n## {}\n\n| option | default | what it does |\n| --- | --- | --- |\n", title);
  for (const Option& o : table.options()) {
    const bool choice = o.range.rfind("one of", 0) == 0;
    fmt::print("| `--{}{}` | {} | {}{} |\n", o.name, o.value_name.empty() ? "" : " " + in_cell(o.value_name),
               o.default_value.empty() ? "-" : o.default_value, in_cell(o.help),
               o.range.empty() || choice ? "" : fmt::format(" Takes {}.", o.range));
  }
}

int run_options() {
  fmt::print(
      "# Options\n\nMade by `truemax options`; a test keeps this page and the program together. The same "
      "names are the keys of "
      "`config` in the run log and of the options of the C++ interface.\n");
  RunOptions train;
  OptionTable train_table;
  train.describe(train_table);
  print_page("truemax train TRAIN", train_table);
  UseOptions use;
  OptionTable use_table;
  use.describe(use_table);
  print_page("truemax evaluate MODEL DATA, truemax predict MODEL DATA", use_table);
  fmt::print("\n`predict` also takes `--top COUNT` (default 1); both take `--json`.\n");
  GenerateOptions generate;
  OptionTable generate_table;
  generate.describe(generate_table);
  print_page("truemax generate OUT", generate_table);
  fmt::print("\n`--test FILE` names the file of the test rows.\n");
  return kSuccess;
}

}  // namespace

void add_options(CLI::App& program, int& exit_code) {
  CLI::App* app = program.add_subcommand("options", "Every option of every command, as a page of Markdown");
  app->footer("Example:\n  truemax options > docs/options.md");
  app->callback([&exit_code] { exit_code = run_options(); });
}

}  // namespace truemax
