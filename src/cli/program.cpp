#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "cli/command.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "ranks/ranks.hpp"
#include "ranks/together.hpp"
#include "truemax/version.hpp"

namespace truemax {
namespace {

// " Did you mean --step?" if a name is close.
std::string nearest(const CLI::App& app, std::string_view typed) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const CLI::App* sub : app.get_subcommands(nullptr)) names.push_back(sub->get_name());
  std::string best;
  std::size_t distance = 3;
  for (const std::string& name : names)
    if (const std::size_t d = edit_distance(name, typed); d < distance) distance = d, best = name;
  return best.empty() ? "" : fmt::format(" Did you mean {}?", best);
}

// The first word must be a command or an option of the program itself.
void require_command(const CLI::App& program, const std::string& word) {
  if (!word.empty() && word.front() == '-') return;
  for (const CLI::App* sub : program.get_subcommands(nullptr))
    if (sub->get_name() == word) return;
  throw UserError(
      fmt::format("there is no command '{}'; see 'truemax help'.{}", word, nearest(program, word)));
}

int report(std::string_view message, int code) {
  say(stderr, "truemax: error: {}\n", printable(message));
  return code;
}

// A failed write to standard output is reported only if nothing else went wrong.
int after_output(int exit_code) {
  const bool whole = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (whole || exit_code != kSuccess) return exit_code;
  return report(kOutputFailed, kBadInput);
}

const char* memory_advice(const CLI::App& program) {
  if (program.got_subcommand("train") || program.got_subcommand("compare") || program.got_subcommand("tune"))
    return "read fewer rows (--max-rows) or keep fewer features (--max-features)";
  if (program.got_subcommand("convert")) return "convert fewer rows (--max-rows)";
  if (program.got_subcommand("generate")) return "give fewer --features, --classes or --rows";
  if (program.got_subcommand("evaluate")) return "read fewer rows (--max-rows), or use a larger machine";
  return "use a larger machine";
}

std::string parse_error_text(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App* where = &program;
  for (const CLI::App* sub : program.get_subcommands()) where = sub;
  const std::string name = where == &program ? "truemax" : "truemax " + where->get_name();
  std::string hint;
  for (const std::string& extra : where->remaining())
    if (hint.empty()) hint = nearest(*where, extra.substr(0, extra.find('=')));
  std::string text = error.what();
  // CLI11 counts the words of an option; here each takes one, so it was given more often.
  constexpr std::string_view kTwice = ": At Most 1 required but received ";
  if (const auto at = text.find(kTwice); at != std::string::npos)
    text = fmt::format("{} is given {} times; give it once", text.substr(0, at),
                       text.substr(at + kTwice.size()));
  return fmt::format("{}; see '{} --help'.{}", text, name, hint);
}

void bind_options(CLI::App& app, const Command& command) {
  for (const Argument& argument : command.arguments) {
    if (argument.several != nullptr)
      app.add_option(argument.name, *argument.several)->required();
    else
      app.add_option(argument.name, *argument.one)->required();
  }
  for (const Option& o : command.table.options()) {
    const auto note = [given = command.given, name = o.name] {
      if (given != nullptr) given->push_back(name);
    };
    if (o.is_switch) {
      CLI::Option* flag = app.add_flag_function(fmt::format("--{0},!--no-{0}", o.name),
                                                [parse = o.parse, note](std::int64_t count) {
                                                  note();
                                                  parse(count >= 0 ? "on" : "off");
                                                });
      flag->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    } else if (o.is_list) {
      app.add_option_function<std::vector<std::string>>(
             "--" + o.name,
             [parse = o.parse, note](const std::vector<std::string>& texts) {
               note();
               for (const std::string& text : texts) parse(text);
             })
          ->allow_extra_args(false);
    } else {
      app.add_option_function<std::string>("--" + o.name, [parse = o.parse, note](const std::string& text) {
        note();
        parse(text);
      });
    }
  }
}

// truemax help [COMMAND], help --man, help --completion bash. Empty: `words` now holds the equivalent
// command.
std::function<int()> help_command(const std::vector<Command>& commands, std::vector<std::string>& words) {
  words.erase(words.begin());
  if (!words.empty() && words.front() == "--man")
    return [&] {
      say(stdout, "{}", man_page(commands));
      return kSuccess;
    };
  if (!words.empty() && words.front() == "--completion") {
    if (words.size() != 2 || words[1] != "bash")
      throw UserError(fmt::format("--completion {}: only bash is supported; type --completion bash",
                                  words.size() < 2 ? "" : words[1]));
    return [&] {
      say(stdout, "{}", bash_completion(commands));
      return kSuccess;
    };
  }
  if (!words.empty() && words.front().front() == '-')
    throw UserError(fmt::format(
        "help {}: there is no such option; type help, help COMMAND, help --man or help --completion bash",
        words.front()));
  words.resize(std::min<std::size_t>(words.size(), 1));  // "help train" is "train --help"
  words.emplace_back("--help");
  return {};
}

