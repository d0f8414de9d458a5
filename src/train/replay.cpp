#include "train/replay.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "core/error.hpp"
#include "core/text.hpp"
#include "model/parse_json.hpp"
#include "train/plan_json.hpp"

namespace truemax {
namespace {

using Json = nlohmann::json;

UserError bad_log(const std::string& path, std::size_t line, const std::string& found) {
  return file_error(path, line, found, "give --replay the log of a run that came to its end");
}

// `newton`: the run had Newton's method after its steps, or instead of them.
Recording recording_of(const std::string& path, std::size_t line, const Json& end, bool newton) {
  Recording recording;
  if (!end.contains("steps") || !end["steps"].is_number_unsigned())
    throw bad_log(path, line, "the end of the run does not say its steps");
  recording.steps = end["steps"];
  if (recording.steps == 0 && !newton)
    throw file_error(
        path, line,
        end.value("interrupted", Json()) == true
            ? "the run was stopped before its first step of training, so there is nothing to repeat"
            : "the run took no step, so there is nothing to repeat",
        "train without --replay, or give the log of a run that came to its end");
  if (!end.contains("segments")) return recording;
  const auto bad = [&] {
    return bad_log(path, line, "the segments are not increasing steps with a step size each");
  };
  if (!end["segments"].is_array()) throw bad();
  for (const Json& s : end["segments"]) {
    if (!s.is_object() || !s.contains("first_step") || !s["first_step"].is_number_unsigned() ||
        !s.contains("step") || !s["step"].is_number())
      throw bad();
    const Segment segment{s["first_step"], s["step"]};
    const auto& before = recording.segments;
    const bool follows =
        before.empty() ? segment.first_step == 0 : segment.first_step > before.back().first_step;
    if (!follows || !(segment.step > 0 && segment.step <= kLargestStep)) throw bad();
    recording.segments.push_back(segment);
  }
  return recording;
}

// The steps of a GPU are not taken in the same order again.
void require_cpu(const std::string& path, const Json& event) {
  const Json device = event.value("device", Json());
  if (device.is_null()) return;
  std::string name = "a GPU";
  if (device.is_object() && device.value("name", Json()).is_string())
    name += " (" + printable(device["name"].get<std::string>()) + ")";
  throw UserError(fmt::format(
      "--replay {}: that run was on {} and cannot be repeated bit for bit; train with its options instead",
      path, name));
}

// A run may be resumed with more epochs, or fewer.
void resume_with(const std::string& path, std::size_t line, const Json& event, Json& config) {
  const Json options = event.value("options", Json::object());
  if (!options.is_object()) throw bad_log(path, line, "the 'resume' event has options that are no object");
  const Json epochs = options.value("epochs", Json());
  if (epochs.is_null() || epochs == config.value("epochs", Json())) return;
  if (config.value("schedule", Json()) == "linear")
    throw file_error(path, line, "the run was resumed with other --epochs, and its step fell over both",
                     "give the log of a run whose epochs stayed the same");
  config["epochs"] = epochs;
}

}  // namespace

LoggedRun read_logged_run(const std::string& path) {
  std::error_code error;
  std::ifstream in(path);
  if (!in || !std::filesystem::is_regular_file(path, error))
    throw UserError(fmt::format("--replay {}: this file cannot be read; give the log of a run", path));
  LoggedRun run;
  run.path = path;
  bool started = false, ended = false;
  std::size_t number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    bool twice = false;
    const Json event = parse_json_once(text, &twice);
    if (twice) throw bad_log(path, number, "this event names a key twice");
    if (!event.is_object() || !event.contains("event") || !event["event"].is_string())
      throw bad_log(path, number, fmt::format("{} is not an event of a run", in_quotes(text.substr(0, 40))));
    if (ended) throw bad_log(path, number, "there are lines after the end of the run");
    const std::string kind = event["event"];
    if ((kind == "start") == started) throw bad_log(path, number, "a log begins with one start of a run");
    if (kind == "start") {
      started = true;
      if (!event.contains("config") || !event["config"].is_object() || !event.contains("data") ||
          !event["data"].is_object())
        throw bad_log(path, number, "the start of the run does not say its options and data");
      require_cpu(path, event);
      run.config = event["config"];
      run.data = event["data"];
      if (event.contains("valid_data")) run.valid_data = event["valid_data"];
      if (event.contains("init_hash")) run.init_hash = event["init_hash"];
      run.plan = event.value("plan", Json());
    } else if (kind == "resume") {
      require_cpu(path, event);
      resume_with(path, number, event, run.config);
    } else if (kind == "chosen") {
      if (!event.contains("config") || !event["config"].is_object())
        throw bad_log(path, number, "the 'chosen' event has no options");
      run.config = event["config"];
      run.plan = event.value("plan", Json());
    } else if (kind == "end") {
      ended = true;
      // A run that was stopped did not come to it.
      if (event.value("interrupted", Json()) == true) run.config["newton"] = std::uint64_t{0};
      const Json newton = run.config.value("newton", Json());
      run.recording = recording_of(path, number, event, newton.is_number() && newton != 0);
    }
  }
  if (!ended) throw bad_log(path, number, "the log has no end: the run was killed, or is still running");
  return run;
}

