// How many steps may run side by side without seeing each other: on a GPU, lock-free, and the rows of a
// group.
#pragma once

#include "data/data_view.hpp"
#include "draw/draw.hpp"

namespace truemax {

// The mean cosine of two rows, which may be the same one: the squared length of the mean of rows of length 1.
// Estimated from some ten thousand rows, or of a stream from all.
double mean_cosine(const DataView& data, bool intercept);

// Steps that do not see each other add up. Each corrects all of its row's error, so they overshoot if many of
// them move the same weights the same way: by their number times the mean cosine of two rows times the share
// of classes that a step moves. At least 1. `draw`: null if every step has all classes.
double steps_beside(double cosine, std::uint64_t examples, std::uint64_t classes, const Draw* draw);
inline double steps_beside(const DataView& data, bool intercept, const Draw* draw) {
  return steps_beside(mean_cosine(data, intercept), data.size(), data.classes->size(), draw);
}

}  // namespace truemax
