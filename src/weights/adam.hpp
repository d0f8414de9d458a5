// Steps that differ by weight (solve/adam.hpp), block by block in float32. Dispatched at run time.
#pragma once

#include <cstddef>
#include <span>

#include "core/csr.hpp"
#include "weights/weights.hpp"

namespace truemax {

// sum[b][f][lane] += c of row i [b][lane] x_i[f], for rows i in order and `blocks` blocks (1 or 2), each of
// `features` lines of kLanes numbers. c of row i starts every `stride` numbers.
void add_rows(std::span<const RowView> x, const float* c, std::size_t stride, std::size_t features,
              std::size_t blocks, float* sum);

// What the weights of a step share.
struct AdamStep {
  float mean_share = 0, square_share = 0;  // of the new gradient in m and v
  float rate = 0;                          // times m / (sqrt(v) + tiny)
  float ridge = 0;                         // times inverse^2 / (sqrt(v) + tiny): what divides w, besides 1
  float tiny = 0;
};

// One line of kLanes numbers for each of `count` features. g = inverse[f] (sum of `parts`, one after the
// other) is minus the gradient in units in which feature f has size 1; m and v follow it, and
//   w <- (w + rate inverse[f] m / h) / (1 + ridge inverse[f]^2 / h),   h = sqrt(v) + tiny:
// the least of the ridge and the distance to w + ..., in the metric h. A sum of parts is `stride` after the
// one before.
void adam_lines(float* w, float* mean, float* square, const float* sum, std::size_t parts, std::size_t stride,
                const float* inverse, std::size_t count, const AdamStep& step);

// The weights that a step moves, and the running means of their gradients and squares, of the same shape.
struct AdamPlace {
  Weights &w, &mean, &square;
};
// adam_lines for features from ... from + count - 1 of a block. A part of `sum` has lines for all features.
void adam_block(const AdamPlace& to, std::size_t block, std::size_t from, std::size_t count, const float* sum,
                std::size_t parts, std::span<const float> inverse, const AdamStep& step);
// The same for its intercepts, as features of size 1: sum has one number for each class.
void adam_intercepts(const AdamPlace& to, std::size_t block, const float* sum, const AdamStep& step);

// Whether all numbers are at least 0, as means of squares are.
bool at_least_zero(const Weights& weights);

}  // namespace truemax
