#include "report/run_page.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/json_depth.hpp"

namespace truemax {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

UserError bad_log(const std::string& path, std::size_t line, const std::string& found) {
  return file_error(path, line, found, "give the logs of runs of 'truemax train'");
}

std::string text_of(const Json& object, const char* name) {
  return object.contains(name) && object[name].is_string() ? object[name].get<std::string>() : "";
}

// A number, or null, which the page leaves blank.
OrderedJson number_of(const Json& object, const char* name) {
  if (object.contains(name) && object[name].is_number()) return object[name];
  return nullptr;
}
OrderedJson number_of(const Json& event, const char* rows, const char* name) {
  return event.contains(rows) && event[rows].is_object() ? number_of(event[rows], name)
                                                         : OrderedJson(nullptr);
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// The name of a curve and of its switch.
std::string method_of(const ReportedRun& run) {
  const Json newton = run.config.value("newton", Json()), epochs = run.config.value("epochs", Json());
  if (newton.is_number() && newton > 0 && epochs == 0) return "newton";
  const std::string method = text_of(run.config, "method");
  return method.empty() ? "unnamed" : method;
}

std::string solver_of(const ReportedRun& run) {
  return run.plan.is_object() ? text_of(run.plan, "solver") : "";
}

// L-BFGS and Newton's method find the lengths of their steps.
bool has_step(const ReportedRun& run) {
  const std::string solver = solver_of(run);
  return solver != "lbfgs" && solver != "newton";
}

// "1 x 5 uniform"
std::string shape_of(const ReportedRun& run) {
  const std::string solver = solver_of(run);
  if (!has_step(run)) return "all x all";
  const std::string rows = number_of(run.config, "rows-per-step").dump();
  if (solver == "all-classes" || solver == "adam") return rows + " x all";
  return fmt::format("{} x {} {}", rows, number_of(run.config, "classes-per-step").dump(),
                     text_of(run.config, "draw"));
}

OrderedJson table_of(std::span<const ReportedRun* const> runs, std::size_t section) {
  OrderedJson rows = OrderedJson::array();
  for (const ReportedRun* run : runs) {
    const Json last = run->evaluations.empty() ? Json::object() : run->evaluations.back();
    rows.push_back({file_name(run->path), method_of(*run),
                    has_step(*run) ? number_of(run->config, "step") : OrderedJson(nullptr),
                    number_of(run->config, "ridge"), shape_of(*run), solver_of(*run),
                    number_of(run->config, "seed"), number_of(last, "epoch"),
                    number_of(last, "train_seconds"), number_of(last, "train", "log_loss"),
                    number_of(last, "train", "error"), number_of(last, "valid", "log_loss"),
                    number_of(last, "valid", "error"), number_of(last, "test", "log_loss"),
                    number_of(last, "test", "error"), run->ending});
  }
  return {
      {"id", fmt::format("runs-{}", section)},
      {"title", "Runs"},
      {"columns",
       {"log", "method", "step", "ridge", "n x m, draw", "solver", "seed", "epochs", "seconds",
        "train log-loss", "train error", "valid log-loss", "valid error", "test log-loss", "test error", ""}},
      {"rows", rows},
      {"note", "Last evaluation of each run, and the options of its fit."}};
}

// One curve per run; no plot if no run has values for it.
void add_plot(OrderedJson& plots, std::span<const ReportedRun* const> runs, std::size_t section,
              const char* rows, const char* value, const char* along) {
  OrderedJson lines = OrderedJson::array();
  bool above_zero = true;
  for (const ReportedRun* run : runs) {
    OrderedJson points = OrderedJson::array();
    for (const Json& event : run->evaluations) {
      const OrderedJson x = number_of(event, along), y = number_of(event, rows, value);
      if (x.is_null() || y.is_null()) continue;
      points.push_back({x, y});
      above_zero &= y.get<double>() > 0;
    }
    if (!points.empty())
      lines.push_back({{"name", fmt::format("{}, {}", method_of(*run), file_name(run->path))},
                       {"group", method_of(*run)},
                       {"dashed", false},
                       {"points", points}});
  }
  if (lines.empty()) return;
  const bool time = std::string_view(along) == "train_seconds";
  const std::string what = std::string_view(value) == "error" ? "error" : "log-loss";
  plots.push_back(
      {{"id", fmt::format("{}-{}-{}-{}", rows, value, time ? "seconds" : "epochs", section)},
       {"title", fmt::format("{} {} against {}", rows, what, time ? "seconds of training" : "epochs")},
       {"x", time ? "seconds" : "epoch"},
       {"y", what},
       {"log_x", false},
       {"log_y", what == "log-loss" && above_zero},
       {"lines", lines}});
}

}  // namespace

ReportedRun read_reported_run(const std::string& path) {
  std::error_code error;
  std::ifstream in(path);
  if (!in || std::filesystem::is_directory(path, error))
    throw file_error(path, 0, "cannot be read as a file", "give the logs of runs of 'truemax train'");
  ReportedRun run;
  run.path = path;
  std::size_t number = 0;
  bool started = false;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (nested_too_deeply(line)) throw bad_log(path, number, "this line is nested too deeply");
    const Json event = Json::parse(line, nullptr, false);
    if (event.is_discarded()) {
      if (in.peek() == std::ifstream::traits_type::eof() && started)
        break;  // the line is still being written
      throw bad_log(path, number, "this line is not a JSON object");
    }
    if (!event.is_object() || !event.contains("event") || !event["event"].is_string())
      throw bad_log(path, number, "this is not an event of a run log");
    const std::string kind = event["event"];
    if (kind == "start") {
      if (started) throw bad_log(path, number, "a second run starts here");
      if (!event.contains("config") || !event["config"].is_object())
        throw bad_log(path, number, "the start of the run has no config");
      run.config = event["config"];
      run.data = event.value("data", Json::object());
      run.plan = event.value("plan", Json());
      started = true;
    } else if (!started) {
      throw bad_log(path, number, "the log does not begin with the start of a run");
    } else if (kind == "chosen") {
      if (event.contains("config") && event["config"].is_object()) run.config = event["config"];
      run.plan = event.value("plan", Json());
    } else if (kind == "evaluate") {
      run.evaluations.push_back(event);
    } else if (kind == "end") {
      const bool stopped = event.contains("interrupted") && event["interrupted"] == true;
      run.ending = !text_of(event, "diverged").empty() ? "diverged" : stopped ? "stopped" : "";
    }
  }
  if (!started) throw bad_log(path, 0, "the log contains no run");
  return run;
}

