#include "core/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <set>

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

std::vector<CoreMove> moves_apart(std::span<const int> core_of, std::span<const int> usable) {
  std::set<int> taken;
  std::vector<std::size_t> doubled;
  for (std::size_t m = 0; m < core_of.size(); ++m)
    if (core_of[m] >= 0 && !taken.insert(core_of[m]).second) doubled.push_back(m);
  std::vector<CoreMove> moves;
  auto free = usable.begin();
  for (const std::size_t m : doubled) {
    free = std::find_if(free, usable.end(), [&](int core) { return !taken.contains(core); });
    if (free == usable.end()) break;
    moves.push_back({m, *free++});
  }
  return moves;
}

}  // namespace truemax
