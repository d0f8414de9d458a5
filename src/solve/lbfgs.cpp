#include "solve/lbfgs.hpp"

#include <algorithm>
#include <cmath>

namespace truemax {

std::size_t CurvaturePairs::next_slot() {
  if (used == rooms) {
    oldest = (oldest + 1) % rooms;
    --used;
  }
  return slot(used);
}

void CurvaturePairs::add(std::span<const double> moves_by_change, std::span<const double> changes_by_change) {
  const std::size_t to = next_slot();
  ++used;
  for (std::size_t i = 0; i < used; ++i) {
    const std::size_t at = slot(i);
    move_change[at * rooms + to] = moves_by_change[at];
    change_change[at * rooms + to] = change_change[to * rooms + at] = changes_by_change[at];
  }
}

// q = g - sum a_i y_i from the newest to the oldest, then r = scale q + sum (a_i - b_i) s_i back again, with
// a_i = s_i q / s_i y_i and b_i = y_i r / s_i y_i; the direction is -r.
void CurvaturePairs::direction(std::span<const double> moves_by_gradient,
                               std::span<const double> changes_by_gradient, Factors& out) const {
  out.of_gradient = -1;
  if (used == 0) return;
  const auto s_y = [&](std::size_t i, std::size_t j) { return move_change[i * rooms + j]; };
  const auto y_y = [&](std::size_t i, std::size_t j) { return change_change[i * rooms + j]; };
  const std::span<double> a = out.of_change;
  for (std::size_t i = used; i-- > 0;) {
    const std::size_t at = slot(i);
    double s_q = moves_by_gradient[at];
    for (std::size_t j = i + 1; j < used; ++j) s_q -= a[slot(j)] * s_y(at, slot(j));
    a[at] = s_q / s_y(at, at);
  }
  const std::size_t newest = slot(used - 1);
  const double scale = s_y(newest, newest) / y_y(newest, newest);
  for (std::size_t i = 0; i < used; ++i) {
    const std::size_t at = slot(i);
    double y_q = changes_by_gradient[at], y_r = 0;
    for (std::size_t j = 0; j < used; ++j) y_q -= a[slot(j)] * y_y(at, slot(j));
    for (std::size_t j = 0; j < i; ++j) y_r -= out.of_move[slot(j)] * s_y(slot(j), at);
    y_r += scale * y_q;
    out.of_move[at] = y_r / s_y(at, at) - a[at];
  }
  for (std::size_t i = 0; i < used; ++i) a[slot(i)] *= scale;
  out.of_gradient = -scale;
}

void LineSearch::start(double loss_here, double slope_here, double most) {
  loss = loss_here, slope = slope_here, length = most, tries = 0;
  least = std::min(least, loss);
}

LineSearch::Verdict LineSearch::judge(double loss_there, double slope_there) {
  constexpr double kDecrease = 1e-4;  // of what the slope promises
  constexpr double kRounding = 1e-7;  // of a loss
  constexpr double kMostSlope = 0.8;  // of the first one, upwards
  constexpr double kLeastShare = 0.1, kMostShare = 0.5;
  constexpr std::uint64_t kMostTries = 20;
  const bool finite = std::isfinite(loss_there) && std::isfinite(slope_there);
  if (finite && loss_there <= loss + kDecrease * length * slope) return Verdict::accepted;
  if (finite && loss_there <= least + kRounding * std::abs(least) && slope_there <= -kMostSlope * slope)
    return Verdict::accepted;
  if (++tries >= kMostTries) return Verdict::failed;
  // The least of the cubic with these losses and slopes (Nocedal & Wright, 3.59).
  double share = kLeastShare;
  if (finite) {
    const double d1 = slope + slope_there - 3 * (loss_there - loss) / length;
    const double d2 = std::sqrt(std::max(0.0, d1 * d1 - slope * slope_there));
    const double found = 1 - (slope_there + d2 - d1) / (slope_there - slope + 2 * d2);
    if (std::isfinite(found)) share = std::clamp(found, kLeastShare, kMostShare);
  }
  length *= share;
  return Verdict::shorter;
}

}  // namespace truemax
