// For tests: counts heap allocations. Replaces the global operators, so only one file of a test program may
// include it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace truemax {

inline std::atomic<std::size_t> heap_allocations{0};

// Allocations of all threads while work() runs.
template <class Work>
std::size_t allocations_of(Work&& work) {
  const std::size_t before = heap_allocations.load();
  work();
  return heap_allocations.load() - before;
}

namespace detail {

inline void* counted_memory(std::size_t size, std::size_t alignment) {
  heap_allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  void* memory = alignment <= alignof(std::max_align_t) ? std::malloc(size > 0 ? size : 1)
                                                        : std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace detail
}  // namespace truemax

// All forms, even those the standard defines by others: sanitizers replace each one separately. Not inlined:
// a compiler that sees only one of a pair reports a malloc/free mismatch.
#define TRUEMAX_COUNTED_FORMS(BRACKETS)                                                                   \
  [[gnu::noinline]] void* operator new BRACKETS(std::size_t size) {                                       \
    return truemax::detail::counted_memory(size, 1);                                                      \
  }                                                                                                       \
  [[gnu::noinline]] void* operator new BRACKETS(std::size_t size, std::align_val_t alignment) {           \
    return truemax::detail::counted_memory(size, static_cast<std::size_t>(alignment));                    \
  }                                                                                                       \
  [[gnu::noinline]] void* operator new BRACKETS(std::size_t size, const std::nothrow_t&) noexcept {       \
    truemax::heap_allocations.fetch_add(1, std::memory_order_relaxed);                                    \
    return std::malloc(size > 0 ? size : 1);                                                              \
  }                                                                                                       \
  [[gnu::noinline]] void operator delete BRACKETS(void* memory) noexcept {                                \
    std::free(memory);                                                                                    \
  }                                                                                                       \
  [[gnu::noinline]] void operator delete BRACKETS(void* memory, std::size_t) noexcept {                   \
    std::free(memory);                                                                                    \
  }                                                                                                       \
  [[gnu::noinline]] void operator delete BRACKETS(void* memory, const std::nothrow_t&) noexcept {         \
    std::free(memory);                                                                                    \
  }                                                                                                       \
  [[gnu::noinline]] void operator delete BRACKETS(void* memory, std::align_val_t) noexcept {              \
    std::free(memory);                                                                                    \
  }                                                                                                       \
  [[gnu::noinline]] void operator delete BRACKETS(void* memory, std::size_t, std::align_val_t) noexcept { \
    std::free(memory);                                                                                    \
  }
TRUEMAX_COUNTED_FORMS()
TRUEMAX_COUNTED_FORMS([])
#undef TRUEMAX_COUNTED_FORMS
