#include "core/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <bitset>

namespace truemax {

int current_core() {
  return sched_getcpu();
}

std::vector<int> usable_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

// Binding it moves it at once. If the system refuses, it stays where it is.
void go_to_core(int core) {
  if (core < 0 || core >= CPU_SETSIZE) return;
  cpu_set_t before, one;
  CPU_ZERO(&before);
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (sched_getaffinity(0, sizeof before, &before) != 0) return;
  if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof before, &before);
}

std::size_t move_apart(std::span<const int> core_of, std::span<const int> usable,
                       std::span<int> go_to) noexcept {
  const auto counts = [](int core) { return core >= 0 && core < CPU_SETSIZE; };
  std::bitset<CPU_SETSIZE> taken, seen;
  for (const int core : core_of)
    if (counts(core)) taken.set(static_cast<std::size_t>(core));
  std::size_t moves = 0;
  for (std::size_t m = 0; m < core_of.size(); ++m) {
    if (!counts(core_of[m])) continue;
    const auto own = static_cast<std::size_t>(core_of[m]);
    if (!seen.test(own)) {
      seen.set(own);
      continue;
    }
    const auto next =
        static_cast<std::size_t>(std::upper_bound(usable.begin(), usable.end(), core_of[m]) - usable.begin());
    for (std::size_t i = 0; i < usable.size(); ++i) {
      const int core = usable[(next + i) % usable.size()];
      if (!counts(core) || taken.test(static_cast<std::size_t>(core))) continue;
      taken.set(static_cast<std::size_t>(core));
      go_to[m] = core;
      ++moves;
      break;
    }
  }
  return moves;
}

}  // namespace truemax
