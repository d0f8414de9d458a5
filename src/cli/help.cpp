// --help and --help-all of a command, and docs/options.md.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.hpp"

namespace truemax {
namespace {

constexpr std::size_t kWidth = 100, kColumn = 32;
// A command with at most this many options shows them all in --help.
constexpr std::size_t kFewOptions = 18;

std::string option_name(const Option& option) {
  if (option.can_be_off()) return fmt::format("--{0}, --no-{0}", option.name);
  return "--" + option.name + (option.value_name.empty() ? "" : " ") + option.value_name;
}

std::string entry(const std::string& name, const std::string& text) {
  const std::string indent(kColumn, ' ');
  const std::string left = "  " + name;
  const std::string words = wrapped(text, kWidth - kColumn, indent);
  if (left.size() + 2 > kColumn) return left + "\n" + indent + words + "\n";
  return left + std::string(kColumn - left.size(), ' ') + words + "\n";
}

std::string option_entry(const Option& option) {
  const std::string standard = option.default_text();
  return entry(option_name(option),
               option.full_help() + (standard.empty() || (option.is_switch && standard == "off")
                                         ? ""
                                         : fmt::format(" Default: {}.", standard)));
}

// Group headings, in order of first use.
std::vector<std::string> groups_of(const OptionTable& table) {
  std::vector<std::string> groups;
  for (const Option& o : table.options())
    if (std::find(groups.begin(), groups.end(), o.group) == groups.end()) groups.push_back(o.group);
  return groups;
}

std::string in_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

}  // namespace

const char* const kProgramSummary =
    "truemax trains softmax models with very many classes towards the true maximum likelihood.";
const char* const kExitCodes =
    "0 done, 2 bad input or option, 3 the method diverged, 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by "
    "SIGHUP.";

std::string wrapped(const std::string& text, std::size_t width, const std::string& indent) {
  std::string out;
  std::size_t column = 0;
  const auto put = [&](std::string_view word, bool blank) {
    if (column > 0 && column + (blank ? 1 : 0) + word.size() > width) {
      out += "\n" + indent;
      column = 0;
    }
    if (column > 0 && blank) out += ' ', ++column;
    out += word;
    column += word.size();
  };
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string_view rest = word;
    bool blank = true;
    while (rest.size() > width && rest.find(',') != std::string_view::npos) {  // a list without spaces
      const std::size_t end = rest.find(',') + 1;
      put(rest.substr(0, end), blank);
      rest.remove_prefix(end);
      blank = false;
    }
    put(rest, blank);
  }
  return out;
}

std::string command_help(const Command& command, bool all) {
  std::string out = fmt::format("{}\nusage: {}{}\n", command.summary, command.synopsis(),
                                command.table.options().empty() ? "" : " [OPTIONS]");
  if (!command.arguments.empty()) out += "\n";
  for (const Argument& argument : command.arguments) out += entry(argument.name, argument.help);
  const std::vector<Option>& options = command.table.options();
  const auto is_shown = [&](const Option& o) { return all || o.tags.brief || options.size() <= kFewOptions; };
  const auto shown = static_cast<std::size_t>(std::count_if(options.begin(), options.end(), is_shown));
  for (const std::string& group : all ? groups_of(command.table) : std::vector<std::string>{"Options"}) {
    out += fmt::format("\n{}:\n", group);
    for (const Option& o : options)
      if (is_shown(o) && (!all || o.group == group)) out += option_entry(o);
  }
  if (shown < options.size())
    out += fmt::format("\n'truemax {} --help-all' lists all {} options.\n", command.name, options.size());
  return out + "\nExample:\n" + command.example + "\n";
}

std::string program_help(const std::vector<Command>& commands) {
  std::string out = fmt::format("{}\nusage: truemax COMMAND [OPTIONS]\n\nCommands:\n", kProgramSummary);
  for (const Command& command : commands) out += entry(command.name, command.summary);
  return out + fmt::format(
                   "\nOptions:\n{}{}\n"
                   "Example:\n  truemax generate train.txt --test test.txt --test-rows 1000\n"
                   "  truemax train train.txt --test test.txt --model model.safetensors\n"
                   "  truemax predict model.safetensors test.txt --top 5\n"
                   "'truemax COMMAND --help' lists the common options of a command, --help-all lists all.\n"
                   "Exit codes: {}\n",
                   entry("--help", "Print this help; after a command, its common options."),
                   entry("--version", "Print the version."), kExitCodes);
}

std::string options_page(const std::vector<Command>& commands) {
  std::string out =
      "# Options\n\nGenerated by `truemax options`; a test checks that it is up to date. The same names are\n"
      "the keys of `config` in the run log and of the options of the C++ interface.\n\n"
      "Defaults are those of plain `truemax train DATA`, that is of `--method auto`. If a named method has\n"
      "a different default, it follows in brackets.\n\n"
      "In scikit-learn's terms: `--step` is `eta0` of `SGDClassifier` (the paper's eta times the number\n"
      "N of rows); `--ridge` is `1/C` of `LogisticRegression` and `alpha*N` of `SGDClassifier`.\n";
  for (const Command& command : commands) {
    out += fmt::format("\n## {}\n", command.synopsis());
    for (const std::string& group : groups_of(command.table)) {
      out += fmt::format("\n### {}\n\n| option | default | what it does |\n| --- | --- | --- |\n", group);
      for (const Option& o : command.table.options()) {
        if (o.group != group) continue;
        const std::string standard = o.default_text();
        out += fmt::format("| `--{}{}` | {} | {} |\n", o.name,
                           o.value_name.empty() ? "" : " " + in_cell(o.value_name),
                           standard.empty() ? "-" : standard, in_cell(o.full_help()));
      }
    }
  }
  return out;
}

nlohmann::ordered_json options_json(const std::vector<Command>& commands) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Command& command : commands) {
    nlohmann::ordered_json& options = json[command.name] = nlohmann::ordered_json::array();
    for (const Option& o : command.table.options())
      options.push_back({{"name", o.name},
                         {"value", o.value_name},
                         {"default", o.default_text()},
                         {"group", o.group},
                         {"help", o.full_help()}});
  }
  return json;
}

}  // namespace truemax
