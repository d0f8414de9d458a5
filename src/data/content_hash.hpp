// One hash of everything that training reads of a data set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/data_view.hpp"

namespace truemax {

// Covers rows in order, values, labels, weights, and names of classes and features. Independent of the number
// of threads and of storage: a part has the same hash as a copy of its rows.
std::uint64_t content_hash(const DataView& data, std::size_t threads);

}  // namespace truemax
