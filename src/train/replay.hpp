// Reads a run log to repeat its run: all options, and what the clock decided.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/prepared_run.hpp"
#include "train/schedule.hpp"

namespace truemax {

struct LoggedRun {
  std::string path;
  nlohmann::json config, data, valid_data;  // from its start; valid_data: null if it had none
  nlohmann::json init_hash;                 // of the model it started from; null: none
  nlohmann::json plan;                      // of the fit; null in older logs
  Recording recording;
};

// Throws UserError if the file is not the log of a finished run.
LoggedRun read_logged_run(const std::string& path);

// The options in the log beside.replay. Options given with it that change no result are taken over; others
// are refused.
RunOptions replayed_options(RunOptions beside, const std::vector<std::string>& given);

// Throws UserError if the data or the plan are not those of the logged run; adds a note if the log cannot
// tell.
void require_same_run(const LoggedRun& logged, PreparedRun& run);

// The plan of the fit in lines of a log, or before trials have ended that of the start; null: there is none.
nlohmann::json plan_in(const std::string& lines);

}  // namespace truemax
