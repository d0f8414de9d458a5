// Rows set aside for validation.
#pragma once

#include <cstdint>

#include "data/dataset.hpp"

namespace truemax {

// Takes a share of the rows out of `data`, chosen by the seed, and returns them. Examples that share a row
// stay together. Classes, features and class weights stay those of all rows. Throws UserError where one side
// would be empty.
Dataset hold_out(Dataset& data, double share, std::uint64_t seed);

}  // namespace truemax
