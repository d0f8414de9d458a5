// What a search has chosen, in words.
#pragma once

#include <string>

#include "train/run.hpp"

namespace truemax {

// The limits of the run: "50 epochs", "10 steps or 2 s".
std::string budget_text(const Recipe& o);
std::string ridge_text(const Recipe& o);
// "chosen  256 learnt features: ...", then "chosen  step 0.004, ridge 6, 10 epochs (...)".
std::string chosen_text(const PreparedRun& run, const FinishedRun& finished);

}  // namespace truemax
