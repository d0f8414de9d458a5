#include "weights/all_scores.hpp"

#include <algorithm>
#include <array>

#include "core/parallel.hpp"

namespace truemax {

// A block of W is read once for all rows, which finds it in the cache.
void all_scores(const Weights& weights, CsrView rows, std::size_t threads, std::span<double> out) {
  const std::size_t classes = weights.classes();
  parallel_for(weights.blocks(), threads, [&](std::size_t b) {
    const std::size_t first = b * kLanes, lanes = std::min(kLanes, classes - first);
    std::array<double, kLanes> start{}, factor;
    factor.fill(1);
    for (std::size_t l = 0; l < lanes; ++l) {
      start[l] = weights.intercept_of(static_cast<ClassId>(first + l));
      factor[l] = weights.scale(static_cast<ClassId>(first + l));
    }
    const float* const block = weights.block(b);
    for (std::size_t r = 0; r < rows.rows(); ++r) {
      const RowView x = rows.row(r);
      std::array<double, kLanes> sum{};
      if (!weights.scaled()) sum = start;
      for (std::size_t j = 0; j < x.index.size(); ++j) {
        const float* const w = block + std::size_t{x.index[j]} * kLanes;
        const auto value = static_cast<double>(x.value[j]);
        for (std::size_t l = 0; l < kLanes; ++l) sum[l] += value * static_cast<double>(w[l]);
      }
      for (std::size_t l = 0; l < lanes; ++l)
        out[r * classes + first + l] = weights.scaled() ? factor[l] * sum[l] + start[l] : sum[l];
    }
  });
}

}  // namespace truemax
