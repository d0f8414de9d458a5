// How many of the rows have each feature.
#pragma once

#include <vector>

#include "data/data_view.hpp"

namespace truemax {

// The share of the rows that have each feature, of some of them. Of a stream all alike: its rows are not at
// hand.
inline std::vector<double> feature_shares(const DataView& data) {
  std::vector<double> shares(data.space->features, data.streamed() != nullptr ? 1.0 : 0.0);
  if (data.streamed() != nullptr) return shares;
  constexpr std::size_t kEnough = 1 << 14;
  const std::size_t stride = data.size() / kEnough + 1;
  const std::size_t seen = (data.size() + stride - 1) / stride;
  const double each = 1 / static_cast<double>(seen);
  for (std::size_t i = 0; i < data.size(); i += stride)
    for (const FeatureId f : data.x(static_cast<ExampleId>(i)).index) shares[f] += each;
  return shares;
}

}  // namespace truemax
