#include "data/hold_out.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/triples.hpp"

namespace truemax {
namespace {

// Takes the rows with the smallest random numbers: the count is exact, and since a row's number does not
// depend on the share, a larger share includes the rows of a smaller one.
std::vector<bool> choose(std::size_t rows, std::size_t count, std::uint64_t seed,
                         Stream stream = Stream::hold_out) {
  const CounterRandom random(seed, stream, 0);
  std::vector<bool> held(rows, false);
  if (count == 0) return held;
  // Only numbers that begin like the largest one taken are sorted: a list of all would need 16 bytes a row.
  constexpr unsigned kBinBits = 16, kShift = 64 - kBinBits;
  std::vector<std::size_t> in_bin(std::size_t{1} << kBinBits);
  for (std::size_t i = 0; i < rows; ++i) ++in_bin[random.at(i).first >> kShift];
  std::size_t last_bin = 0, left = count;  // to be taken from that bin
  for (; left > in_bin[last_bin]; ++last_bin) left -= in_bin[last_bin];
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint64_t number = random.at(i).first;
    if (number >> kShift == last_bin) order.emplace_back(number, i);
    held[i] = number >> kShift < last_bin;
  }
  std::sort(order.begin(), order.end());
  for (std::size_t j = 0; j < left; ++j) held[order[j].second] = true;
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
  const std::size_t together = data.rows_together, rows = data.row_count() / together;
  const std::size_t count = rows_to_hold(rows, share);
  require_share(rows, share);
  const std::vector<bool> held =
      data.is_text() ? choose_pieces(rows, count, seed) : choose(rows, count, seed);
  RowSplit split{
      data.rows_where([&](std::size_t place) { return !held[place / together]; }),
      tails_of(data.rows_where([&](std::size_t place) -> bool { return held[place / together]; }))};
  split.rest.statistics = data.statistics;
  split.valid.statistics.rows_in_file = count;
  return split;
}

DataView sample_part(const DataView& data, std::size_t count, std::uint64_t seed, Stream stream) {
  const std::size_t together = data.rows_together, rows = data.row_count() / together;
  const std::vector<bool> held = choose(rows, std::min(count / together, rows), seed, stream);
  DataView sample = data.rows_where([&](std::size_t place) -> bool { return held[place / together]; });
  // A small sample of a stream is copied: to train on it would read the whole file again and again.
  if (data.streamed() == nullptr || sample.bytes_of_copy() > data.streamed()->most_copied()) return sample;
  return sample.copied();
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
