// From what was asked to a run that can begin.
#pragma once

#include "train/prepared_run.hpp"

namespace truemax {

enum class Aim {
  run,
  plan,   // to know what the run would do: names of outputs are neither claimed nor chosen
  facts,  // the same, with all facts of the data, also those that this run does not ask for
};

// Reads and checks everything; writes only its claims. On return options.model and options.log are names or
// "none".
PreparedRun prepare_run(RunOptions options, Aim aim = Aim::run);

}  // namespace truemax
