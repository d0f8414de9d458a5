// truemax inspect
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "core/text.hpp"
#include "model/model.hpp"

namespace truemax {
namespace {

struct InspectCommand {
  std::string model_path;
  bool json = false;
};

std::string names_text(const nlohmann::json& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 8); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", names[i].get<std::string>());
  return names.size() > 8 ? text + ", ..." : text;
}

// As train names it: Newton's method keeps the options of steps that it takes the place of.
std::string method_of(const nlohmann::json& meta) {
  const nlohmann::json options = meta.value("options", nlohmann::json::object());
  const auto number = [&](const char* name) { return options.value(name, nlohmann::json()); };
  const bool newton = number("newton").is_number() && number("newton") > 0 && number("epochs") == 0;
  return newton ? "newton" : meta["method"].get<std::string>();
}

int run_inspect(const InspectCommand& command) {
  nlohmann::json meta = read_model_metadata(command.model_path);
  if (command.json) {
    meta["method"] = method_of(meta);
    say(stdout, "{}\n", meta.dump());
    return kSuccess;
  }
  const auto line = [](const char* name, const std::string& value) {
    say(stdout, "{:<16}{}\n", name, printable(value));
  };
  line("model", command.model_path);
  line("written by", fmt::format("truemax {}, format version {}", meta.value("truemax_version", "?"),
                                 meta["format_version"].dump()));
  line("classes", fmt::format("{}: {}", meta["weight_shape"][0].dump(), names_text(meta["classes"])));
  line("features",
       fmt::format("{} of {} in the file{}", meta["features_used"].dump(),
                   meta["features"]["file_features"].dump(),
                   meta["features"]["words"].empty() ? "" : ": " + names_text(meta["features"]["words"])));
  if (meta["features"].contains("buckets"))
    line("n-grams", fmt::format("{} of {} buckets", meta["features"]["buckets"].size(),
                                meta["preprocessing"]["ngram-buckets"].dump()));
  if (meta["hidden"] > 0) line("learnt", fmt::format("{} features of a row", meta["hidden"].dump()));
  line("intercept", meta["intercept"].get<bool>() ? "yes" : "no");
  line("method", method_of(meta));
  for (const char* group : {"preprocessing", "options", "data"}) {
    say(stdout, "{}\n", group);
    if (meta.contains(group) && meta[group].is_object())
      for (const auto& [name, value] : meta[group].items())
        say(stdout, "  {:<22}{}\n", printable(name),
            printable(value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return kSuccess;
}

}  // namespace

Command inspect_command() {
  auto command = std::make_shared<InspectCommand>();
  Command self;
  self.name = "inspect";
  self.summary = "Show what a model file contains";
  self.arguments = {{"MODEL", "Model file", &command->model_path}};
  describe_json(self.table, &command->json, "the metadata as one object.");
  self.example = "  truemax inspect model.safetensors";
  self.run = [command] { return run_inspect(*command); };
  return self;
}

}  // namespace truemax
