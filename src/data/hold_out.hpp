// Rows set aside for validation.
#pragma once

#include <cstdint>

#include "core/random.hpp"
#include "data/dataset.hpp"

namespace truemax {

// Takes a share of the rows out of `data`, chosen by the seed, and returns them. Examples that share a row
// stay together. Classes, features and class weights stay those of all rows. Throws UserError where one side
// would be empty.
Dataset hold_out(Dataset& data, double share, std::uint64_t seed);

// Throws the UserError of hold_out, where it would.
void require_share(std::size_t rows, double share);

// The same two sides as parts of `data`, which stays as it is and outlives them: nothing large is copied.
struct RowSplit {
  Dataset rest, valid;
};
RowSplit set_aside(const Dataset& data, double share, std::uint64_t seed);

// The rows of sample_rows() as a part of `data`.
Dataset sample_part(const Dataset& data, std::size_t count, std::uint64_t seed,
                    Stream stream = Stream::hold_out);

// The examples of `part` whose label some example of `seen` has, as a part; all of them where none has.
Dataset with_labels_of(Dataset part, const Dataset& seen);

// A copy of so many rows of `data`, chosen by the seed; of all where there are no more.
Dataset sample_rows(const Dataset& data, std::size_t count, std::uint64_t seed);

}  // namespace truemax
