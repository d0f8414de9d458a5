// truemax plan
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/prepare_command.hpp"
#include "train/plan_json.hpp"
#include "train/plan_text.hpp"
#include "train/warm_start.hpp"

namespace truemax {
namespace {

struct PlanCommand {
  RunOptions run;
  bool json = false;
  std::vector<std::string> given;
};

// Only what was said.
nlohmann::ordered_json asked_json(const RunOptions& options, const std::vector<std::string>& given) {
  RunOptions copy = options;
  OptionTable table;
  copy.describe(table);
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Option& option : table.options())
    if (std::find(given.begin(), given.end(), option.name) != given.end())
      json[option.name] = option.to_json();
  return json;
}

int run_plan(PlanCommand& command) {
  const nlohmann::ordered_json asked = asked_json(command.run, command.given);
  const PreparedRun run =
      prepare_command(std::move(command.run), command.given, command.json ? Aim::facts : Aim::plan);
  print_notes(run.notes);
  if (!command.json) {
    say(stdout, "{}{}{}", sets_text(run), beginning_text(run), plan_text(*run.plan, run.reasons));
    return kSuccess;
  }
  nlohmann::ordered_json json{{"data", run.options.train_path},
                              {"asked", asked},
                              {"plan", to_json(*run.plan)},
                              {"not_taken", nlohmann::ordered_json::object()},
                              {"notes", run.notes},
                              {"problem", to_json(run.facts)},
                              {"machine", to_json(run.machine)}};
  if (run.start) json["start"] = to_json(shape_of(*run.start));
  for (const PassedOver& one : not_taken(*run.plan, run.reasons.passed_over))
    json["not_taken"][one.solver] = one.why;
  print_json(json);
  return kSuccess;
}

}  // namespace

Command plan_command() {
  auto command = std::make_shared<PlanCommand>();
  Command self;
  self.name = "plan";
  self.summary = "Show what train would do, and how long it would take, without doing it";
  self.arguments = {{"TRAIN", "Training data: a file, '-' for standard input; gzip and zstd are recognised",
                     &command->run.train_path}};
  command->run.describe(self.table);
  describe_json(self.table, &command->json, "the plan as one object, instead of text.");
  self.example =
      "  truemax generate train.txt\n"
      "  truemax plan train.txt\n"
      "  truemax plan train.txt --method prox --step 3 --epochs 20 --draw head-blocks";
  self.given = &command->given;
  self.over_ranks = OverRanks::all;
  self.run = [command] { return run_plan(*command); };
  return self;
}

}  // namespace truemax
