// Kernels of the paper's step, one row against its drawn class and its label, for a group of independent
// steps: what the step loop spends most of its time in. Dispatched at run time.
//
// Scores are added up in float32, which costs half of what double does. That is safe, and these kernels may
// be used, only while `pairs_are_safe` says so: then no product and no sum can leave float32, and a score is
// off by no more than the rounding of the weights themselves makes it. Everything else goes through
// weights/kernels.hpp.
#pragma once

#include <cstddef>

#include "core/csr.hpp"
#include "weights/weights.hpp"

namespace truemax {

// Where a step reads and writes, found once for both.
struct PairPlace {
  RowView x;
  float* drawn;  // Weights::lane of the drawn class
  float* label;  // and of the label: another one
};
inline PairPlace pair_place(Weights& w, RowView x, ClassId drawn, ClassId label) {
  return {x, w.lane(drawn), w.lane(label)};
}

// z of both classes, without the intercept.
void score_pairs(const PairPlace* steps, std::size_t count, double* score_drawn, double* score_label);

// w_label += c x and w_drawn -= c x, step after step.
void add_pairs(const PairPlace* steps, std::size_t count, const double* c);

// Bounds that keep every intermediate number of the two kernels finite: |x|^2 in [2^-40, 2^40], |w| at most
// 2^40, so that a score of up to 2^32 features stays below 2^92.
inline constexpr double kPairNormLow = 0x1p-40, kPairNormHigh = 0x1p40, kPairWeightHigh = 0x1p40;
inline bool pairs_are_safe(double squared_norm) {
  return squared_norm >= kPairNormLow && squared_norm <= kPairNormHigh;
}

}  // namespace truemax
