// The columns of seconds in the table of solvers, by counting what steps do. Only shown: what is decided by
// cost is in train/step_cost.hpp.
#pragma once

#include "train/facts.hpp"

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

}  // namespace truemax
