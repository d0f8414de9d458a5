// Rows set aside for validation, and samples of rows: views that copy nothing large.
#pragma once

#include <cstdint>

#include "core/random.hpp"
#include "data/data_view.hpp"

namespace truemax {

// Splits `data`: a share of its rows, chosen by the seed, and the rest. Examples of one row stay together,
// and so do both rows of a triple, of which `valid` has the tail. Classes, features and class weights stay
// those of all rows. Throws UserError if one side would be empty.
struct RowSplit {
  DataView rest, valid;
};
RowSplit set_aside(const DataView& data, double share, std::uint64_t seed);

// Throws the UserError that set_aside would throw.
void require_share(std::size_t rows, double share);

// `count` rows of `data`, chosen by the seed; all rows if there are no more.
DataView sample_part(const DataView& data, std::size_t count, std::uint64_t seed,
                     Stream stream = Stream::hold_out);

// The examples of `part` whose label occurs in `seen`; all of `part` if none does.
DataView with_labels_of(const DataView& part, const DataView& seen);

}  // namespace truemax
