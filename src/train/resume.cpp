#include "train/resume.hpp"

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/files.hpp"
#include "data/input.hpp"
#include "model/model.hpp"
#include "ranks/ranks.hpp"
#include "train/plan_json.hpp"
#include "train/replay.hpp"

namespace truemax {
namespace {

UserError other_run(const std::string& path, const std::string& why) {
  return UserError(
      fmt::format("--resume: {} is the checkpoint of another run: {}; give the data and options of that run, "
                  "or start a new one with another --checkpoint",
                  path, why));
}

std::string shown(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Of options that change the result. Files are compared by what they hold, not by name.
std::vector<std::string> differences(const RunOptions& options, const nlohmann::ordered_json& asked,
                                     const nlohmann::ordered_json& there) {
  RunOptions copy = options, fresh;
  OptionTable table, defaults;
  copy.describe(table);
  fresh.describe(defaults);
  const nlohmann::ordered_json training = to_json(Recipe());
  std::vector<std::string> found;
  for (const Option& option : table.options()) {
    if (option.tags.replay == Replay::free || option.value_name == "FILE" || option.name == "epochs")
      continue;
    const nlohmann::ordered_json here = nlohmann::ordered_json::parse(
        asked[option.name].dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    if (!there.contains(option.name)) {  // of a version that did as the default says
      const nlohmann::ordered_json usual =
          training.contains(option.name) ? training[option.name]
                                         : nlohmann::ordered_json(defaults.find(option.name)->to_json());
      if (here != usual) found.push_back(fmt::format("--{} is not known there", option.name));
    } else if (there[option.name] != here)
      found.push_back(
          fmt::format("--{} is {} there and {} here", option.name, shown(there[option.name]), shown(here)));
  }
  // Values that were chosen may be those that are said now, or the other way round.
  if (found.empty() && there.contains("open") && there["open"] != asked["open"])
    found.emplace_back("options that were chosen there are given here, or the other way round");
  return found;
}

std::uint64_t group_of(const nlohmann::ordered_json& asked) {
  const auto group = asked.find("group");
  return group != asked.end() && group->is_number_unsigned() ? group->get<std::uint64_t>() : 0;
}

// Ranks cannot take the steps of a run without groups. Learnt features have none anyway.
void require_groups_there(const std::string& path, const SavedRun& saved, const Recipe& here) {
  if (!ranks().in_groups() || group_of(saved.asked) > 0) return;
  const bool learnt =
      saved.fitting ? saved.chosen.value("hidden", nlohmann::ordered_json()) != "none" : here.learnt();
  if (learnt) return;
  throw UserError(
      fmt::format("--resume: {} is of a run of truemax without groups of rows, which the ranks of "
                  "truemax-mpi take; go on with "
                  "truemax, or start a new run with another --checkpoint",
                  path));
}

// Whether there are outputs where a run that chose their names itself would write, and they are not its own.
// Logs are compared by their first line; a model without one by its options, since the same options on the
// same data would give the same model.
bool is_of_another_run(const SavedRun& saved) {
  if (saved.model == "none") return false;
  if (saved.log != "none" && is_there(saved.log)) {
    std::ifstream log(saved.log, std::ios::binary);
    std::string first;
    std::getline(log, first);
    return first != saved.lines.substr(0, saved.lines.find('\n'));
  }
  if (!is_model_there(saved.model)) return false;
  if (!saved.fitting) return true;  // it has written none
  try {
    const nlohmann::ordered_json there = read_model_metadata(saved.model)["options"];
    for (const auto& [name, value] : there.items())
      if (name != "epochs" && saved.chosen.contains(name) && saved.chosen[name] != value) return true;
    return false;
  } catch (const UserError&) {
    return true;  // no model at all
  }
}

}  // namespace

void require_checkpoint_options(const RunOptions& options) {
  if (options.checkpoint.empty()) {
    if (options.resume)
      throw UserError("--resume: it needs the checkpoint to go on from; add --checkpoint FILE");
    if (options.checkpoint_every != kDefaultCheckpointEvery)
      throw UserError("--checkpoint-every: there is no file for checkpoints; add --checkpoint FILE");
    return;
  }
  if (options.checkpoint == "-" || options.checkpoint == "none")
    throw UserError(fmt::format(
        "--checkpoint takes the name of a file, not '{}'; give a name, or leave it out", options.checkpoint));
  parse_save_every(options.checkpoint_every);
  ranks().only_first([&] { require_writable(options.checkpoint, 0, "checkpoint"); });
}

std::uint64_t group_to_continue(const RunOptions& options) {
  if (!options.resume || options.checkpoint.empty()) return 0;
  std::uint64_t group = 0;
  if (ranks().first()) group = group_of(options_asked_in(options.checkpoint));
  return ranks().broadcast_value(group);
}

void open_checkpoint(RunOptions& options, bool claims, const std::function<Reading()>& read,
                     PreparedRun& run) {
  if (options.checkpoint.empty()) return;
  const std::string& path = options.checkpoint;
  ranks().only_first([&] {
    if (!claims) return;
    std::optional<Claim> claim = Claim::take(path);
    if (!claim)
      throw UserError(fmt::format(
          "--checkpoint {}: another run is still writing there; wait for it, or give another name", path));
    run.checkpoint_claim = std::move(*claim);
  });
  run.save_every = parse_save_every(options.checkpoint_every);
  if (!ranks().broadcast_value(file_exists(path))) return;
  if (!options.resume)
    throw UserError(fmt::format(
        "--checkpoint {}: this file exists; add --resume to go on from it, or give another name", path));
  run.resumed.emplace(path);
  const SavedRun& saved = run.resumed->about();
  // "auto" was the free memory of that time, and decides the order of the rows.
  if (options.stream && options.stream_window == 0)
    if (const auto there = saved.asked.find("stream-window");
        there != saved.asked.end() && there->is_number_unsigned())
      options.stream_window = *there;
  if (!options.asked.device)
    if (const auto there = saved.asked.find("device"); there != saved.asked.end() && there->is_string())
      if (std::string text = device::Choice::parse(there->get_ref<const std::string&>()).text();
          text != device::kAuto)
        options.asked.device = std::move(text);
  run.reading = read();
  if (saved.init_hash.empty() != options.init.empty())
    throw other_run(path, options.init.empty() ? "it started from a model, and --init is missing here"
                                               : "it did not start from a model, and --init is given here");
  require_groups_there(path, saved, run.reading.draft);
  nlohmann::ordered_json asked = with_training(options, run.reading.to_json());
  asked["open"] = run.reading.open;
  const std::vector<std::string> differ = differences(options, asked, saved.asked);
  if (!differ.empty()) throw other_run(path, fmt::format("{}", fmt::join(differ, ", ")));
  const auto given_or = [](const std::string& given, const std::string& there) {
    return given.empty() ? there : given;
  };
  const bool same_model = options.model.empty() || options.model == saved.model;
  const auto named = saved.asked.find("model");
  run.unnamed = options.model.empty() && named != saved.asked.end() && named->is_string() &&
                named->get_ref<const std::string&>().empty();
  bool of_another = false;
  if (ranks().first()) of_another = run.unnamed && is_of_another_run(saved);
  if (ranks().broadcast_value(of_another)) {
    run.notes.push_back(
        fmt::format("{} is of another run by now, and stays; this one takes another name", saved.model));
    return;
  }
  options.model = given_or(options.model, saved.model);
  if (same_model) options.log = given_or(options.log, saved.log);
}

void require_room_for_checkpoints(const PreparedRun& run) {
  if (run.options.checkpoint.empty()) return;
  remove_stale_temporaries(run.options.checkpoint);  // their disk space may be needed
  const std::uint64_t one =                          // of all ranks
      ranks().size() * (run.plan->memory.weights + run.plan->memory.best) + run.plan->memory.rows;
  // A new one is written beside the old one.
  require_writable(run.options.checkpoint, run.resumed && run.resumed->about().fitting ? one : 2 * one,
                   "checkpoint");
}

void require_resumed_data(const PreparedRun& run) {
  const SavedRun& saved = run.resumed->about();
  const auto compare = [&](const char* what, const std::string& there, const std::string& here) {
    if (there == here) return;
    throw other_run(run.options.checkpoint, there.empty()  ? fmt::format("it has no {} rows", what)
                                            : here.empty() ? fmt::format("it has {} rows", what)
                                                           : fmt::format("its {} rows are others", what));
  };
  compare("training", saved.data_hash, run.data_hash);
  compare("validation", saved.valid_hash, run.valid_hash);
  compare("test", saved.test_hash, run.test_hash);
  if (saved.init_hash != run.init_hash)
    throw other_run(run.options.checkpoint, "it started from another model");
  try {
    verify(plan_in(saved.lines), *run.plan);
  } catch (const UserError& error) {
    throw UserError(fmt::format("--resume: {}: {}", run.options.checkpoint, error.what()));
  }
  const Recipe& recipe = run.recipe();
  const std::uint64_t steps = run.plan->steps_per_epoch;
  const std::uint64_t begun = (saved.steps + steps - 1) / steps;
  if (saved.fitting && recipe.newton == 0 && recipe.epochs < begun)
    throw UserError(fmt::format(
        "--epochs {0}: the run in {2} is in epoch {1} already; give --epochs {1} to end it there, or more",
        recipe.epochs, begun, run.options.checkpoint));
}

}  // namespace truemax
