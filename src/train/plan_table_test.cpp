// The table of plans: what hundreds of option sets lead to on known data and machines. tests/data/plans.jsonl
// has what the program decided before decisions moved to resolve(), tests/data/plan_facts.jsonl what its data
// are; both are made by scripts in tests/. No rows are read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/error.hpp"
#include "rule/methods.hpp"
#include "train/bind.hpp"
#include "train/plan_json.hpp"
#include "train/plan_text.hpp"
#include "train/resolve.hpp"

namespace truemax {
namespace {

using Json = nlohmann::json;

// What differs on purpose, and why.
const std::map<std::string, const char*>& intended() {
  constexpr const char* kRidge = "memory is counted with the ridge that trials start from, not without any";
  constexpr const char* kLearntRanks =
      "learnt features of several ranks do not draw as far ahead as groups of rows do";
  constexpr const char* kShare =
      "the rows without those set aside are counted, which facts of all rows do not tell";
  static const std::map<std::string, const char*> all{
      {"newton closed by schedule and lock-free", kRidge},
      {"group auto", kRidge},
      {"group auto wide", kRidge},
      {"group auto head", kRidge},
      {"group of auto more than the rows", kRidge},
      {"lock-free auto", kRidge},
      {"lock-free auto wide", kRidge},
      {"lock-free one thread", kRidge},
      {"1 ranks auto", kRidge},
      {"2 ranks auto", kRidge},
      {"2 ranks device auto", kRidge},
      {"2 ranks seconds", kRidge},
      {"2 ranks without memory", kRidge},
      {"2 ranks with a card", kRidge},
      {"2 ranks stream", kRidge},
      {"2 ranks auto wide", kLearntRanks},
      {"2 ranks hidden", kLearntRanks},
      {"2 ranks shard-embedding", kLearntRanks},
      {"2 ranks text", kLearntRanks},
      {"2 ranks triples", kLearntRanks},
      {"2 ranks without memory for hidden", kLearntRanks},
      {"2 ranks with little memory", kLearntRanks},
      {"memory of 2 ranks without room for learnt features", kLearntRanks},
      {"valid share", kShare},
      {"valid patience", kShare},
      {"valid patience and seconds", kShare},
      {"valid eval-every", kShare},
      {"stream valid-share", kShare},
      {"memory 150M of vast --method prox --epochs 2 --valid-share 0.1 --patience 1", kShare},
      {"memory 300M of vast --method prox --epochs 2 --valid-share 0.1 --patience 1", kShare},
      {"draw rivals of auto", "--rivals is kept where the draw is chosen"},
      {"draw rivals and target of auto", "--rivals is kept where the draw is chosen"},
      {"newton given with epochs", "trials before Newton's method find no step"},
      {"valid patience without end", "a run that only --patience ends says so"},
      {"memory that a test set takes from learnt features",
       "vectors keep one mean of squares each where memory is short also because of test rows"},
      {"check wrongs of the data and the machine", "options are looked at before a card is opened"},
      {"method lbfgs with options of steps", "notes come in another order"},
      {"init normalized on wide --normalize none --method prox --epochs 1", "its note comes from reading"},
  };
  return all;
}

std::vector<Json> lines_of(const std::string& name) {
  std::ifstream in(TRUEMAX_SOURCE_DIR "/tests/data/" + name);
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::uint64_t bytes_of(const std::string& text) {
  std::uint64_t bytes = 0;
  OptionTable table;
  table.size_alias("memory-limit", &bytes, "available", "");
  table.find("memory-limit")->parse(text);
  return bytes;
}

// As tests/plan_facts.py says how rows are read.
Json reading_of(const Json& options, const std::string& data) {
  static const std::set<std::string> kReading{"format",    "labels",        "row-weights",  "class-weights",
                                              "normalize", "hash-features", "max-features", "max-rows",
                                              "context",   "min-count",     "test",         "test-label-file",
                                              "valid",     "init",          "stream",       "stream-window"};
  Json reading = Json::object();
  for (const auto& [name, value] : options.items())
    if (kReading.count(name) > 0) reading[name] = value;
  const std::string encoder = options.value("encoder", "");
  const bool text = options.value("format", "") == "text" || data == "text.cache";
  if (text && (encoder == "context" || encoder == "cbow" || encoder == "skipgram"))
    reading["encoder"] = encoder;
  return reading;
}

// Refused by who reads rows or files, or opens a card.
bool is_elsewhere(const std::string& refusal) {
  for (const char* begin :
       {"--valid far-wide.txt: row", "--test far-wide.txt: row", "--encoder: this is an option of plain",
        "--valid-share 0.1: the validation rows are",
        "--no-eval-train: ", "--resume: ", "--checkpoint-every: ", "--device cuda"})
    if (refusal.starts_with(begin)) return true;
  return false;
}

struct Known {
  Problem problem;
  std::optional<Start::Shape> model;
};

struct Outcome {
  std::string refused, method, memory;
  std::uint64_t needed = 0;
  std::vector<std::string> notes;
  nlohmann::ordered_json asked;  // with "auto" for what is open
  std::optional<Recipe> recipe;
};

Asked asked_of(const Json& options, const std::string& threads) {
  Asked asked;
  OptionTable table;
  asked.describe(table);
  table.find("threads")->parse(threads);
  for (const auto& [name, value] : options.items())
    if (const Option* option = table.find(name)) option->parse(value.get<std::string>());
  return asked;
}

Machine machine_of(const Json& machine) {
  Machine m;
  m.threads = machine["threads"];
  m.memory = bytes_of(machine["memory-limit"]);
  const std::size_t ranks = machine["ranks"];
  m.ranks = std::max<std::size_t>(1, ranks), m.in_groups = ranks > 0;
  return m;
}

// Of the emulated card (src/cuda/emulated_runtime.hpp).
void open_card(Machine& machine, const Json& how) {
  machine.knows_card = true;
  if (how["card"] == "one" || how["card"] == "two")
    machine.card = Machine::Card{"the CPU", std::uint64_t{64} << 20};
}

Outcome decide(const Json& one, const Known& facts) {
  Outcome outcome;
  try {
    const Json& options = one["options"];
    const Asked asked = asked_of(options, std::to_string(one["machine"]["threads"].get<int>()));
    const Problem& problem = facts.problem;
    Machine machine = machine_of(one["machine"]);
    Start start;
    start.model = facts.model, start.name = options.value("init", "");
    const bool words = problem.is_text();
    const Sniffed sniffed{.encoder = words             ? EncoderKind::context
                                     : problem.triples ? EncoderKind::complex
                                                       : EncoderKind::automatic,
                          .triples = options.value("format", "") == "triples",
                          .has_valid = options.contains("valid"),
                          .in_groups = machine.in_groups};
    const Reading reading = resolve_reading(asked, sniffed, start);
    outcome.asked = reading.to_json();
    if (reading.draft.device != device::kAuto && reading.draft.on_gpu()) open_card(machine, one["machine"]);
    Resolved resolved = resolve(asked, problem, machine, start);
    if (resolved.needs_card) {
      open_card(machine, one["machine"]);
      resolved = resolve(asked, problem, machine, start);
    }
    const Plan plan = bind(resolved.recipe, problem, machine);
    outcome.recipe = plan.recipe;
    outcome.method = method_text(plan.recipe).substr(8);
    outcome.method.pop_back();
    outcome.notes = resolved.notes;
    outcome.memory = plan.memory.to_text();
    outcome.needed = plan.memory.total();
    plan.memory.require();
  } catch (const UserError& error) {
    outcome.refused = error.what();
  }
  return outcome;
}

// Options that trials find, which the recipe does not have yet.
std::set<std::string> found_by_trials(const Recipe& recipe) {
  std::set<std::string> names;
  const Sought& s = recipe.sought;
  const auto add = [&](bool sought, std::initializer_list<const char*> options) {
    if (sought) names.insert(options.begin(), options.end());
  };
  add(s.step, {"step"}), add(s.ridge, {"ridge", "ridge-by-spread"}), add(s.epochs, {"epochs"});
  add(s.hidden, {"hidden"}), add(s.layers, {"layers"}), add(s.tied, {"tied"}), add(s.dropout, {"dropout"});
  return names;
}

class PlanTable : public testing::Test {
 protected:
  void SetUp() override {
    for (const Json& line : lines_of("plan_facts.jsonl"))
      if (line.contains("problem")) {
        Known& facts = facts_[line["data"].get<std::string>() + line["reading"].dump()];
        facts.problem = problem_of_json(line["problem"]);
        if (line.contains("start")) facts.model = shape_of_json(line["start"]);
      }
    for (Json& line : lines_of("plans.jsonl")) {
      if (line.contains("defaults")) defaults_ = line["defaults"];
      if (line.contains("case")) cases_.push_back(std::move(line));
    }
  }
  const Known* facts_of(const Json& one) const {
    const std::string data = one["data"];
    const auto found = facts_.find(data + reading_of(one["options"], data).dump());
    return found == facts_.end() ? nullptr : &found->second;
  }

  std::map<std::string, Known> facts_;
  std::vector<Json> cases_;
  Json defaults_;
};

TEST_F(PlanTable, IsWhatItWas) {
  std::size_t compared = 0, elsewhere = 0, without = 0;
  std::set<std::string> differ;
  for (const Json& one : cases_) {
    const Known* const facts = facts_of(one);
    if (facts == nullptr) {
      ++without;
      continue;
    }
    const std::string name = one["case"];
    const Outcome now = decide(one, *facts);
    std::string why;
    const auto require = [&](const char* what, const std::string& before, const std::string& after) {
      if (before != after) why += fmt::format("\n  {}:\n    was {}\n    is  {}", what, before, after);
    };
    const bool refused = one.contains("refused") && !one.contains("method");
    if (refused && now.refused.empty() && is_elsewhere(one["refused"])) {
      ++elsewhere;
      continue;
    }
    ++compared;
    // Before the plan, or as it was in the search or on the card.
    if (!now.refused.empty() && one.value("refused", "") == now.refused) continue;
    require("refusal", refused ? one["refused"] : "", now.refused);
    if (!refused && now.refused.empty()) {
      std::string method = one["method"];
      if (method.starts_with("Newton's, ")) method.replace(0, 8, "newton");  // one name everywhere
      require("method", method, now.method);
      require("memory", one["memory"], now.memory);
      require("bytes", one["needed"].dump(), fmt::format("{}", now.needed));
      require("notes", one["notes"].dump(), Json(now.notes).dump());
      // Ranks decide these two before the rest.
      const auto of_ranks = [&](const std::string& option) {
        return one["machine"]["ranks"] > 0 && (option == "device" || option == "group");
      };
      const nlohmann::ordered_json recipe = to_json(*now.recipe);
      for (const auto& [option, value] : defaults_.items())
        require(option.c_str(), one["start"].value(option, value).dump(),
                (of_ranks(option) ? recipe : now.asked)[option].dump());
      if (one.contains("chosen")) {
        const Json config = to_json(now.recipe->found(facts->problem.has_valid));
        const std::set<std::string> found = found_by_trials(*now.recipe);
        const bool learnt_won =
            now.recipe->sought.encoder && one["chosen"].value("hidden", Json("none")) != "none";
        if (!learnt_won)
          for (const auto& [option, value] : defaults_.items())
            if (found.count(option) == 0)
              require(option.c_str(), one["chosen"].value(option, value).dump(), config[option].dump());
      }
    }
    if (why.empty()) continue;
    differ.insert(name);
    EXPECT_TRUE(intended().count(name) > 0) << name << one["options"].dump() << why;
  }
  for (const auto& [name, why] : intended())
    EXPECT_TRUE(differ.count(name) > 0) << name << " does not differ";
  RecordProperty("compared", static_cast<int>(compared));
  EXPECT_GE(compared, 500U) << elsewhere << " are refused elsewhere, " << without << " have no facts";
}

}  // namespace
}  // namespace truemax
