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

// The rows with the smallest random numbers: exactly so many, and a row's number does not depend on the
// share, so that a larger share holds out the rows of a smaller one too.
std::vector<bool> choose(std::size_t rows, std::size_t count, std::uint64_t seed) {
  const CounterRandom random(seed, Stream::hold_out, 0);
  std::vector<std::pair<std::uint64_t, std::size_t>> order(rows);
  for (std::size_t i = 0; i < rows; ++i) order[i] = {random.at(i).first, i};
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(order.begin(), middle, order.end());
  std::vector<bool> held(rows, false);
  for (auto it = order.begin(); it != middle; ++it) held[it->second] = true;
  return held;
}

// The rows of one side with their examples, in their order.
Dataset side_of(const Dataset& data, const std::vector<bool>& held, bool side) {
  Dataset out;
  out.class_weight = data.class_weight;
  out.classes = data.classes, out.space = data.space, out.format = data.format;
  std::vector<RowId> new_row(data.rows.rows());
  for (std::size_t r = 0; r < data.rows.rows(); ++r) {
    if (held[r] != side) continue;
    new_row[r] = static_cast<RowId>(out.rows.rows());
    const RowView x = data.rows.row(r);
    out.rows.index.insert(out.rows.index.end(), x.index.begin(), x.index.end());
    out.rows.value.insert(out.rows.value.end(), x.value.begin(), x.value.end());
    out.rows.begin.push_back(out.rows.index.size());
    const auto labels = data.label_set.begin();
    out.label_set.insert(out.label_set.end(), labels + static_cast<std::ptrdiff_t>(data.label_begin[r]),
                         labels + static_cast<std::ptrdiff_t>(data.label_begin[r + 1]));
    out.label_begin.push_back(out.label_set.size());
    if (!data.row_weight.empty()) out.row_weight.push_back(data.row_weight[r]);
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::size_t r = data.row_of(i);
    if (held[r] != side) continue;
    out.label.push_back(data.label[i]);
    if (!data.example_row.empty()) out.example_row.push_back(new_row[r]);
    if (!data.weight.empty()) out.weight.push_back(data.weight[i]);
  }
  return out;
}

}  // namespace

Dataset hold_out(Dataset& data, double share, std::uint64_t seed) {
  const std::size_t rows = data.rows.rows();
  const auto count = static_cast<std::size_t>(std::llround(share * static_cast<double>(rows)));
  if (count == 0 || count >= rows)
    throw UserError(fmt::format(
        "--valid-share {:g}: of {} rows this leaves none to {}; give another share, or --valid FILE", share,
        rows, count == 0 ? "validate on" : "train on"));
  const std::vector<bool> held = choose(rows, count, seed);
  Dataset valid = side_of(data, held, true);
  valid.statistics.rows_in_file = count;
  Dataset rest = side_of(data, held, false);
  rest.statistics = data.statistics;
  data = std::move(rest);
  return valid;
}

}  // namespace truemax
