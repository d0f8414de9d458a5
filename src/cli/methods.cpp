// truemax methods
#include "rule/methods.hpp"

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "draw/draw.hpp"
#include "report/table.hpp"

namespace truemax {
namespace {

std::string limit_text(std::size_t most) {
  return most == kAnyNumber ? "any" : fmt::format("{}", most);
}

nlohmann::json limit_json(std::size_t most) {
  return most == kAnyNumber ? nlohmann::json() : nlohmann::json(most);
}

void print_methods_json() {
  using Json = nlohmann::ordered_json;
  Json json{{"methods", Json::array()}, {"aliases", Json::array()}, {"draws", Json::array()}};
  for (const MethodInfo* info : methods())
    json["methods"].push_back({{"name", info->name},
                               {"description", info->description},
                               {"biased", info->biased},
                               {"most_rows", limit_json(info->most_rows)},
                               {"most_classes", limit_json(info->most_classes)},
                               {"all_classes", info->whole_set},
                               {"cost", info->cost}});
  for (const MethodAlias& alias : kMethodAliases)
    json["aliases"].push_back({{"name", alias.name}, {"of", alias.of}, {"description", alias.description}});
  for (const DrawInfo& info : draws())
    json["draws"].push_back(
        {{"name", info.name}, {"description", info.description}, {"memory", info.memory}});
  print_json(json);
}

int run_methods(bool json) {
  if (json) {
    print_methods_json();
    return kSuccess;
  }
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
  Table aliases({"alias", "of", "what it is"}, {1, 2});
  for (const MethodAlias& alias : kMethodAliases)
    aliases.add({std::string(alias.name), std::string(alias.of), std::string(alias.description)});
  say(stdout, "{}\n{}\n{}\n{}", table.to_text(), words.to_text(), draw_words.to_text(), aliases.to_text());
  return kSuccess;
}

}  // namespace

Command methods_command() {
  auto json = std::make_shared<bool>(false);
  Command self;
  self.name = "methods";
  self.summary = "List the methods and draws";
  describe_json(self.table, json.get(), "methods, aliases and draws.");
  self.example = "  truemax methods";
  self.run = [json] { return run_methods(*json); };
  return self;
}

}  // namespace truemax
