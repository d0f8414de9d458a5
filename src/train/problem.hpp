// What the step loop computes of the whole problem before it starts.
#pragma once

#include <vector>

#include "data/dataset.hpp"
#include "draw/draw.hpp"
#include "rule/rule.hpp"
#include "train/options.hpp"

namespace truemax {

ProblemInfo problem_of(const Dataset& data, const TrainOptions& options);

// The paper's beta: the inverse of the probability that a class is in a step, drawn or as the label of a row.
// `draw`: null where every step has all classes.
std::vector<double> ridge_weights(const Dataset& data, const TrainOptions& options, const Draw* draw);

}  // namespace truemax
