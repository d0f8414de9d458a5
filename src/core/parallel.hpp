// Work over several threads with results that do not depend on their number: the caller cuts the work into
// chunks of a fixed size, each chunk writes only its own place, and sums are taken in chunk order afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace truemax {

// The threads a run may use: the cores this process may run on.
std::size_t available_threads();
// What a --threads option means: 0 is all of them.
std::size_t resolve_threads(std::uint64_t asked);

// Calls work(chunk) for every chunk in [0, chunks), on at most `threads` threads (the caller is one of them);
// on fewer where the system gives no more.
// The first exception stops the remaining chunks and is thrown here.
void parallel_for(std::size_t chunks, std::size_t threads, const std::function<void(std::size_t)>& work);

}  // namespace truemax
