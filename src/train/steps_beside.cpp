#include "train/steps_beside.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "weights/kernels.hpp"

namespace truemax {

double steps_beside(const DataView& data, bool intercept, const Draw* draw) {
  constexpr double kRowsEach = 16, kMostOvershoot = 2;
  std::vector<double> mean(data.space->features + 1, 0.0);
  const double over = 1 / static_cast<double>(std::max<std::size_t>(data.size(), 1));
  data.each_x([&](ExampleId /*i*/, const RowView& x) {
    const double square = squared_norm(x, intercept);
    if (!(square > 0)) return;
    const double scale = over / std::sqrt(square);
    add_row(x, scale, mean.data());
    if (intercept) mean.back() += scale;
  });
  double cosine = 0;
  for (const double m : mean) cosine += m * m;
  const std::size_t blocks = (data.classes->size() + kBlockClasses - 1) / kBlockClasses;
  const double share =
      draw == nullptr ? 1
                      : std::min(1.0, static_cast<double>(draw->most_blocks()) / static_cast<double>(blocks));
  const double most =
      std::min(kMostOvershoot / std::max(cosine * share, 1e-9), static_cast<double>(data.size()) / kRowsEach);
  return std::max(most, 1.0);
}

}  // namespace truemax
