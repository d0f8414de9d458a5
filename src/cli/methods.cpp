// truemax methods
#include "rule/methods.hpp"

#include "cli/command.hpp"
#include "draw/draw.hpp"
#include "report/table.hpp"

namespace truemax {
namespace {

std::string limit_text(std::size_t most) {
  return most == kAnyNumber ? "any" : fmt::format("{}", most);
}

int run_methods() {
  Table table({"method", "biased", "rows (n)", "classes (m)", "cost per step"});
  for (const MethodInfo* info : methods())
    table.add({std::string(info->name), info->biased ? "yes" : "no", limit_text(info->most_rows),
               limit_text(info->most_classes), std::string(info->cost)});
  say(stdout, "{}\n", table.to_text());
  for (const MethodInfo* info : methods()) say(stdout, "{:<10}{}\n", info->name, info->description);
  say(stdout, "\ndraws\n");
  for (const DrawInfo& info : draws()) say(stdout, "{:<10}{}\n", info.name, info.description);
  return kSuccess;
}

}  // namespace

void add_methods(CLI::App& program, int& exit_code) {
  CLI::App* app = program.add_subcommand("methods", "The table of methods and draws");
  app->footer("Example:\n  truemax methods");
  app->callback([&exit_code] { exit_code = run_methods(); });
}

}  // namespace truemax
