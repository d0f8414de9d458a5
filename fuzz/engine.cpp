// libFuzzer's entry points. TRUEMAX_FUZZ_TARGET names the target: one program has all of them, so that the
// libraries are instrumented and linked once.
#include <sanitizer/allocator_interface.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "target.hpp"

namespace {

using namespace truemax::fuzz;

const Target* chosen = nullptr;

// Bytes that are allocated now, and the most since the start of an input. Counted only while a target runs.
std::atomic<std::int64_t> held{0}, most{0};
std::atomic<bool> counting{false};

void allocated(const volatile void* start, std::size_t size) {
  if (start == nullptr || !counting.load(std::memory_order_relaxed)) return;
  const std::int64_t now = held.fetch_add(static_cast<std::int64_t>(size)) + static_cast<std::int64_t>(size);
  std::int64_t before = most.load();
  while (now > before && !most.compare_exchange_weak(before, now)) {
  }
}

void freed(const volatile void* start) {
  if (start == nullptr || !counting.load(std::memory_order_relaxed)) return;
  held.fetch_sub(static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(start))));
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* const name = std::getenv("TRUEMAX_FUZZ_TARGET");
  chosen = find_target(name == nullptr ? "" : name);
  if (chosen == nullptr) {
    std::fprintf(stderr, "TRUEMAX_FUZZ_TARGET must be one of:");
    for (const Target& target : targets()) std::fprintf(stderr, " %s", target.name);
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  if (const char* const folder = std::getenv("TRUEMAX_FUZZ_SEEDS"); folder != nullptr) {
    write_seeds(folder);
    std::exit(0);
  }
  __sanitizer_install_malloc_and_free_hooks(allocated, freed);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  held = 0, most = 0, counting = true;
  chosen->run({reinterpret_cast<const char*>(data), size});
  counting = false;
  // What a target allocates to check promises counts too, hence the generous factor.
  constexpr std::int64_t kFactor = 512;
  if (most > static_cast<std::int64_t>(2 * kBudget) + kFactor * static_cast<std::int64_t>(size))
    broken("memory is bounded by the size of the input: " + std::to_string(most.load()) + " bytes for " +
           std::to_string(size));
  return 0;
}