OrderedJson run_page(std::span<const ReportedRun> runs) {
  std::vector<std::pair<std::string, std::vector<const ReportedRun*>>> sets;  // in order of appearance
  for (const ReportedRun& run : runs) {
    const std::string name = text_of(run.config, "train");
    auto at = sets.begin();
    while (at != sets.end() && at->first != name) ++at;
    if (at == sets.end()) at = sets.insert(at, {name, {}});
    at->second.push_back(&run);
  }
  OrderedJson sections = OrderedJson::array();
  for (std::size_t s = 0; s < sets.size(); ++s) {
    const auto& [name, of_set] = sets[s];
    const Json& data = of_set.front()->data;
    OrderedJson plots = OrderedJson::array();
    for (const char* along : {"epoch", "train_seconds"})
      for (const char* rows : {"train", "valid", "test"}) add_plot(plots, of_set, s, rows, "log_loss", along);
    for (const char* rows : {"train", "valid", "test"}) add_plot(plots, of_set, s, rows, "error", "epoch");
    sections.push_back(
        {{"title", file_name(name)},
         {"text",
          {fmt::format("{}: {} rows, {} features, {} classes.", name, number_of(data, "rows").dump(),
                       number_of(data, "features").dump(), number_of(data, "classes").dump())}},
         {"tables", {table_of(of_set, s)}},
         {"plots", plots}});
  }
  return {{"title", runs.size() == 1 ? "A run of truemax" : fmt::format("{} runs of truemax", runs.size())},
          {"text", OrderedJson::array()},
          {"sections", sections}};
}

}  // namespace truemax
