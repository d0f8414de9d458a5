// The memory budget: one account that readers charge before they allocate.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>

#include "core/files.hpp"

namespace truemax {

// A charge that exceeds the budget. Readers turn it into a UserError with file and line; otherwise it is
// handled like any other lack of memory.
class OverBudget : public std::bad_alloc {
 public:
  OverBudget(std::uint64_t needed, std::uint64_t limit, bool given)
      : needed_(needed), limit_(limit), given_(given) {}
  const char* what() const noexcept override { return "more memory than the budget allows"; }
  std::uint64_t needed() const { return needed_; }  // in total
  std::uint64_t limit() const { return limit_; }
  bool given() const { return given_; }  // the limit was set by an option; otherwise it is the free memory

 private:
  std::uint64_t needed_, limit_;
  bool given_;
};

// Thread-safe.
class MemoryBudget {
 public:
  // Always granted: reading cannot keep to a limit below what the program itself takes. What a run needs in
  // total is checked elsewhere, with its numbers.
  static constexpr std::uint64_t kLeast = std::uint64_t{16} << 20;

  // `limit` 0: the free memory, checked again as charges grow. `available` is for tests.
  explicit MemoryBudget(std::uint64_t limit = 0, std::function<std::uint64_t()> available = available_memory);

  std::uint64_t held() const;
  std::uint64_t left() const;

 private:
  friend class MemoryCharge;
  void replace(std::uint64_t old_bytes, std::uint64_t new_bytes);
  void look();

  mutable std::mutex mutex_;
  bool given_;
  std::function<std::uint64_t()> available_;
  std::uint64_t limit_ = 0, held_ = 0;
  std::uint64_t next_look_ = 0;  // check the free memory again once this much is held
};

// The bytes that one holder has charged; returned when it is destroyed.
class MemoryCharge {
 public:
  MemoryCharge() = default;  // without a budget: never refused
  explicit MemoryCharge(std::shared_ptr<MemoryBudget> budget, std::uint64_t bytes = 0)
      : budget_(std::move(budget)) {
    set(bytes);
  }
  ~MemoryCharge() { release(); }
  MemoryCharge(MemoryCharge&& other) noexcept;
  MemoryCharge& operator=(MemoryCharge&& other) noexcept;
  // A copy is not charged: whoever copies charges the copy.
  MemoryCharge(const MemoryCharge&) {}  // NOLINT(bugprone-copy-constructor-init)
  MemoryCharge& operator=(const MemoryCharge& other);

  // Throws OverBudget if it does not fit; the charge then stays what it was.
  void set(std::uint64_t bytes);
  void add(std::uint64_t bytes) { set(bytes_ + bytes); }
  void release() noexcept;
  std::uint64_t bytes() const { return bytes_; }
  const std::shared_ptr<MemoryBudget>& budget() const { return budget_; }

 private:
  std::shared_ptr<MemoryBudget> budget_;
  std::uint64_t bytes_ = 0;
};

}  // namespace truemax
