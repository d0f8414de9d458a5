// From what was asked to a run that can begin.
#pragma once

#include "train/prepared_run.hpp"

namespace truemax {

// Reads and checks everything; writes only its claims. On return options.model and options.log are names or
// "none". `begins` false: only to know what the run would do; names of outputs are neither claimed nor
// chosen.
PreparedRun prepare_run(RunOptions options, bool begins = true);

}  // namespace truemax
