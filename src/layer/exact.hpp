// Exact log-losses and most probable classes of a layer, over all classes. Rows and classes are taken in
// slices, so memory does not grow with either.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/team.hpp"
#include "layer/arrays.hpp"

namespace truemax {

// The log-loss of each row; 0 for ignored ones. Throws UserError for targets and numbers that cannot be used.
void exact_nll(std::size_t classes, std::size_t features, const LayerArrays& arrays, const LayerBatch& batch,
               double* loss, Team& team);
// [rows][top], most probable first; of equal scores the lower class first. Targets are not used.
void exact_top(std::size_t classes, std::size_t features, const LayerArrays& arrays, const LayerBatch& batch,
               std::size_t top, std::int64_t* class_of, double* log_probability, Team& team);

}  // namespace truemax
