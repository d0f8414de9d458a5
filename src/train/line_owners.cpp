#include "train/line_owners.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "train/problem.hpp"

namespace truemax {
namespace {

constexpr FeatureId kLast = std::numeric_limits<FeatureId>::max();

// Others read the lines of a heavy block, so that they are fetched anew for each update. Measured, the update
// of such a line takes so many times as long as that of a line that nobody else reads.
constexpr double kCostOfHeavy = 4;

// How many of some rows have each feature. Of a stream, all alike: its rows are not at hand.
std::vector<double> feature_counts(const DataView& data) {
  std::vector<double> counts(data.space->features, data.streamed() != nullptr ? 1.0 : 0.0);
  if (data.streamed() != nullptr) return counts;
  constexpr std::size_t kEnough = 1 << 16;
  const std::size_t stride = data.size() / kEnough + 1;
  for (std::size_t i = 0; i < data.size(); i += stride)
    for (const FeatureId f : data.x(static_cast<ExampleId>(i)).index) ++counts[f];
  return counts;
}

// Ends of so many ranges of features with about equal counts.
std::vector<FeatureId> equal_parts(const std::vector<double>& counts, std::size_t parts) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::vector<FeatureId> end;
  double before = 0;
  for (std::size_t f = 0; f < counts.size() && end.size() + 1 < parts; ++f) {
    before += counts[f];
    if (before >= total * static_cast<double>(end.size() + 1) / static_cast<double>(parts))
      end.push_back(static_cast<FeatureId>(f + 1));
  }
  end.resize(parts, kLast);
  end.back() = kLast;
  return end;
}

}  // namespace

LineOwners::LineOwners(const DataView& data, const Draw* draw, std::size_t members, bool cuts)
    : members_(members) {
  std::vector<double> load = block_loads(data, draw);
  const auto fair = [&] {
    return std::accumulate(load.begin(), load.end(), 0.0) /
           static_cast<double>(std::max<std::size_t>(members, 1));
  };
  owner_.resize(load.size());
  heavy_.resize(load.size());
  const double most = fair();
  for (std::size_t b = 0; b < load.size(); ++b)
    if (load[b] > most && members > 1) heavy_[b] = true, load[b] *= kCostOfHeavy;
  const double share = fair();
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
  std::vector<double> counts;
  for (const std::uint32_t b : order) {
    const auto parts =
        !cuts ? std::size_t{1}
              : std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(load[b] / share)), 1, members);
    if (parts == 1) {
      owner_[b] = give(load[b]);
      continue;
    }
    if (counts.empty()) counts = feature_counts(data);
    owner_[b] = static_cast<std::uint32_t>(members + cuts_.size());
    Cut& cut = cuts_.emplace_back();
    cut.end = equal_parts(counts, parts);
    for (std::size_t p = 0; p < parts; ++p) cut.owner.push_back(give(load[b] / static_cast<double>(parts)));
  }
}

std::size_t LineOwners::most_cuts() const {
  std::size_t more = 0;
  for (const Cut& cut : cuts_) more += cut.owner.size() - 1;
  return more;
}

}  // namespace truemax
