// Memory of the readers: arrays that are charged as they grow, and the error if memory is short.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/huge_pages.hpp"
#include "core/memory_budget.hpp"

namespace truemax {

// Makes room for `more` items, charged before it is allocated. Grows by half, and a large array never exists
// twice.
template <class T, class Allocator>
void grow(std::vector<T, Allocator>& v, std::size_t more, MemoryCharge& charge) {
  if (more <= v.capacity() - v.size()) return;
  constexpr std::size_t kLeast = 1024;
  const std::size_t room = std::max({v.size() + more, v.capacity() + v.capacity() / 2, kLeast});
  charge.add((room - v.capacity()) * sizeof(T));
  reserve_in_place(v, room);
}

// Text to read at a time if only the numbers in it are kept.
inline std::size_t small_window(const std::shared_ptr<MemoryBudget>& memory) {
  constexpr std::uint64_t kMost = 1U << 20, kLeast = 1U << 16;
  return static_cast<std::size_t>(memory ? std::clamp(memory->left() / 64, kLeast, kMost) : kMost);
}

inline constexpr const char* kMoreMemory = "give a smaller file, or raise --memory-limit";

// Advice for formats that can be streamed.
inline constexpr char kOrStream[] = ", train from a cache with --stream (truemax convert --help)";
// "path:line: not enough memory to read on after 12 rows: needs 1.1 GB, --memory-limit is 1.0 GB".
UserError memory_error(const OverBudget& over, std::string_view path, std::uint64_t line,
                       std::string_view so_far, std::string_view advice);

}  // namespace truemax
