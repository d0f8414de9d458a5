#include "train/line_owners.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "train/feature_shares.hpp"
#include "train/problem.hpp"

namespace truemax {
namespace {

constexpr FeatureId kLast = std::numeric_limits<FeatureId>::max();

// What a thread does for a row that has features in its part of a block, beside what it does for each of
// them, in units of the latter.
constexpr double kCostOfRow = 3;

// Ends of so many ranges of features with about equal work.
std::vector<FeatureId> equal_parts(const std::vector<double>& shares, std::size_t parts) {
  const auto cut = [&](double most) {
    std::vector<FeatureId> end;
    double seen = 0;
    for (std::size_t f = 0; f < shares.size() && end.size() < parts; ++f) {
      if (shares[f] == 0) continue;
      seen += shares[f];
      if (seen + kCostOfRow * (1 - std::exp(-seen)) >= most)
        end.push_back(static_cast<FeatureId>(f + 1)), seen = 0;
    }
    return end;
  };
  double low = 0, high = kCostOfRow + std::accumulate(shares.begin(), shares.end(), 0.0);
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (cut(middle).size() < parts ? high : low) = middle;
  }
  std::vector<FeatureId> end = cut(high);
  end.resize(parts, kLast);
  end.back() = kLast;
  return end;
}

}  // namespace

LineOwners::LineOwners(const DataView& data, const Draw* draw, std::size_t members, std::size_t each,
                       bool intercept)
    : shares_(members * each), intercept_(intercept) {
  const std::vector<double> load = block_loads(data, draw);
  const double fair =
      std::accumulate(load.begin(), load.end(), 0.0) / static_cast<double>(std::max<std::size_t>(members, 1));
  share_.resize(load.size());
  // Rounding: with as many blocks as threads none is heavy.
  constexpr double kMore = 1 + 1e-9;
  const auto heavy = [&](std::uint32_t b) { return members > 1 && load[b] > kMore * fair; };
  std::vector<std::uint32_t> order(load.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return load[a] > load[b]; });
  const auto heavies = static_cast<std::size_t>(std::count_if(order.begin(), order.end(), heavy));
  // The next heaviest block to the share with the least; the first ones to different members.
  using Loaded = std::pair<double, std::uint32_t>;
  std::priority_queue<Loaded, std::vector<Loaded>, std::greater<>> least;
  for (std::uint32_t s = 0; s < shares_; ++s) least.emplace(0.0, s);
  const auto give = [&](double more) {
    const auto [loaded, number] = least.top();
    least.pop();
    least.emplace(loaded + more, number);
    return static_cast<std::uint32_t>(number % members * each + number / members);
  };
  std::vector<double> shares;
  for (const std::uint32_t b : order) {
    if (!heavy(b)) {
      share_[b] = give(load[b]);
      continue;
    }
    if (shares.empty()) shares = feature_shares(data);
    // At least one part of some block for every member.
    const std::size_t parts = (members + heavies - 1) / heavies;
    share_[b] = static_cast<std::uint32_t>(shares_ + cuts_.size());
    Cut& cut = cuts_.emplace_back();
    cut.block = b;
    cut.end = equal_parts(shares, parts);
    for (std::size_t p = 0; p < parts; ++p) cut.share.push_back(give(load[b] / static_cast<double>(parts)));
  }
}

std::size_t LineOwners::most_cuts() const {
  std::size_t more = 0;
  for (const Cut& cut : cuts_) more += cut.share.size() - 1;
  return more;
}

}  // namespace truemax
