// A run log read back, to repeat its run: all options, and what a clock decided.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/plan.hpp"
#include "train/run.hpp"

namespace truemax {

struct LoggedRun {
  std::string path;
  nlohmann::json config, data, valid_data;  // of its start; valid_data: null where it had none
  Recording recording;
};

// Throws UserError where the file is no log of a run that ended.
LoggedRun read_logged_run(const std::string& path);

// The options of the log beside.replay. Of those that were given beside it, those that change no result are
// taken over; others are refused.
RunOptions replayed_options(RunOptions beside, const std::vector<std::string>& given);

// Throws UserError where the data are not those of the logged run. Notes it where the log cannot tell.
void require_same_data(const LoggedRun& logged, PreparedRun& run);

}  // namespace truemax
