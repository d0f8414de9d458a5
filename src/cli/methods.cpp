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
  Table table({"method", "biased", "rows (n)", "classes (m)", "cost per step"}, {4});
  Table words({"method", "what it is"}, {1});
  for (const MethodInfo* info : methods()) {
    table.add({std::string(info->name), info->biased ? "yes" : "no", limit_text(info->most_rows),
               info->whole_set ? "all" : limit_text(info->most_classes), std::string(info->cost)});
    words.add({std::string(info->name), std::string(info->description)});
  }
  Table draw_words({"draw", "memory", "which classes"}, {1, 2});
  for (const DrawInfo& info : draws())
    draw_words.add({std::string(info.name), std::string(info.memory), std::string(info.description)});
  say(stdout, "{}\n{}\n{}", table.to_text(), words.to_text(), draw_words.to_text());
  return kSuccess;
}

}  // namespace

void add_methods(CLI::App& program, int& exit_code) {
  CLI::App* app = program.add_subcommand("methods", "The table of methods and draws");
  app->footer("Example:\n  truemax methods");
  app->callback([&exit_code] { exit_code = run_methods(); });
}

}  // namespace truemax
