// For tests: ranks that are threads of one process, so that everything that many machines do runs without
// MPI.
#pragma once

#include <cstddef>
#include <functional>

#include "ranks/ranks.hpp"

namespace truemax {

// Calls run(ranks) in `size` threads; ranks() is the thread's own. If one throws, all others get LostRanks
// where they wait, and the first exception is thrown here.
void run_thread_ranks(std::size_t size, const std::function<void(Ranks&)>& run);

}  // namespace truemax
