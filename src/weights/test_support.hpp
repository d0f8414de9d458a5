// Shared by the tests of this folder: random rows and weights, and one instruction set at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core/csr.hpp"
#include "core/instruction_sets.hpp"
#include "weights/tile.hpp"
#include "weights/weights.hpp"

namespace truemax {

using Engine = std::mt19937_64;

// A number of random sign with a magnitude log-uniform in 10^-decades ... 10^decades.
inline float wide(Engine& random, double decades) {
  std::uniform_real_distribution<double> sym(-1, 1);
  const double size = std::pow(10.0, decades * sym(random));
  return static_cast<float>(sym(random) < 0 ? -size : size);
}

// Rows of 0 to `most` features below `features`; every seventh row is empty.
inline Csr random_rows(Engine& random, std::size_t rows, FeatureId features, std::size_t most,
                       double decades) {
  Csr out;
  std::uniform_int_distribution<FeatureId> feature(0, features - 1);
  std::uniform_int_distribution<std::size_t> length(1, most);
  for (std::size_t i = 0; i < rows; ++i) {
    std::vector<FeatureId> index;
    const std::size_t wanted = i % 7 == 6 ? 0 : length(random);
    for (std::size_t j = 0; j < wanted; ++j) index.push_back(feature(random));
    std::sort(index.begin(), index.end());
    index.erase(std::unique(index.begin(), index.end()), index.end());
    for (const FeatureId f : index) out.index.push_back(f), out.value.push_back(wide(random, decades));
    out.begin.push_back(out.index.size());
  }
  return out;
}

inline Weights random_weights(Engine& random, std::size_t classes, std::size_t features, bool intercept,
                              double decades) {
  Weights w(classes, features, intercept);
  std::vector<float> row(features);
  for (ClassId k = 0; k < classes; ++k) {
    for (float& v : row) v = wide(random, decades);
    w.set_class(k, row);
    if (intercept) w.intercept()[k] = wide(random, decades);
  }
  return w;
}

// Every number of W, padding and intercept included, in memory order.
inline std::vector<float> all_cells(const Weights& w) {
  std::vector<float> cells(w.block(0), w.block(0) + w.blocks() * w.features() * kLanes);
  cells.insert(cells.end(), w.intercept().begin(), w.intercept().end());
  return cells;
}

}  // namespace truemax
