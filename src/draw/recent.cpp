#include "draw/recent.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/random.hpp"

namespace truemax {
namespace {

[[noreturn]] void refuse_ring() {
  throw UserError(
      "the ring of recent labels does not fit its counts; pass both as an earlier step left them, or set "
      "both and the number of labels to 0");
}

}  // namespace

std::size_t RecentLabels::draw(std::span<std::uint64_t> words, double uniform_share, ClassId* classes,
                               double* weights) const {
  const std::size_t draws = words.size() / 2;
  const std::uint64_t there = held();
  const double uniform = there == 0 ? 1 : uniform_share;
  for (std::size_t j = 0; j < draws; ++j) {
    const std::uint64_t place = words[2 * j + 1];
    if (uniform_unit(words[2 * j]) < uniform) {
      words[j] = uniform_below(place, count.size());
      continue;
    }
    const std::int32_t k = ring[uniform_below(place, there)];
    if (k < 0 || static_cast<std::size_t>(k) >= count.size() || count[static_cast<std::size_t>(k)] < 1)
      refuse_ring();
    words[j] = static_cast<std::uint64_t>(k);
  }
  std::sort(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(draws));
  std::size_t out = 0;
  for (std::size_t j = 0; j < draws; ++out) {
    const std::uint64_t k = words[j];
    std::size_t times = 0;
    for (; j < draws && words[j] == k; ++j) ++times;
    double q = uniform / static_cast<double>(count.size());
    if (there > 0) q += (1 - uniform) * std::max(count[k], 0) / static_cast<double>(there);
    classes[out] = static_cast<ClassId>(k);
    weights[out] = static_cast<double>(times) / (static_cast<double>(draws) * q);
  }
  return out;
}

void RecentLabels::add(ClassId label) {
  if (ring.empty()) return;
  std::int32_t& place = ring[seen % ring.size()];
  if (seen >= ring.size() && place >= 0 && static_cast<std::size_t>(place) < count.size())
    --count[static_cast<std::size_t>(place)];
  place = static_cast<std::int32_t>(label);
  ++count[label];
  ++seen;
}

}  // namespace truemax
