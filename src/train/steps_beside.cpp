#include "train/steps_beside.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "weights/kernels.hpp"

namespace truemax {

double mean_cosine(const DataView& data, bool intercept) {
  constexpr std::size_t kEnough = 1 << 15;
  const bool all = data.streamed() != nullptr;  // its rows are not at hand one by one
  const std::size_t stride = all ? 1 : data.size() / kEnough + 1;
  std::vector<double> sum(data.space->features + 1, 0.0);
  double rows = 0, lengths = 0;  // seen; the squares of their lengths, each 1 or 0
  const auto add = [&](const RowView& x) {
    ++rows;
    const double square = squared_norm(x, intercept);
    if (!(square > 0)) return;
    ++lengths;
    const double scale = 1 / std::sqrt(square);
    add_row(x, scale, sum.data());
    if (intercept) sum.back() += scale;
  };
  if (all)
    data.each_x([&](ExampleId /*i*/, const RowView& x) { add(x); });
  else
    for (std::size_t i = 0; i < data.size(); i += stride) add(data.x(static_cast<ExampleId>(i)));
  if (rows < 2) return lengths;
  double square = 0;
  for (const double s : sum) square += s * s;
  // Of the rows that were not seen only pairs of different ones are like those that were.
  const double different = (square - lengths) / (rows * (rows - 1)), same = lengths / rows;
  const double chance = 1 / static_cast<double>(data.size());  // of the same row twice
  return different + chance * (same - different);
}

double steps_beside(double cosine, std::uint64_t examples, std::uint64_t classes, const Draw* draw) {
  constexpr double kRowsEach = 16, kMostOvershoot = 2;
  const std::size_t blocks = (classes + kBlockClasses - 1) / kBlockClasses;
  const double share =
      draw == nullptr ? 1
                      : std::min(1.0, static_cast<double>(draw->most_blocks()) / static_cast<double>(blocks));
  const double most =
      std::min(kMostOvershoot / std::max(cosine * share, 1e-9), static_cast<double>(examples) / kRowsEach);
  return std::max(most, 1.0);
}

}  // namespace truemax
