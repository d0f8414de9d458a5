// How many steps may run side by side without seeing each other: on a GPU, and the rows of a group.
#pragma once

#include "data/data_view.hpp"
#include "draw/draw.hpp"

namespace truemax {

// Steps that do not see each other add up. Each corrects all of its row's error, so they overshoot if many of
// them move the same weights the same way: by their number times the mean cosine of two rows (the squared
// length of the mean of rows of length 1) times the share of classes that a step moves. The cosine is
// estimated from some ten thousand rows, or of a stream from all. At least 1. `draw`: null if every step has
// all classes.
double steps_beside(const DataView& data, bool intercept, const Draw* draw);

}  // namespace truemax
