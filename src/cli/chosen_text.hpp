// What a search has chosen, in words.
#pragma once

#include <string>

#include "train/run.hpp"

namespace truemax {

// "chosen  256 learnt features: ...", then "chosen  step 0.004, ridge 6, 10 epochs (...)".
std::string chosen_text(const PreparedRun& run, const FinishedRun& finished);

}  // namespace truemax
