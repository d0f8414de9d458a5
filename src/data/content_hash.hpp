// One number for everything that training sees of a data set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/dataset.hpp"

namespace truemax {

// Rows in their order, values, labels, weights, names of classes and features. The same for any number of
// threads, and however the data were stored. `data` is no part of another.
std::uint64_t content_hash(const Dataset& data, std::size_t threads);

}  // namespace truemax
