#include "weights/kernels.hpp"

#include "weights/tile.hpp"

namespace truemax {

void scores_of_all(const Weights& w, std::span<const RowView> rows, double* z) {
  const std::size_t padded = w.blocks() * kLanes;
  for (std::size_t b = 0; b < w.blocks(); ++b) {  // a block stays in the cache while all rows use it
    const TileStart start(w, b);
    for (std::size_t i = 0; i < rows.size(); ++i)
      score_row(rows[i], w.block(b), start, z + i * padded + b * kLanes);
  }
}

void add_to_all(Weights& w, RowView x, const double* c) {
  std::array<double, kLanes> scaled;
  for (std::size_t b = 0; b < w.blocks(); ++b) {
    const std::size_t lanes = std::min(kLanes, w.classes() - b * kLanes);
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      scaled[lane] =
          lane < lanes ? c[b * kLanes + lane] / w.scale(static_cast<ClassId>(b * kLanes + lane)) : 0.0;
    add_tile(x, scaled.data(), w.block(b));
    if (!w.has_intercept()) continue;
    float* intercept = w.intercept().data() + b * kLanes;
    for (std::size_t lane = 0; lane < lanes; ++lane)
      intercept[lane] = static_cast<float>(static_cast<double>(intercept[lane]) + c[b * kLanes + lane]);
  }
}

void GramKernel::fill(std::span<const RowView> rows, bool with_intercept, double* gram) {
  const std::size_t n = rows.size();
  for (std::size_t i = 0; i < n; ++i) {
    const RowView x = rows[i];
    for (std::size_t j = 0; j < x.index.size(); ++j) dense_[x.index[j]] = x.value[j];
    for (std::size_t k = i; k < n; ++k) {
      const RowView other = rows[k];
      double sum = with_intercept ? 1.0 : 0.0;
      for (std::size_t j = 0; j < other.index.size(); ++j)
        sum += static_cast<double>(other.value[j]) * static_cast<double>(dense_[other.index[j]]);
      gram[i * n + k] = gram[k * n + i] = sum;
    }
    for (const FeatureId f : x.index) dense_[f] = 0;
  }
}

}  // namespace truemax
