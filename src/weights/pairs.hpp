// Kernels of the paper's step, one row against its drawn class and its label, for a group of independent
// steps: the hot part of the step loop. Dispatched at run time.
//
// Scores are summed in float32, at half the cost of double. These kernels may be used only while
// `pairs_are_safe` holds: then no product or sum overflows float32, and the error of a score is no larger
// than the rounding of the weights themselves causes. Everything else uses weights/kernels.hpp.
#pragma once

#include <cstddef>

#include "core/csr.hpp"
#include "weights/weights.hpp"

namespace truemax {

// The memory of a step, looked up once for both kernels.
struct PairPlace {
  RowView x;
  float* drawn;  // Weights::lane of the drawn class
  float* label;  // and of the label, a different class
};
inline PairPlace pair_place(Weights& w, RowView x, ClassId drawn, ClassId label) {
  return {x, w.lane(drawn), w.lane(label)};
}

// z of both classes, without the intercept.
void score_pairs(const PairPlace* steps, std::size_t count, double* score_drawn, double* score_label);

// w_label += c x and w_drawn -= c x, one step after the other.
void add_pairs(const PairPlace* steps, std::size_t count, const double* c);

// Bounds that keep all intermediate numbers of both kernels finite: |x|^2 in [2^-40, 2^40], |w| at most 2^40,
// so that a score of up to 2^32 features stays below 2^92.
inline constexpr double kPairNormLow = 0x1p-40, kPairNormHigh = 0x1p40, kPairWeightHigh = 0x1p40;
inline bool pairs_are_safe(double squared_norm) {
  return squared_norm >= kPairNormLow && squared_norm <= kPairNormHigh;
}

}  // namespace truemax
