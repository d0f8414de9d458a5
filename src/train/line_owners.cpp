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
// The same for the intercepts of a block.
constexpr double kCostOfIntercepts = 3;

// Ends of so many ranges of features with about equal work. `first_always`: the first has every row, for the
// intercept.
std::vector<FeatureId> equal_parts(const std::vector<double>& shares, std::size_t parts, bool first_always) {
  const auto cut = [&](double most) {
    std::vector<FeatureId> end;
    double seen = 0;
    for (std::size_t f = 0; f < shares.size() && end.size() < parts; ++f) {
      if (shares[f] == 0) continue;
      seen += shares[f];
      const double of_rows =
          first_always && end.empty() ? kCostOfRow + kCostOfIntercepts : kCostOfRow * (1 - std::exp(-seen));
      if (seen + of_rows >= most) end.push_back(static_cast<FeatureId>(f + 1)), seen = 0;
    }
    return end;
  };
  double low = 0, high = kCostOfRow + kCostOfIntercepts + std::accumulate(shares.begin(), shares.end(), 0.0);
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
    : members_(members), intercept_(intercept), load_(block_loads(data, draw)), blocks_of_(members) {
  const auto fair_share = [&] {
    return std::accumulate(load_.begin(), load_.end(), 0.0) / static_cast<double>(members);
  };
  // Rounding: with as many blocks as threads none is heavy.
  constexpr double kMore = 1 + 1e-9;
  const double most = kMore * fair_share();
  std::vector<std::uint32_t> heavy;
  for (std::uint32_t b = 0; b < load_.size(); ++b) {
    if (members == 1 || load_[b] <= most) {
      order_.push_back(b);
      continue;
    }
    heavy.push_back(b);
    load_[b] *= cost_of_cut(ridge);
  }
  const auto heavier = [&](std::uint32_t a, std::uint32_t b) { return load_[a] > load_[b]; };
  std::stable_sort(order_.begin(), order_.end(), heavier);
  std::stable_sort(heavy.begin(), heavy.end(), heavier);
  owner_.resize(load_.size());
  own_number_.resize(load_.size());
  const double fair = fair_share();
  std::vector<double> shares;
  for (const std::uint32_t b : heavy) {
    if (shares.empty()) shares = feature_shares(data);
    const std::size_t parts = std::min(static_cast<std::size_t>(std::ceil(load_[b] / fair)), members);
    owner_[b] = static_cast<std::uint32_t>(members + cuts_.size());
    cuts_.push_back({b, equal_parts(shares, parts, intercept), std::vector<std::uint32_t>(parts)});
  }
  deal(std::vector<double>(members, 1.0));
}

void LineOwners::deal(std::span<const double> speeds) {
  std::vector<double> loaded(members_, 0.0);
  // A part of a cut goes to the thread that would be done with it first; of the blocks, which are many and
  // small, the next heaviest one to the thread that would be done first without it.
  for (Cut& cut : cuts_) {
    const double more = load_[cut.block] / static_cast<double>(cut.owner.size());
    for (std::uint32_t& owner : cut.owner) {
      owner = 0;
      for (std::uint32_t m = 1; m < members_; ++m)
        if ((loaded[m] + more) / speeds[m] < (loaded[owner] + more) / speeds[owner]) owner = m;
      loaded[owner] += more;
    }
  }
  using Time = std::pair<double, std::uint32_t>;
  std::priority_queue<Time, std::vector<Time>, std::greater<>> least;
  for (std::uint32_t m = 0; m < members_; ++m) least.emplace(loaded[m] / speeds[m], m);
  blocks_of_.assign(members_, 0);
  for (const std::uint32_t b : order_) {
    const auto [time, member] = least.top();
    least.pop();
    least.emplace(time + load_[b] / speeds[member], member);
    owner_[b] = member;
    own_number_[b] = blocks_of_[member]++;
  }
}

std::size_t LineOwners::most_cuts() const {
  std::size_t more = 0;
  for (const Cut& cut : cuts_) more += cut.owner.size() - 1;
  return more;
}

}  // namespace truemax
