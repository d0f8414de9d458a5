#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <new>
#include <numeric>
#include <string_view>

#include "cli/command.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "truemax/version.hpp"

namespace truemax {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// " Did you mean --step?" where something close is there.
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

// The exit code, unless what was printed did not get through and that is all that went wrong.
int after_output(int exit_code) {
  const bool whole = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (whole || exit_code != kSuccess) return exit_code;
  return report("standard output could not be written; is the disk full?", kBadInput);
}

const char* memory_advice(const CLI::App& program) {
  if (program.got_subcommand("train") || program.got_subcommand("compare") || program.got_subcommand("tune"))
    return "read fewer rows (--max-rows) or keep fewer features (--max-features)";
  if (program.got_subcommand("generate")) return "give fewer --features, --classes or --rows";
  if (program.got_subcommand("evaluate")) return "read fewer rows (--max-rows), or use a larger machine";
  return "use a larger machine";
}

int report_parse_error(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App* where = &program;
  for (const CLI::App* sub : program.get_subcommands()) where = sub;
  const std::string name = where == &program ? "truemax" : "truemax " + where->get_name();
  std::string hint;
  for (const std::string& extra : where->remaining())
    if (hint.empty()) hint = nearest(*where, extra.substr(0, extra.find('=')));
  return report(fmt::format("{}; see '{} --help'.{}", error.what(), name, hint), kBadInput);
}

int run_commands(int argc, const char* const* argv) {
  CLI::App program(
      "truemax trains softmax models with very many classes towards the true maximum likelihood.", "truemax");
  program.set_version_flag("--version", kVersion);
  program.require_subcommand(1);
  program.footer(
      "Example:\n  truemax generate train.txt --test test.txt --test-rows 1000\n"
      "  truemax train train.txt --test test.txt --model model.safetensors\n"
      "  truemax predict model.safetensors test.txt --top 5\n"
      "'truemax COMMAND --help' tells all about a command.\n"
      "Exit codes: 0 done, 2 bad input or option, 3 the method diverged, 130 stopped by Ctrl-C, 143 by "
      "SIGTERM.");
  program.get_formatter()->column_width(34);
  int exit_code = kSuccess;
  const std::vector<OptionPage> pages{{"truemax train TRAIN", add_train(program, exit_code)},
                                      {"truemax evaluate MODEL DATA", add_evaluate(program, exit_code)},
                                      {"truemax predict MODEL DATA", add_predict(program, exit_code)},
                                      {"truemax inspect MODEL", add_inspect(program, exit_code)},
                                      {"truemax generate OUT", add_generate(program, exit_code)},
                                      {"truemax compare DATA...", add_compare(program, exit_code)},
                                      {"truemax tune DATA", add_tune(program, exit_code)},
                                      {"truemax report RUN...", add_report(program, exit_code)}};
  add_methods(program, exit_code);
  add_options(program, exit_code, pages);
  try {
    if (argc <= 1) {
      say(stdout, "{}", program.help());
      return kBadInput;
    }
    std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.front() == "help") {  // "help train" is "train --help"
      arguments.erase(arguments.begin());
      arguments.resize(std::min<std::size_t>(arguments.size(), 1));
      arguments.emplace_back("--help");
    }
    require_command(program, arguments.front());
    std::reverse(arguments.begin(), arguments.end());  // as the parser wants them
    program.parse(arguments);
    return exit_code;
  } catch (const CLI::CallForHelp&) {
    say(stdout, "{}", program.help());
    return kSuccess;
  } catch (const CLI::CallForVersion&) {
    say(stdout, "truemax {}\n", kVersion);
    return kSuccess;
  } catch (const CLI::ParseError& error) {
    return report_parse_error(program, error);
  } catch (const UserError& error) {
    return report(error.what(), kBadInput);
  } catch (const std::bad_alloc&) {
    return report(fmt::format("the memory is not enough; {}", memory_advice(program)), kBadInput);
  } catch (const std::exception& error) {
    return report(fmt::format("this is a fault of truemax itself: {}; please report it", error.what()), kBug);
  }
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  ignore_file_size_signal();
  hold_standard_streams();
  typed_words().assign(argv, argv + argc);
  return after_output(run_commands(argc, argv));
}

}  // namespace truemax
