// The vectors of L-BFGS (solve/lbfgs.hpp), of the shape of W, in float32. Their inner products are summed in
// double. Dispatched at run time.
//
// All are in units in which features have about the same size: a weight w has the value w/unit there, and its
// gradient is multiplied by the unit of its feature.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "weights/weights.hpp"

namespace truemax {

// Some lines of kLanes numbers, each of one feature: those of a block, or the intercepts of all blocks.
struct Lines {
  std::size_t block = 0, from = 0, count = 0;  // block: the number of blocks stands for the intercepts
};
// All lines of W in tasks of nearly equal size, at most about a thousand.
std::vector<Lines> lines_of(const Weights& weights);

// The units of the features, and that of intercepts once for every block.
struct LineUnits {
  std::vector<float> features, intercepts;
};

// to = w + length unit d; returns the largest absolute number of `to`, infinite or NaN if one is.
float step_along(Weights& to, const Weights& w, const Weights& d, const LineUnits& units, const Lines& lines,
                 float length);

// Sums over lines.
struct GradientSums {
  double slope = 0, gradient = 0, weights = 0;  // d g, |g|^2, |w|^2 (w not in units)
};
// g = unit (ridge w - sum of `parts`); a part of `sum` begins every `stride` numbers, with those of the
// lines.
GradientSums finish_gradient(Weights& g, const float* sum, std::size_t parts, std::size_t stride,
                             const Weights& w, const Weights& d, const LineUnits& units, const Lines& lines,
                             float ridge);

// Two points, and the gradients there.
struct TwoPoints {
  const Weights &w, &old_w, &g, &old_g;
};
// s = (w - old w)/unit, y = g - old g; returns |s|^2.
double find_pair(Weights& s, Weights& y, const TwoPoints& of, const LineUnits& units, const Lines& lines);

// out[2 i] += v_i a and out[2 i + 1] += v_i b, for every v_i.
void add_products(std::span<const Weights* const> v, const Weights& a, const Weights& b, const Lines& lines,
                  double* out);

struct DirectionSums {
  double slope = 0;   // d g
  float largest = 0;  // unit |d|; infinite or NaN if one is
};
// d = factor g + sum of factors[i] v_i.
DirectionSums combine(Weights& d, const Weights& g, float factor, std::span<const Weights* const> v,
                      std::span<const float> factors, const LineUnits& units, const Lines& lines);

}  // namespace truemax
