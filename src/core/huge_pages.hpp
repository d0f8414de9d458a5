// Large memory on huge pages: fewer page faults while it is filled, fewer TLB misses in random reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <type_traits>
#include <vector>

namespace truemax {

// Zeroed memory from the system, with huge pages requested and 2 MiB alignment if it is that large. Pages
// that are never written cost nothing.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(std::size_t bytes);
  ~HugeBuffer();
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;
  HugeBuffer(const HugeBuffer&) = delete;
  HugeBuffer& operator=(const HugeBuffer&) = delete;

  float* data() const { return data_; }

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  float* data_ = nullptr;
};

namespace detail {
inline constexpr std::size_t kHugePage = std::size_t{1} << 21;
void advise_huge_pages(void* start, std::size_t bytes);
// Returns the whole pages of this memory to the system; they read as zeros afterwards.
void release_pages(void* start, std::size_t bytes);
// Writes a zero to every page of memory that holds nothing yet.
void touch_pages(void* start, std::size_t bytes, std::size_t threads);
}  // namespace detail

// Memory that holds nothing yet.
struct FreshPages {
  void* start;
  std::size_t bytes;
  void clear(std::size_t threads) const { detail::touch_pages(start, bytes, threads); }
};

// For std::vector: large arrays get huge pages of their own, small ones come from the heap.
template <class T>
struct HugeAllocator {
  using value_type = T;
  HugeAllocator() = default;
  template <class U>
  HugeAllocator(const HugeAllocator<U>&) {}  // NOLINT(google-explicit-constructor): as the standard asks

  static std::align_val_t alignment(std::size_t bytes) {
    return std::align_val_t{bytes >= detail::kHugePage ? detail::kHugePage : alignof(std::max_align_t)};
  }
  T* allocate(std::size_t n) {
    if (n > static_cast<std::size_t>(-1) / 2 / sizeof(T)) throw std::bad_array_new_length();
    const std::size_t bytes = n * sizeof(T);
    void* const start = ::operator new(bytes, alignment(bytes));
    if (bytes >= detail::kHugePage) detail::advise_huge_pages(start, bytes);
    return static_cast<T*>(start);
  }
  void deallocate(T* start, std::size_t n) { ::operator delete(start, alignment(n * sizeof(T))); }
  bool operator==(const HugeAllocator&) const { return true; }
};

template <class T>
using HugeVector = std::vector<T, HugeAllocator<T>>;

// reserve() that frees the old memory piece by piece: a large array never exists twice.
template <class T, class Allocator>
void reserve_in_place(std::vector<T, Allocator>& v, std::size_t capacity) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (capacity <= v.capacity()) return;
  constexpr std::size_t kPiece = 4 * detail::kHugePage / sizeof(T);
  std::vector<T, Allocator> larger;
  larger.reserve(capacity);
  for (std::size_t at = 0; at < v.size(); at += kPiece) {
    const std::size_t count = std::min(kPiece, v.size() - at);
    larger.insert(larger.end(), v.data() + at, v.data() + at + count);
    if (count == kPiece) detail::release_pages(v.data() + at, count * sizeof(T));
  }
  v.swap(larger);
}

// resize() of new memory, whose pages the threads share: the system clears a page when it is first touched,
// which takes longer than to write to it.
template <class T>
void resize_with(HugeVector<T>& v, std::size_t size, std::size_t threads) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (size > v.capacity()) {
    v.reserve(size);
    const std::size_t bytes = (size - v.size()) * sizeof(T);
    if (threads > 1 && bytes >= 4 * detail::kHugePage)
      detail::touch_pages(v.data() + v.size(), bytes, threads);
  }
  v.resize(size);
}

// Frees the memory beyond the end without a copy. The capacity stays.
template <class T>
void release_room(HugeVector<T>& v) {
  static_assert(std::is_trivially_copyable_v<T>);
  detail::release_pages(v.data() + v.size(), (v.capacity() - v.size()) * sizeof(T));
}

}  // namespace truemax
