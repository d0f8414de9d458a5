#include "train/climb.hpp"

#include <cmath>

namespace truemax {

bool Climb::adopt(const char* about, const Recipe& with, double gain, const Loss& loss) {
  last = loss(about, with);
  const double bar = tried() ? least - gain * std::abs(least) : least;
  if (over_() || !(last < bar)) return false;
  least = last, best = with;
  return true;
}

void Climb::along(const Axis& axis, const Loss& loss) {
  constexpr double kMuch = 0.1;  // more of the same is likely to gain, too
  if (!tried()) least = loss(axis.about, best);
  int most = axis.most, more = axis.more;
  for (const double by : {axis.factor, 1 / axis.factor}) {
    bool moved = false;
    for (; most > 0 && !over_(); --most) {
      Recipe with = best;
      axis.move(with, by);
      const double before = least;
      if (!adopt(axis.about, with, by > 1 ? axis.gain_up : axis.gain_down, loss)) {
        --most;
        break;
      }
      if (more > 0 && least < before - kMuch * std::abs(before)) ++most, --more;
      moved = true;
    }
    if (moved) return;
  }
}

}  // namespace truemax