RunOptions replayed_options(RunOptions beside, const std::vector<std::string>& given) {
  RunOptions options;
  OptionTable table, beside_table;
  options.describe(table);
  beside.describe(beside_table);
  bool other_test = false;
  for (const std::string& name : given) {
    const Option* option = table.find(name);
    if (option == nullptr) continue;  // only of the command, such as --quiet
    if (option->tags.replay == Replay::logged)
      throw UserError(fmt::format(
          "--{0}: with --replay it comes from the log; leave --{0} out, or train without --replay", name));
    other_test |= option->tags.replay == Replay::test;
  }
  const LoggedRun logged = read_logged_run(beside.replay);
  Json config = logged.config;
  config.erase("train");
  for (const Option& option : table.options())
    if (option.tags.replay == Replay::free || (option.tags.replay == Replay::test && other_test))
      config.erase(option.name);
  try {
    table.from_json(config);
  } catch (const UserError& error) {
    throw UserError(fmt::format("--replay {}: {}", beside.replay, error.what()));
  }
  if (options.asked.lock_free.value_or(false))
    throw UserError(
        fmt::format("--replay {}: that run was lock-free and cannot be repeated; train with its options "
                    "instead",
                    beside.replay));
  if (device::Choice::parse(beside.asked.device.value_or(device::kCpu)).kind == device::Kind::cuda)
    throw UserError(fmt::format(
        "--device {}: --replay repeats a run bit for bit, which only the CPU does; leave one of the two out",
        *beside.asked.device));
  for (const std::string& name : given)
    if (const Option* option = beside_table.find(name)) table.find(name)->from_json(option->to_json());
  options.asked.device = device::kCpu;                                                   // not auto
  if (options.asked.encoder.value_or(EncoderKind::automatic) == EncoderKind::automatic)  // an older log
    options.asked.encoder = options.asked.hidden.value_or(0) > 0 ? EncoderKind::bag : EncoderKind::linear;
  options.train_path = beside.train_path;
  return options;
}

namespace {

void require_same_data(const LoggedRun& logged, PreparedRun& run) {
  const auto refuse = [&](const std::string& why) {
    throw UserError(fmt::format(
        "--replay {}: its run had other data: {}; give the files it was trained and validated on, or train "
        "without --replay",
        logged.path, why));
  };
  if (logged.init_hash.is_string() && logged.init_hash != run.init_hash)
    throw UserError(fmt::format(
        "--replay {}: the model of --init is not the one that its run started from; restore that file",
        logged.path));
  nlohmann::ordered_json here = data_json(run.data);
  if (!logged.data.contains("examples")) here["rows"] = here["examples"];  // as in older logs
  for (const char* name : {"rows", "features", "classes", "nonzeros"})
    if (!logged.data.contains(name) || logged.data[name] != Json(here[name]))
      refuse(fmt::format("{} {} there, {} here", logged.data.contains(name) ? logged.data[name].dump() : "no",
                         name, here[name].dump()));
  if (!logged.data.contains("hash")) {
    run.notes.push_back(fmt::format(
        "--replay {}: this log is from an older truemax and has no hash of its data; only their size was "
        "checked",
        logged.path));
    return;
  }
  if (logged.data["hash"] != run.data_hash)
    refuse("as many rows, features, classes and non-zeros, but not the same ones in the same order");
  const bool had_valid = logged.valid_data.is_object();
  if (had_valid != run.valid.has_value() ||
      (had_valid && logged.valid_data.value("hash", Json()) != run.valid_hash))
    refuse("the validation rows are not the same");
}

}  // namespace

void require_same_run(const LoggedRun& logged, PreparedRun& run) {
  require_same_data(logged, run);
  try {
    verify(logged.plan, *run.plan);
  } catch (const UserError& error) {
    throw UserError(fmt::format("--replay {}: {}", logged.path, error.what()));
  }
}

Json plan_in(const std::string& lines) {
  Json plan;
  std::istringstream in(lines);
  for (std::string text; std::getline(in, text);) {
    if (!text.starts_with(R"({"event":"start")") && !text.starts_with(R"({"event":"chosen")")) continue;
    bool twice = false;
    const Json event = parse_json_once(text, &twice);
    if (event.is_object()) plan = event.value("plan", Json());
  }
  return plan;
}

}  // namespace truemax
