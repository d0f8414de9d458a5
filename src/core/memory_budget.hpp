// What may be taken of the memory: one account that readers charge before they grow.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>

#include "core/files.hpp"

namespace truemax {

// A charge that does not fit. The reader at hand turns it into a UserError with file and line; where none
// does, it is a lack of memory like any other.
class OverBudget : public std::bad_alloc {
 public:
  OverBudget(std::uint64_t needed, std::uint64_t limit, bool given)
      : needed_(needed), limit_(limit), given_(given) {}
  const char* what() const noexcept override { return "more memory than the budget allows"; }
  std::uint64_t needed() const { return needed_; }  // in all
  std::uint64_t limit() const { return limit_; }
  bool given() const { return given_; }  // the limit was asked for; else it is what is free

 private:
  std::uint64_t needed_, limit_;
  bool given_;
};

// Several threads may charge one budget.
class MemoryBudget {
 public:
  // So much is always there: less than the program itself takes is no limit that reading could keep, and what
  // a run needs in all is refused elsewhere, with its numbers.
  static constexpr std::uint64_t kLeast = std::uint64_t{16} << 20;

  // `limit` 0: what is free, which is looked at again as charges grow. `available` is for tests.
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
  std::uint64_t next_look_ = 0;  // what is free is looked at again when so much is held
};

// The bytes that one holder of memory has on the account; they go back with it.
class MemoryCharge {
 public:
  MemoryCharge() = default;  // on no account: never refused
  explicit MemoryCharge(std::shared_ptr<MemoryBudget> budget, std::uint64_t bytes = 0)
      : budget_(std::move(budget)) {
    set(bytes);
  }
  ~MemoryCharge() { release(); }
  MemoryCharge(MemoryCharge&& other) noexcept;
  MemoryCharge& operator=(MemoryCharge&& other) noexcept;
  // A copy is on no account: who copies charges what the copy takes.
  MemoryCharge(const MemoryCharge&) {}  // NOLINT(bugprone-copy-constructor-init)
  MemoryCharge& operator=(const MemoryCharge& other);

  // Throws OverBudget where it does not fit; the charge is then what it was.
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
