// What the step loop computes from the whole data set before it starts.
#pragma once

#include <memory>
#include <vector>

#include "data/data_view.hpp"
#include "draw/draw.hpp"
#include "rule/rule.hpp"
#include "train/problem.hpp"
#include "train/recipe.hpp"

namespace truemax {

// How often a step of one row has each block of 16 classes. `draw`: of whole blocks; null if every step has
// all classes.
std::vector<double> block_loads(const DataView& data, const Draw* draw);

ProblemInfo rule_problem(const DataView& data, const Recipe& recipe);

// The draw of a recipe; null for a method that takes all classes.
std::unique_ptr<Draw> draw_for(const Recipe& recipe, const Problem& problem);

// The paper's beta, with row weights. In a step with a set S of `rows` rows, the ridge on each class k in the
// step is beta_k times S's share of the total row weight, where
//     beta_k E[weight of S; k is in the step] = E[weight of S],
// so that the ridge of an epoch is mu |w_k|^2/2 on average, for steps of any size. A class is in a step if it
// was drawn or is the label of a row (or, if the draw includes the label's block, is in that block). Without
// row weights beta_k is the inverse of that probability. `draw`: null if every step has all classes. Not for
// a draw that learns, which has no fixed probabilities: there a class's ridge is weighted by its draw weight,
// whose mean is also 1, and the label's by 1.
std::vector<double> ridge_weights(const DataView& data, const Draw* draw, std::size_t rows);

}  // namespace truemax
