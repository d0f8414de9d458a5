// Run logs as a page: what was run and what came out as a table, log-loss and error against epochs and time
// as curves, one section for each data set.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace truemax {

struct ReportedRun {
  std::string path;
  nlohmann::json config;                    // options, of the start event
  nlohmann::json data;                      // rows, features, classes, of the same
  std::vector<nlohmann::json> evaluations;  // those events
  std::string ending = "did not end";       // "" where all of it was run; or: stopped, diverged
};

// Reads the log of a run of `truemax train`, also of one that has not ended. Throws UserError.
ReportedRun read_reported_run(const std::string& path);

// The data of page_html().
nlohmann::ordered_json run_page(std::span<const ReportedRun> runs);

}  // namespace truemax
