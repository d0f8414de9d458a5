#include "core/memory_budget.hpp"

#include <algorithm>
#include <utility>

namespace truemax {

MemoryBudget::MemoryBudget(std::uint64_t limit, std::function<std::uint64_t()> available)
    : given_(limit > 0), available_(std::move(available)), limit_(std::max(limit, kLeast)) {
  if (!given_) look();
}

std::uint64_t MemoryBudget::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

std::uint64_t MemoryBudget::left() const {
  const std::lock_guard lock(mutex_);
  return limit_ > held_ ? limit_ - held_ : 0;
}

// Reading free memory opens files, so it happens once per 64 MB or per eighth of the free memory. Other
// processes may allocate meanwhile: a sixteenth is left to them.
void MemoryBudget::look() {
  constexpr std::uint64_t kStep = std::uint64_t{64} << 20;
  const std::uint64_t free = available_();
  limit_ = std::max(kLeast, held_ + (free - free / 16));
  if (limit_ < held_) limit_ = ~std::uint64_t{0};  // free memory is unknown
  next_look_ = held_ + std::max(kStep, std::min(free, std::uint64_t{1} << 40) / 8);
}

void MemoryBudget::replace(std::uint64_t old_bytes, std::uint64_t new_bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t others = held_ - old_bytes;
  if (new_bytes > old_bytes) {
    if (!given_ && (others + new_bytes > next_look_ || others + new_bytes > limit_)) look();
    if (new_bytes > limit_ || others > limit_ - new_bytes)
      throw OverBudget(others + new_bytes, limit_, given_);
  }
  held_ = others + new_bytes;
}

MemoryCharge::MemoryCharge(MemoryCharge&& other) noexcept
    : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryCharge& MemoryCharge::operator=(MemoryCharge&& other) noexcept {
  if (this == &other) return *this;
  release();
  budget_ = std::move(other.budget_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

MemoryCharge& MemoryCharge::operator=(const MemoryCharge& other) {
  if (this == &other) return *this;
  release();
  budget_.reset();
  return *this;
}

void MemoryCharge::set(std::uint64_t bytes) {
  if (budget_ && bytes != bytes_) budget_->replace(bytes_, bytes);
  bytes_ = bytes;
}

void MemoryCharge::release() noexcept {
  if (budget_ && bytes_ > 0) budget_->replace(bytes_, 0);
  bytes_ = 0;
}

}  // namespace truemax
