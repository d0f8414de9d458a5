// Where the threads of a team run. When many wake at once, the system may put two of them on one core and
// leave them there for 50 ms or more, while all others wait for both.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace truemax {

// The core that the calling thread is on; -1: not known.
int current_core();
// Those that this thread may use.
std::vector<int> usable_cores();
// The calling thread goes on there. It is not bound to it: the system may move it again.
void go_to_core(int core);

struct CoreMove {
  std::size_t member;
  int core;
  bool operator==(const CoreMove&) const = default;
};
// Members that are on the same core as one before them, and a core for each that has no member, as far as
// there are such cores. `core_of`: by member; -1: not known.
std::vector<CoreMove> moves_apart(std::span<const int> core_of, std::span<const int> usable);

}  // namespace truemax