void print_help(const CLI::App& program, const std::vector<Command>& commands, bool all) {
  const std::vector<CLI::App*> chosen = program.get_subcommands();
  for (const Command& command : commands)
    if (!chosen.empty() && chosen.front()->get_name() == command.name) {
      say(stdout, "{}", command_help(command, all));
      return;
    }
  say(stdout, "{}", program_help(commands));
}

// Parses the command line. Returns what it prints instead of running a command, such as the help; empty if
// there is a command to run.
std::function<int()> parse(CLI::App& program, const std::vector<Command>& commands, int argc,
                           const char* const* argv) {
  if (argc <= 1)
    return [&] {
      say(stdout, "{}", program_help(commands));
      return kBadInput;
    };
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.front() == "help")
    if (std::function<int()> printed = help_command(commands, arguments)) return printed;
  require_command(program, arguments.front());
  for (const Command& command : commands)
    if (command.name == arguments.front()) refuse_old_spellings(command, arguments);
  std::reverse(arguments.begin(), arguments.end());  // the parser takes them from the back
  const auto help = [&](bool all) {
    return [&, all] {
      print_help(program, commands, all);
      return kSuccess;
    };
  };
  try {
    program.parse(arguments);
    return {};
  } catch (const CLI::CallForHelp&) {
    return help(false);
  } catch (const CLI::CallForAllHelp&) {
    return help(true);
  } catch (const CLI::CallForVersion&) {
    return [] {
      say(stdout, "truemax {}\n", kVersion);
      return kSuccess;
    };
  } catch (const CLI::ParseError& error) {
    throw UserError(parse_error_text(program, error));
  }
}

// A word that one rank has typed wrong is an error of all, before any waits for the others.
std::function<int()> parse_together(CLI::App& program, const std::vector<Command>& commands, int argc,
                                    const char* const* argv) {
  std::function<int()> printed;
  together(ranks(), [&] {
    try {
      printed = parse(program, commands, argc, argv);
    } catch (const UserError& error) {
      if (ranks().first()) throw;
      throw UserError(fmt::format("rank {}: {}", ranks().rank(), error.what()));
    }
  });
  return printed;
}

int run_commands(int argc, const char* const* argv) {
  CLI::App program(kProgramSummary, "truemax");
  program.set_version_flag("--version", kVersion);
  program.set_help_all_flag("--help-all");
  program.require_subcommand(1);
  std::vector<Command> commands = all_commands();
  commands.push_back(Command());
  commands.back().name = "options";
  commands.back().summary = "Print every option of every command as Markdown";
  commands.back().example = "  truemax options > docs/options.md";
  bool as_json = false;
  commands.back().table.group("Output");
  describe_json(commands.back().table, &as_json, "the options of each command.");
  commands.back().run = [&as_json] {
    if (as_json)
      print_json(options_json(all_commands()));
    else
      say(stdout, "{}", options_page(all_commands()));
    return kSuccess;
  };
  const Command* chosen = nullptr;
  for (const Command& command : commands) {
    CLI::App* app = program.add_subcommand(command.name, command.summary);
    bind_options(*app, command);
    app->callback([&command, &chosen] { chosen = &command; });
  }
  try {
    const std::function<int()> printed = parse_together(program, commands, argc, argv);
    require_same_command(printed ? "help" : chosen->name);
    return printed ? printed() : run_over_ranks(*chosen);
  } catch (const UserError& error) {
    return report(error.what(), kBadInput);
  } catch (const std::bad_alloc&) {
    return report(fmt::format("not enough memory; {}", memory_advice(program)), kBadInput);
  } catch (const std::system_error& error) {  // of threads and paths
    if (error.code() == std::errc::not_enough_memory)
      return report(fmt::format("not enough memory; {}", memory_advice(program)), kBadInput);
    return report(
        fmt::format("{}; the machine refuses it: free what it lacks, or give fewer --threads", error.what()),
        kBadInput);
  } catch (const LostRanks& error) {
    return report(error.what(), kBadInput);
  } catch (const std::exception& error) {
    return report(fmt::format("internal error: {}; please report it", error.what()), kBug);
  }
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  ignore_file_size_signal();
  share_heap_if_limited();
  hold_standard_streams();
  try {
    typed_words().assign(argv, argv + argc);
    return after_output(run_commands(argc, argv));
  } catch (const std::bad_alloc&) {  // describing the commands takes memory too
    return report("not enough memory to start; close other programs or use a larger machine", kBadInput);
  }
}

}  // namespace truemax
