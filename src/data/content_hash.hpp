// One number for everything that training sees of a data set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/data_view.hpp"

namespace truemax {

// Rows in their order, values, labels, weights, names of classes and features. The same for any number of
// threads, and however the data are stored: a part has the hash of a copy of its rows.
std::uint64_t content_hash(const DataView& data, std::size_t threads);

}  // namespace truemax
