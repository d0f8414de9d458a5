// How long a plan takes, with its trials. Only shown: what is decided by cost is in train/step_cost.hpp.
#pragma once

#include <string>
#include <vector>

#include "train/trial_outlook.hpp"

namespace truemax {

struct PlanSeconds {
  Span training;  // as the result table has it: trials and fit
  Span trials, fit;
  Span evaluation;              // of the fit, beside training
  std::vector<Outlook> search;  // what the trials are
};
PlanSeconds seconds_of(const Plan& plan);

// "8 to 60 s".
std::string span_text(const Span& seconds);

}  // namespace truemax
