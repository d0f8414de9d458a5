#include "core/parallel.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "core/error.hpp"
#include "core/team.hpp"

namespace truemax {

std::size_t available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    const int count = CPU_COUNT(&set);
    if (count > 0) return static_cast<std::size_t>(count);
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

std::size_t resolve_threads(std::uint64_t asked) {
  constexpr std::uint64_t kMostThreads = 4096;  // as of --threads; sizes are computed from it
  if (asked > kMostThreads)
    throw UserError(
        fmt::format("there are {} threads asked for; give 1 to {}, or 0 for all cores", asked, kMostThreads));
  return asked == 0 ? available_threads() : static_cast<std::size_t>(asked);
}

void parallel_for(std::size_t chunks, std::size_t threads, const std::function<void(std::size_t)>& work) {
  threads = std::min(threads, chunks);
  if (threads <= 1) {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) work(chunk);
    return;
  }
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto run = [&] {
    for (;;) {
      const std::size_t chunk = next.fetch_add(1);
      if (chunk >= chunks) return;
      try {
        work(chunk);
      } catch (...) {
        next.store(chunks);
        const std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  // Threads are kept from one call to the next: starting them takes as long as a small job. A nested or
  // concurrent call gets threads of its own.
  static std::atomic<bool> in_use{false};
  static std::unique_ptr<Team> kept;
  constexpr std::size_t kMostKept = 256;
  if (threads <= kMostKept && !in_use.exchange(true, std::memory_order_acquire)) {
    if (!kept || kept->size() < threads) {
      kept.reset();
      kept = std::make_unique<Team>(threads);
    }
    kept->share(threads, [&](std::size_t /*member*/, std::size_t /*task*/) { run(); });
    in_use.store(false, std::memory_order_release);
  } else {
    Team(threads).share(threads, [&](std::size_t /*member*/, std::size_t /*task*/) { run(); });
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace truemax
