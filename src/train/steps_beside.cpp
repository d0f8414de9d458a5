#include "train/steps_beside.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace truemax {

double steps_beside(const DataView& data, bool intercept, const Draw* draw) {
  constexpr double kRowsEach = 16, kMostOvershoot = 2;
  std::vector<double> mean(data.space->features + 1, 0.0);
  const double over = 1 / static_cast<double>(std::max<std::size_t>(data.size(), 1));
  data.each_x([&](ExampleId /*i*/, const RowView& x) {
    double square = intercept ? 1 : 0;
    for (const float v : x.value) square += static_cast<double>(v) * static_cast<double>(v);
    if (!(square > 0)) return;
    const double scale = over / std::sqrt(square);
    for (std::size_t j = 0; j < x.index.size(); ++j)
      mean[x.index[j]] += scale * static_cast<double>(x.value[j]);
    if (intercept) mean.back() += scale;
  });
  double cosine = 0;
  for (const double m : mean) cosine += m * m;
  const auto blocks = static_cast<double>((data.classes->size() + kBlockClasses - 1) / kBlockClasses);
  const double share = draw == nullptr ? 1 : std::min(1.0, static_cast<double>(draw->most_blocks()) / blocks);
  const double most =
      std::min(kMostOvershoot / std::max(cosine * share, 1e-9), static_cast<double>(data.size()) / kRowsEach);
  return std::max(most, 1.0);
}

}  // namespace truemax
