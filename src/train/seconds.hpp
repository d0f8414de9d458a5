// How long a plan takes, by counting what its steps do. Only shown: what is decided by cost is in
// train/step_cost.hpp.
#pragma once

#include <string>
#include <vector>

#include "train/trial_outlook.hpp"

namespace truemax {

// Seconds of an epoch, as in the table of solvers; of Newton's method, of the fit.
double pair_seconds(const Facts& facts);
double general_seconds(const Facts& facts);
double block_seconds(const Facts& facts);
double group_seconds(const Facts& facts);
double all_classes_seconds(const Facts& facts);
double adam_seconds(const Facts& facts);
double lbfgs_epoch_seconds(const Facts& facts);
double learnt_seconds(const Facts& facts);
double device_seconds(const Facts& facts);
double device_learnt_seconds(const Facts& facts);
double newton_seconds(const Facts& facts);

// Of so many rows, with all classes or by samples.
double evaluation_seconds(const Facts& facts, double rows, bool sampled);

// Of a fit of so many epochs on so many rows: clearing the weights, steps and Newton's method.
double fit_seconds(const Plan& plan, const Recipe& recipe, double rows, double epochs);

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
