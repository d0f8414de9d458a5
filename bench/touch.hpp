// The bound for step loops: a kernel that reads and writes the cache lines of the same steps in the same
// order without arithmetic.
#pragma once

#include <span>
#include <vector>

#include "data/data_view.hpp"
#include "draw/draw.hpp"
#include "timing.hpp"
#include "train/fit.hpp"
#include "train/options.hpp"

namespace truemax {

// The rows and places of an epoch, drawn beforehand, so that random numbers are not timed. A step touches,
// for every feature of its row, one line at each of its places: a place is a class, or the first class of a
// block.
struct Trace {
  std::vector<ExampleId> rows;
  std::vector<std::size_t> begin{0};
  std::vector<ClassId> places;

  std::span<const ClassId> of(std::size_t t) const {
    return {places.data() + begin[t], begin[t + 1] - begin[t]};
  }
};

// `draw`: null if every step takes all classes.
Trace trace_of(const DataView& data, const Recipe& options, const Draw* draw, std::uint64_t epoch);

// How many steps ahead lines are prefetched (0: not at all), and how many steps are read before they are
// written. A method that takes its steps one after the other has `together` = 1, and its bound is the best
// prefetch distance; more is possible only for steps that share no lines.
struct TouchWay {
  std::size_t ahead = 0, together = 1;
};
inline constexpr TouchWay kInOrder[] = {{0, 1}, {1, 1}, {2, 1}, {4, 1}, {8, 1}};
inline constexpr TouchWay kTogether[] = {{0, 8}, {8, 8}};

// Writes to every page: the first write to one costs far more than a step.
void touch_pages(Weights& weights);

void touch_epoch(const DataView& data, const Trace& trace, RunState& state, const TouchWay& way);

}  // namespace truemax
