#include "data/hold_out.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"

namespace truemax {
namespace {

// Takes the rows with the smallest random numbers: the count is exact, and since a row's number does not
// depend on the share, a larger share includes the rows of a smaller one.
std::vector<bool> choose(std::size_t rows, std::size_t count, std::uint64_t seed,
                         Stream stream = Stream::hold_out) {
  const CounterRandom random(seed, stream, 0);
  std::vector<std::pair<std::uint64_t, std::size_t>> order(rows);
  for (std::size_t i = 0; i < rows; ++i) order[i] = {random.at(i).first, i};
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(order.begin(), middle, order.end());
  std::vector<bool> held(rows, false);
  for (auto it = order.begin(); it != middle; ++it) held[it->second] = true;
  return held;
}

// Neighbouring windows of a text share words, so its rows are held in contiguous pieces: each of kPieces
// equal parts of the text gives one, at a random place.
std::vector<bool> choose_pieces(std::size_t rows, std::size_t count, std::uint64_t seed) {
  const std::size_t pieces = std::min<std::size_t>(10, count);
  const CounterRandom random(seed, Stream::hold_out, 0);
  std::vector<bool> held(rows, false);
  for (std::size_t p = 0; p < pieces; ++p) {
    const std::size_t begin = rows * p / pieces, end = rows * (p + 1) / pieces;
    const std::size_t length = std::min(end - begin, count * (p + 1) / pieces - count * p / pieces);
    const std::size_t first = begin + uniform_below(random.at(p).first, end - begin - length + 1);
    std::fill_n(held.begin() + static_cast<std::ptrdiff_t>(first), length, true);
  }
  return held;
}

std::size_t rows_to_hold(std::size_t rows, double share) {
  return static_cast<std::size_t>(std::llround(share * static_cast<double>(rows)));
}

}  // namespace

void require_share(std::size_t rows, double share) {
  const std::size_t count = rows_to_hold(rows, share);
  if (count == 0 || count >= rows)
    throw UserError(fmt::format(
        "--valid-share {:g}: of {} rows this leaves none to {}; give another share, or --valid FILE", share,
        rows, count == 0 ? "validate on" : "train on"));
}

RowSplit set_aside(const DataView& data, double share, std::uint64_t seed) {
  const std::size_t rows = data.row_count(), count = rows_to_hold(rows, share);
  require_share(rows, share);
  const std::vector<bool> held =
      data.is_text() ? choose_pieces(rows, count, seed) : choose(rows, count, seed);
  RowSplit split{data.rows_where([&](std::size_t place) { return !held[place]; }),
                 data.rows_where([&](std::size_t place) -> bool { return held[place]; })};
  split.rest.statistics = data.statistics;
  split.valid.statistics.rows_in_file = count;
  return split;
}

DataView sample_part(const DataView& data, std::size_t count, std::uint64_t seed, Stream stream) {
  const std::size_t rows = data.row_count();
  const std::vector<bool> held = choose(rows, std::min(count, rows), seed, stream);
  return data.rows_where([&](std::size_t place) -> bool { return held[place]; });
}

DataView with_labels_of(const DataView& part, const DataView& seen) {
  std::vector<bool> known(part.classes->size(), false);
  for (const ClassId label : seen.labels()) known[label] = true;
  const auto kept = [&](ExampleId i) -> bool { return known[part.label(i)]; };
  std::size_t count = 0;
  for (const ExampleId i : part.examples()) count += kept(i) ? 1 : 0;
  if (count == 0 || count == part.size()) return part;
  return part.examples_where(kept);
}

}  // namespace truemax
