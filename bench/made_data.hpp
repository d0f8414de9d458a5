// Rows generated in memory for timings: the cost of a step depends only on their shape.
#pragma once

#include <cstddef>

#include "data/data_view.hpp"

namespace truemax {

struct MadeShape {
  std::size_t rows = 20000, features = 1000, nonzeros = 20;
};

// Features uniform, rows of unit length; labels by Zipf's law with this exponent, 0: uniform.
Dataset make_data(const MadeShape& shape, std::size_t classes, double skew);

}  // namespace truemax
