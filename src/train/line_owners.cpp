#include "train/line_owners.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "train/feature_shares.hpp"
#include "train/step_inputs.hpp"

namespace truemax {
namespace {

constexpr FeatureId kLast = std::numeric_limits<FeatureId>::max();

// What a thread does for a row that has features in its part of a block, beside what it does for each of
// them, in units of the latter.
constexpr double kCostOfRow = 3;
// What adding a row's coefficients to the intercepts of a block costs, in the same units.
constexpr double kCostOfIntercepts = 3;

// The least sum of the shares of its features with which a range has so much work.
double share_for(double work) {
  double low = 0, high = work;
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (middle + kCostOfRow * (1 - std::exp(-middle)) < work ? low : high) = middle;
  }
  return high;
}

// Ends of so many ranges of features with about equal work. `first_always`: the first has every row, for the
// intercept.
std::vector<FeatureId> equal_parts(const std::vector<double>& shares, std::size_t parts, bool first_always) {
  std::vector<double> before(shares.size() + 1, 0.0);  // the shares of all features before this one
  for (std::size_t f = 0; f < shares.size(); ++f) before[f + 1] = before[f] + shares[f];
  const auto cut = [&](double most) {
    std::vector<FeatureId> end;
    const double share = share_for(most);
    for (auto from = before.begin(); end.size() < parts;) {
      const bool always = first_always && end.empty();
      const double of_part = always ? most - kCostOfRow - kCostOfIntercepts : share;
      from = std::lower_bound(from + 1, before.end(), *from + of_part);
      if (from == before.end()) break;
      end.push_back(static_cast<FeatureId>(from - before.begin()));
    }
    return end;
  };
  double low = 0, high = kCostOfRow + kCostOfIntercepts + before.back();
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

LineOwners::LineOwners(const DataView& data, const Draw* draw, std::size_t members, bool intercept,
                       bool ridge)
    : members_(members), intercept_(intercept), blocks_of_(members) {
  std::vector<double> load = block_loads(data, draw);
  const auto fair_share = [&] {
    return std::accumulate(load.begin(), load.end(), 0.0) / static_cast<double>(members);
  };
  // Rounding: with as many blocks as threads none is heavy.
  constexpr double kMore = 1 + 1e-9;
  const double most = kMore * fair_share();
  std::vector<bool> heavy(load.size());
  for (std::size_t b = 0; b < load.size(); ++b) {
    // Also as a cut, or it would have one part.
    const double cut = cost_of_cut(ridge) * load[b];
    heavy[b] = members > 1 && std::min(load[b], cut) > most;
    if (heavy[b]) load[b] = cut;
  }
  const double fair = fair_share();
  owner_.resize(load.size());
  own_number_.resize(load.size());
  std::vector<std::uint32_t> order(load.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return load[a] > load[b]; });
  // The next heaviest block to the thread with the least.
  using Loaded = std::pair<double, std::uint32_t>;
  std::priority_queue<Loaded, std::vector<Loaded>, std::greater<>> least;
  for (std::uint32_t m = 0; m < members; ++m) least.emplace(0.0, m);
  const auto give = [&](double more) {
    const auto [loaded, member] = least.top();
    least.pop();
    least.emplace(loaded + more, member);
    return member;
  };
  std::vector<double> shares;
  for (const std::uint32_t b : order) {
    if (!heavy[b]) {
      owner_[b] = give(load[b]);
      own_number_[b] = blocks_of_[owner_[b]]++;
      continue;
    }
    if (shares.empty()) shares = feature_shares(data);
    const std::size_t parts =
        std::min({static_cast<std::size_t>(std::ceil(load[b] / fair)), members, kMostParts});
    owner_[b] = static_cast<std::uint32_t>(members + cuts_.size());
    Cut& cut = cuts_.emplace_back();
    cut.block = b;
    cut.end = equal_parts(shares, parts, intercept);
    cut.part.resize(shares.size());
    for (std::size_t f = 0, p = 0; f < shares.size(); ++f) {
      while (f >= cut.end[p]) ++p;
      cut.part[f] = static_cast<PartId>(p);
    }
    for (std::size_t p = 0; p < parts; ++p) cut.owner.push_back(give(load[b] / static_cast<double>(parts)));
  }
}

std::size_t LineOwners::most_cuts() const {
  std::size_t more = 0;
  for (const Cut& cut : cuts_) more += cut.owner.size() - 1;
  return more;
}

}  // namespace truemax
