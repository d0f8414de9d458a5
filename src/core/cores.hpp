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

// For every member that is on the same core as one before it: writes a core that has no member to go_to, as
// long as there are any, the next one after its own. Returns how many. `core_of`: by member; -1: not known.
std::size_t move_apart(std::span<const int> core_of, std::span<const int> usable,
                       std::span<int> go_to) noexcept;

}  // namespace truemax
