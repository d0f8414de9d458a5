// Parallel loops whose results do not depend on the number of threads: the caller cuts the work into chunks
// of a fixed size, each chunk writes only its own output, and sums are taken in chunk order afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace truemax {

// The cores this process may run on.
std::size_t available_threads();
// Resolves a --threads option: 0 means all cores.
std::size_t resolve_threads(std::uint64_t asked);

// Calls work(chunk) for every chunk in [0, chunks), on at most `threads` threads including the caller, or
// fewer if the system refuses to start more. The first exception stops the remaining chunks and is rethrown
// here.
void parallel_for(std::size_t chunks, std::size_t threads, const std::function<void(std::size_t)>& work);

}  // namespace truemax
