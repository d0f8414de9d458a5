#include "train/row_shares.hpp"

#include <algorithm>

namespace truemax {
namespace {
// A thread counts as at most so many times faster or slower than the mean one, and so has at most the square
// of it times an equal share.
constexpr double kMostRatio = 1.25;
// The weight of the last batch in a thread's speed: it may have been disturbed.
constexpr double kNew = 0.1;
}  // namespace

RowShares::RowShares(std::size_t members) : members_(members) {
  for (std::size_t m = 0; m <= members; ++m)
    begin_.push_back(static_cast<double>(m) / static_cast<double>(members));
}

RowShares::Share RowShares::of(std::size_t rows, std::size_t member) const {
  const auto at = [&](std::size_t m) {
    return m == members_.size() ? rows : static_cast<std::size_t>(begin_[m] * static_cast<double>(rows));
  };
  return {at(member), at(member + 1) - at(member)};
}

std::size_t RowShares::most_of_one(std::size_t members, std::size_t rows) {
  const double equal = static_cast<double>(rows) / static_cast<double>(members);
  return std::min(rows, static_cast<std::size_t>(kMostRatio * kMostRatio * equal) + 2);  // rounding
}

std::size_t RowShares::most_of_all(std::size_t members, std::size_t rows) {
  return static_cast<std::size_t>(kMostRatio * kMostRatio * static_cast<double>(rows)) + 2 * members + 1;
}

void RowShares::solved(std::size_t member, std::size_t rows, std::chrono::nanoseconds time) {
  members_[member].rows += static_cast<double>(rows);
  members_[member].seconds += std::chrono::duration<double>(time).count();
}

void RowShares::adapt() {
  double mean = 0;
  for (Member& m : members_) {
    if (m.rows > 0 && m.seconds > 0) {
      const double now = m.rows / m.seconds;
      m.speed = m.speed == 0 ? now : m.speed + kNew * (now - m.speed);
    }
    m.rows = 0, m.seconds = 0;
    mean += m.speed / static_cast<double>(members_.size());
  }
  if (std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.speed == 0; })) return;
  const auto ratio = [&](const Member& m) { return std::clamp(m.speed / mean, 1 / kMostRatio, kMostRatio); };
  double all = 0;
  for (const Member& m : members_) all += ratio(m);
  double before = 0;
  for (std::size_t m = 0; m < members_.size(); ++m) {
    begin_[m] = std::min(before / all, 1.0);
    before += ratio(members_[m]);
  }
}

}  // namespace truemax
