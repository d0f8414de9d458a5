// What the step loop computes of the whole problem before it starts.
#pragma once

#include <memory>
#include <vector>

#include "data/data_view.hpp"
#include "draw/draw.hpp"
#include "rule/rule.hpp"
#include "train/options.hpp"

namespace truemax {

// Weight of the training rows by label.
std::vector<double> label_mass(const DataView& data);

ProblemInfo problem_of(const DataView& data, const TrainOptions& options);

// The draw that the options name, for these data; null for a method that takes all classes.
std::unique_ptr<Draw> draw_for(const DataView& data, const TrainOptions& options);

// The paper's beta, with row weights: of a step of `rows` rows, S, the ridge on class k is beta_k times S's
// share of all row weight, where the class is in the step, and
//     beta_k E[weight of S, where k is in the step] = E[weight of S],
// so that the ridge of an epoch is mu |w_k|^2/2 in the mean, for steps of any size. A class is in a step
// drawn or as the label of a row (or, where the draw takes the label's block, in the block of one). Without
// row weights beta is the inverse of the probability of that. `draw`: null where every step has all classes.
// Not for a draw that learns, which has no such probabilities: there a class's ridge is weighted by its draw
// weight, whose mean is 1 too, and that of the label by 1.
std::vector<double> ridge_weights(const DataView& data, const Draw* draw, std::size_t rows);

}  // namespace truemax
