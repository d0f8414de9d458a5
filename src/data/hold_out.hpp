// Rows set aside for validation, and samples of rows: views that copy nothing large.
#pragma once

#include <cstdint>

#include "core/random.hpp"
#include "data/data_view.hpp"

namespace truemax {

// Two sides of `data`: a share of its rows, chosen by the seed, and the others. Examples that share a row
// stay together. Classes, features and class weights stay those of all rows. Throws UserError where one side
// would be empty.
struct RowSplit {
  DataView rest, valid;
};
RowSplit set_aside(const DataView& data, double share, std::uint64_t seed);

// Throws the UserError of set_aside, where it would.
void require_share(std::size_t rows, double share);

// So many rows of `data`, chosen by the seed; all where there are no more.
DataView sample_part(const DataView& data, std::size_t count, std::uint64_t seed,
                     Stream stream = Stream::hold_out);

// The examples of `part` whose label some example of `seen` has; all of them where none has.
DataView with_labels_of(const DataView& part, const DataView& seen);

}  // namespace truemax
