#include "core/huge_pages.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "core/parallel.hpp"

namespace truemax {

// Advice only: without huge pages the run is slower but correct.
void detail::advise_huge_pages(void* start, std::size_t bytes) {
  madvise(start, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
}

void detail::release_pages(void* start, std::size_t bytes) {
  constexpr std::uintptr_t kPage = 4096;  // where pages are larger, the advice is refused: harmless
  if (bytes < kHugePage) return;
  const std::size_t before = (kPage - reinterpret_cast<std::uintptr_t>(start) % kPage) % kPage;
  madvise(static_cast<char*>(start) + before, (bytes - before) / kPage * kPage, MADV_DONTNEED);
}

void detail::touch_pages(void* start, std::size_t bytes, std::size_t threads) {
  constexpr std::size_t kPage = 4096;
  char* const at = static_cast<char*>(start);
  parallel_for((bytes + kHugePage - 1) / kHugePage, threads, [&](std::size_t page) {
    for (std::size_t b = page * kHugePage; b < std::min(bytes, (page + 1) * kHugePage); b += kPage) at[b] = 0;
  });
}

HugeBuffer::HugeBuffer(std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t slack = bytes >= detail::kHugePage ? detail::kHugePage : 0;
  mapped_ = bytes + slack;
  mapping_ =
      mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw std::bad_alloc();
  }
  char* start = static_cast<char*>(mapping_);
  if (slack > 0) {
    const std::size_t beyond = reinterpret_cast<std::uintptr_t>(mapping_) % detail::kHugePage;
    if (beyond > 0) start += detail::kHugePage - beyond;
    madvise(start, bytes, MADV_HUGEPAGE);  // no other mapping shares the last, partial page
  }
  data_ = reinterpret_cast<float*>(start);
}

HugeBuffer::~HugeBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      data_(std::exchange(other.data_, nullptr)) {}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  return *this;
}

}  // namespace truemax
