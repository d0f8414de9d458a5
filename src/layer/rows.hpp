// The rows of a batch that count, checked and copied; and checks of the weights they meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/team.hpp"
#include "core/types.hpp"
#include "layer/arrays.hpp"

namespace truemax {

struct LayerRows {
  std::vector<std::uint32_t> row;   // number in the batch
  std::vector<ClassId> target;      // empty if the batch has none
  std::vector<std::int64_t> index;  // empty if the batch has none
  std::vector<float> x;             // [rows][D]

  std::size_t size() const { return row.size(); }

  // Rows from ... from + count - 1 of the batch that are not ignored. `most`: the largest |x|. Throws
  // UserError for a target, an index or an x that cannot be used.
  void take(std::size_t classes, std::size_t features, const LayerArrays& arrays, const LayerBatch& batch,
            std::size_t from, std::size_t count, double most, Team& team);
};

// The largest absolute number of w_k and b_k; infinity if one is NaN.
float largest_weight(const LayerArrays& arrays, ClassId k, std::size_t features);
// Throws: the weights of class k are NaN, infinite or above kLayerLargest.
[[noreturn]] void refuse_weights(const LayerArrays& arrays, ClassId k, std::size_t features);
// Throws if any class has such weights.
void require_usable_weights(std::size_t classes, std::size_t features, const LayerArrays& arrays, Team& team);

}  // namespace truemax
