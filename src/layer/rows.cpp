#include "layer/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "weights/fast_tile.hpp"

namespace truemax {
namespace {

constexpr std::size_t kChunkRows = 16, kChunkClasses = 1024;

[[noreturn]] void refuse_x(const float* x, std::size_t row, std::size_t features, double most) {
  std::size_t c = 0;
  while (c + 1 < features && std::abs(static_cast<double>(x[c])) <= most) ++c;
  if (std::isfinite(x[c]))
    throw UserError(fmt::format("x is {:.3g} in row {}, column {}; scale it to at most {:.0e} in size",
                                static_cast<double>(x[c]), row, c, most));
  throw UserError(fmt::format("x is {} in row {}, column {}; it must be finite",
                              std::isnan(x[c]) ? "NaN" : "infinite", row, c));
}

}  // namespace

void LayerRows::take(std::size_t classes, std::size_t features, const LayerArrays& arrays,
                     const LayerBatch& batch, std::size_t from, std::size_t count, double most, Team& team) {
  row.clear(), target.clear(), index.clear();
  for (std::size_t i = from; i < from + count; ++i) {
    if (batch.target != nullptr) {
      const std::int64_t y = batch.target[i];
      if (y == batch.ignore_index) continue;
      if (y < 0 || static_cast<std::uint64_t>(y) >= classes)
        throw UserError(
            fmt::format("target is {} in row {}; give a class from 0 to {}, or {} to leave a row out", y, i,
                        classes - 1, batch.ignore_index));
      target.push_back(static_cast<ClassId>(y));
    }
    if (batch.index != nullptr) {
      const std::int64_t at = batch.index[i];
      if (at < 0 || static_cast<std::uint64_t>(at) >= arrays.rows)
        throw UserError(
            fmt::format("index is {} in row {}; the layer has {} rows, numbered from 0", at, i, arrays.rows));
      index.push_back(at);
    }
    row.push_back(static_cast<std::uint32_t>(i));
  }
  x.resize(row.size() * features);
  team.share_chunks(row.size(), kChunkRows, [&](std::size_t /*member*/, std::size_t i) {
    const float* const of_row = batch.x + static_cast<std::ptrdiff_t>(row[i]) * batch.x_stride;
    if (!(static_cast<double>(largest_absolute(of_row, features)) <= most))
      refuse_x(of_row, row[i], features, most);
    std::copy_n(of_row, features, x.data() + i * features);
  });
}

float largest_weight(const LayerArrays& arrays, ClassId k, std::size_t features) {
  const float of_row = largest_absolute(arrays.class_row(k), features);
  return arrays.bias == nullptr ? of_row : std::max(of_row, largest_absolute(arrays.bias + k, 1));
}

void refuse_weights(const LayerArrays& arrays, ClassId k, std::size_t features) {
  const auto largest = static_cast<double>(largest_weight(arrays, k, features));
  if (!std::isfinite(largest))
    throw UserError(fmt::format("the weights of class {} are not finite; reset them", k));
  throw DivergenceError(fmt::format(
      "the weights of class {} have grown to {:.3g}; reset them, and train with a smaller step", k, largest));
}

void require_usable_weights(std::size_t classes, std::size_t features, const LayerArrays& arrays,
                            Team& team) {
  team.share_chunks(classes, kChunkClasses, [&](std::size_t /*member*/, std::size_t k) {
    const auto id = static_cast<ClassId>(k);
    if (!(static_cast<double>(largest_weight(arrays, id, features)) <= kLayerLargest))
      refuse_weights(arrays, id, features);
  });
}

}  // namespace truemax
