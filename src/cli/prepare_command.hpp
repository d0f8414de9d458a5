// What `truemax train` and `truemax plan` do alike: from the words of the command line to a run that is
// decided, and what they say of it.
#pragma once

#include <string>
#include <vector>

#include "train/prepare.hpp"

namespace truemax {

// `given`: the names of the options typed.
PreparedRun prepare_command(RunOptions options, const std::vector<std::string>& given, Aim aim = Aim::run);

// The rows that were read, a line for each set.
std::string sets_text(const PreparedRun& run);
// The card, and what the run begins from, if not from nothing.
std::string beginning_text(const PreparedRun& run);

}  // namespace truemax
