// Run logs as a page: one section per data set, with a table of runs and results, and curves of log-loss and
// error against epochs and time.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace truemax {

struct ReportedRun {
  std::string path;
  nlohmann::json config;                    // options of the fit, or before it those it started with
  nlohmann::json plan;                      // of the same event; null in older logs
  nlohmann::json data;                      // rows, features, classes, from the same event
  std::vector<nlohmann::json> evaluations;  // evaluate events
  std::string ending = "unfinished";        // "" if it ran to its end; or: stopped, diverged
};

// Reads the log of a run of `truemax train`, even if the run is not finished. Throws UserError.
ReportedRun read_reported_run(const std::string& path);

// The data of page_html().
nlohmann::ordered_json run_page(std::span<const ReportedRun> runs);

}  // namespace truemax
