// When rows learn which blocks of classes rival their label (Draw::remember): a pass over all classes. What a
// row remembers grows old as W moves, so that before each epoch a slice of the rows learns anew, as many as
// the time of an epoch allows. Nothing depends on a clock or on the length of the run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/data_view.hpp"
#include "draw/draw.hpp"
#include "train/facts.hpp"

namespace truemax {

// Rows first ... end - 1 of the data. A GPU has slices of its own, of as many rows: it goes by the number.
struct RivalSlice {
  std::size_t number = 0, first = 0, end = 0;
  bool empty() const { return first == end; }
};

class RivalPlan {
 public:
  // `rows` of a slice; a slice every `epochs` epochs.
  RivalPlan(std::size_t all_rows, std::size_t rows, std::uint64_t epochs)
      : all_(all_rows), rows_(rows), epochs_(epochs) {}

  // The rows that learn before an epoch, counted from 0.
  RivalSlice before(std::uint64_t epoch) const;
  std::size_t slices() const { return (all_ + rows_ - 1) / rows_; }

 private:
  std::size_t all_, rows_;
  std::uint64_t epochs_;
};

// By counted work, so that it is the same on every machine.
RivalPlan rival_plan(const Facts& facts);

// The classes per row that a pass must find, so that the row can fill its memory.
std::size_t rival_classes(const Draw& draw);

}  // namespace truemax
