#include "train/feature_units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "train/growth.hpp"

namespace truemax {
namespace {

// Sizes beyond float32's own range: features outside move more slowly or faster than others.
constexpr double kLeastSize = 1e-30, kMostSize = 1e30;
// No score and no sum of gradients may be larger.
constexpr double kMostSum = 1e37;

}  // namespace

FeatureUnits::FeatureUnits(const DataView& data, std::size_t threads)
    : inverse(data.space->features, 1.0F), share(data.space->features, 1.0F) {
  const std::size_t features = data.space->features;
  struct Part {
    std::vector<double> square, seen;
    double largest = 0, longest = 0, weight = 0, largest_weight = 0;
  };
  // A fixed number of parts: their sums do not depend on the threads.
  constexpr std::size_t kParts = 8, kFewRows = 4096;
  const bool streamed = data.streamed() != nullptr;
  std::vector<Part> parts(streamed || data.size() < kFewRows ? 1 : kParts);
  const auto add = [&](Part& part, ExampleId i, const RowView& x) {
    double length = 0;
    for (std::size_t j = 0; j < x.index.size(); ++j) {
      const auto value = std::abs(static_cast<double>(x.value[j]));
      if (value == 0) continue;
      part.square[x.index[j]] += value * value;
      part.seen[x.index[j]] += 1;
      part.largest = std::max(part.largest, value);
      length += value;
    }
    part.longest = std::max(part.longest, length);
    part.weight += data.weight(i);
    part.largest_weight = std::max(part.largest_weight, data.weight(i));
  };
  for (Part& part : parts) part.square.resize(features), part.seen.resize(features);
  if (streamed)
    data.each_x([&](ExampleId i, const RowView& x) { add(parts[0], i, x); });
  else
    parallel_for(parts.size(), threads, [&](std::size_t p) {
      for (std::size_t i = data.size() * p / parts.size(); i < data.size() * (p + 1) / parts.size(); ++i) {
        const ExampleId one{static_cast<std::uint32_t>(i)};
        add(parts[p], one, data.x(one));
      }
    });
  double total = 0;
  largest_weight = 0;
  for (const Part& part : parts) {
    largest = std::max(largest, part.largest), longest = std::max(longest, part.longest);
    total += part.weight, largest_weight = std::max(largest_weight, part.largest_weight);
  }
  for (std::size_t f = 0; f < features; ++f) {
    double square = 0, seen = 0;
    for (const Part& part : parts) square += part.square[f], seen += part.seen[f];
    if (seen == 0) continue;
    const double of_feature = 1 / std::clamp(std::sqrt(square / seen), kLeastSize, kMostSize);
    inverse[f] = static_cast<float>(of_feature);
    share[f] = static_cast<float>(seen / static_cast<double>(data.size()));
    most_inverse = std::max(most_inverse, of_feature);
  }
  const auto rows = static_cast<double>(std::max<std::size_t>(data.size(), 1));
  mean_weight = std::max(total / rows, std::numeric_limits<double>::min());
}

bool features_fit(const FeatureUnits& units) {
  const double push = units.largest_weight / units.mean_weight;
  return units.largest * std::max(push, 1.0) <= kMostSum && units.longest <= kMostSum;
}

bool features_fit_beside(const FeatureUnits& units, bool intercept) {
  constexpr double kScores = 1e6;  // that the weights of any one feature should be able to make
  return features_fit(units) && kScores * units.most_inverse <= units.most_weight(intercept);
}

void require_features_fit(const FeatureUnits& units, std::string_view method) {
  if (features_fit(units)) return;
  throw DivergenceError(
      fmt::format("{} adds in float32, for which features of up to {:.2g} are too large: give --method prox",
                  method, units.largest));
}

double FeatureUnits::most_weight(bool intercept) const {
  return std::min(kWeightLimit, kMostSum / (std::max(longest, 1.0) + (intercept ? 1 : 0)));
}

}  // namespace truemax
