// truemax options: every option of every command, as the page docs/options.md.
#include "cli/command.hpp"

namespace truemax {
namespace {

std::string in_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

void print_page(const OptionPage& page) {
  say(stdout, "\n## {}\n\n| option | default | what it does |\n| --- | --- | --- |\n", page.title);
  for (const Option& o : page.table.options()) {
    const bool choice = o.range.rfind("one of", 0) == 0;
    say(stdout, "| `--{}{}` | {} | {}{} |\n", o.name, o.value_name.empty() ? "" : " " + in_cell(o.value_name),
        o.default_value.empty() ? "-" : o.default_value, in_cell(o.help),
        o.range.empty() || choice ? "" : fmt::format(" Takes {}.", o.range));
  }
}

int run_options(const std::vector<OptionPage>& pages) {
  say(stdout,
      "# Options\n\nMade by `truemax options`; a test keeps this page and the program together. The same "
      "names are the keys of "
      "`config` in the run log and of the options of the C++ interface.\n");
  for (const OptionPage& page : pages) print_page(page);
  return kSuccess;
}

}  // namespace

void add_options(CLI::App& program, int& exit_code, const std::vector<OptionPage>& pages) {
  CLI::App* app = program.add_subcommand("options", "Every option of every command, as a page of Markdown");
  app->footer("Example:\n  truemax options > docs/options.md");
  app->callback([&exit_code, &pages] { exit_code = run_options(pages); });
}

}  // namespace truemax
