// Kernels on the CPU, for tests: each thread of a block is a fiber that runs until it has to exchange
// something with others. Slow, in one fixed order, and strict: a thread that waits for one that has ended is
// an error instead of a hang.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

namespace truemax::cuda {

// One block of threads.
class EmulatedBlock {
 public:
  using Body = std::function<void(std::uint32_t thread)>;

  EmulatedBlock(std::uint32_t threads, std::size_t shared_bytes)
      : fibers_(threads), slots_(threads), shared_(shared_bytes / sizeof(double) + 1) {}
  EmulatedBlock(const EmulatedBlock&) = delete;
  EmulatedBlock& operator=(const EmulatedBlock&) = delete;
  // A fiber that was given up half-way may have left anything on its stack, such as marks of a sanitizer.
  ~EmulatedBlock() {
    for (const auto& fiber : fibers_)
      if (fiber && fiber->done) stacks_.push_back(std::move(fiber->stack));
  }

  char* shared() { return reinterpret_cast<char*>(shared_.data()); }

  void run(const Body& body) {
    body_ = &body;
    // What is left in shared memory by an earlier block must not help.
    std::memset(shared(), 0xFF, shared_.size() * sizeof(double));
    for (std::uint32_t i = 0; i < fibers_.size(); ++i) start(i);
    std::size_t left = fibers_.size();
    while (left > 0) {
      bool moved = false;
      for (std::uint32_t i = 0; i < fibers_.size(); ++i) {
        Fiber& fiber = *fibers_[i];
        if (fiber.done || fiber.waits_for > fiber.arrived->turn) continue;
        moved = true;
        now_ = i, here_ = this;
        swapcontext(&main_, &fiber.context);
        if (fiber.error) std::rethrow_exception(fiber.error);
        if (fiber.done) --left;
      }
      if (!moved) throw std::logic_error("threads of a kernel wait for some that have ended");
    }
  }

  static EmulatedBlock& here() { return *here_; }
  std::uint32_t thread() const { return now_; }
  std::uint32_t threads() const { return static_cast<std::uint32_t>(fibers_.size()); }

  // Waits for all `size` threads of the group of this one.
  void wait(std::uint32_t size) {
    Fiber& fiber = *fibers_[now_];
    Meeting& meeting = meeting_of(now_, size);
    fiber.arrived = &meeting;
    fiber.waits_for = meeting.turn + 1;
    if (++meeting.there == size) {
      meeting.there = 0;
      ++meeting.turn;
      return;
    }
    swapcontext(&fiber.context, &main_);
    now_ = fiber.number, here_ = this;
  }

  // What thread `from` of the group of `size` has given.
  template <class T>
  T exchange(const T& mine, std::uint32_t size, std::uint32_t from) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::memcpy(&slots_[now_], &mine, sizeof mine);
    wait(size);
    T theirs;
    std::memcpy(&theirs, &slots_[now_ / size * size + from], sizeof theirs);
    wait(size);
    return theirs;
  }
  template <class T, class Combine>
  T combined(const T& mine, std::uint32_t size, Combine&& combine) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::memcpy(&slots_[now_], &mine, sizeof mine);
    wait(size);
    T all{};
    for (std::uint32_t i = 0; i < size; ++i) {
      T other;
      std::memcpy(&other, &slots_[now_ / size * size + i], sizeof other);
      all = i == 0 ? other : combine(all, other);
    }
    wait(size);
    return all;
  }

 private:
  struct Meeting {
    std::uint32_t there = 0;
    std::uint64_t turn = 0;
  };
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<char[]> stack;
    std::uint32_t number = 0;
    Meeting nowhere;
    Meeting* arrived = &nowhere;
    std::uint64_t waits_for = 0;
    bool done = false;
    std::exception_ptr error;
  };

  Meeting& meeting_of(std::uint32_t thread, std::uint32_t size) {
    for (auto& [of, list] : meetings_)
      if (of == size) return list[thread / size];
    meetings_.emplace_back(size, std::vector<Meeting>(threads() / size));
    return meetings_.back().second[thread / size];
  }

  void start(std::uint32_t i) {
    constexpr std::size_t kStack = 256 << 10;
    if (!fibers_[i]) {
      fibers_[i] = std::make_unique<Fiber>();
      if (stacks_.empty()) stacks_.push_back(std::make_unique_for_overwrite<char[]>(kStack));
      fibers_[i]->stack = std::move(stacks_.back());
      stacks_.pop_back();
    }
    Fiber& fiber = *fibers_[i];
    fiber.number = i, fiber.done = false, fiber.error = nullptr;
    fiber.arrived = &fiber.nowhere, fiber.waits_for = 0;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = &main_;
    makecontext(&fiber.context, &EmulatedBlock::enter, 0);
  }

  static void enter() {
    EmulatedBlock& block = *here_;
    Fiber& fiber = *block.fibers_[block.now_];
    try {
      (*block.body_)(fiber.number);
    } catch (...) {  // rethrown by run()
      fiber.error = std::current_exception();
    }
    fiber.done = true;  // and on to uc_link: a sanitizer that counts calls sees all of them end
  }

  static inline thread_local EmulatedBlock* here_ = nullptr;
  // Of blocks that have ended: making 256 stacks for each launch takes far longer than most kernels.
  static inline thread_local std::vector<std::unique_ptr<char[]>> stacks_;
  const Body* body_ = nullptr;
  ucontext_t main_{};
  std::uint32_t now_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::uint64_t> slots_;
  std::vector<double> shared_;
  std::vector<std::pair<std::uint32_t, std::vector<Meeting>>> meetings_;
};

template <int kSize>
class Group {
 public:
  int lane() const { return static_cast<int>(EmulatedBlock::here().thread() % kSize); }
  void sync() const { EmulatedBlock::here().wait(kSize); }
  template <class T>
  T from(T x, int lane) const {
    return EmulatedBlock::here().exchange(x, kSize, static_cast<std::uint32_t>(lane));
  }
  template <class T>
  T sum(T x) const {
    return EmulatedBlock::here().combined(x, kSize, [](T a, T b) { return a + b; });
  }
  template <class T>
  T highest(T x) const {
    return EmulatedBlock::here().combined(x, kSize, [](T a, T b) { return a < b ? b : a; });
  }
  float highest_number(float x) const { return highest(x); }
  std::uint32_t ballot(bool holds) const {
    const std::uint32_t mine = holds ? 1U << lane() : 0;
    return EmulatedBlock::here().combined(mine, kSize,
                                          [](std::uint32_t a, std::uint32_t b) { return a | b; });
  }
};

class Warp : public Group<32> {
 public:
  bool any(bool holds) const { return ballot(holds) != 0; }
  std::uint32_t same(std::uint32_t x) const {
    std::uint32_t mask = 0;
    for (int i = 0; i < 32; ++i)
      if (from(x, i) == x) mask |= 1U << i;
    return mask;
  }
  template <int kWidth, class T>
  T sum_of(T x) const {
    return Group<kWidth>().sum(x);
  }
  template <int kWidth, class T>
  void sum_both_of(T& x, T& y) const {
    x = sum_of<kWidth>(x), y = sum_of<kWidth>(y);
  }
  template <int kWidth, class T>
  T highest_of(T x) const {
    return Group<kWidth>().highest(x);
  }
};

struct Thread {
  char* shared;
  std::uint32_t block_number, block_count;
  std::uint32_t block() const { return block_number; }
  std::uint32_t blocks() const { return block_count; }
  std::uint32_t number() const { return EmulatedBlock::here().thread(); }
  std::uint32_t threads() const { return EmulatedBlock::here().threads(); }
  void sync() const { EmulatedBlock::here().wait(threads()); }
  template <int kSize>
  Group<kSize> group() const {
    return {};
  }
  Warp warp() const { return {}; }
};

struct Four {
  float at[4];
};
inline Four load_four(const float* from) {
  return {{from[0], from[1], from[2], from[3]}};
}
inline void prefetch(const void* /*from*/, std::uint32_t /*bytes*/) {}
inline void prefetch_one(const void* /*from*/) {}
inline float load_late(const float* from) {
  return *from;
}
inline void add(float* to, float x) {
  *to += x;
}
inline void add(double* to, double x) {
  *to += x;
}
inline void raise(std::uint64_t* to, std::uint64_t x) {
  if (*to < x) *to = x;
}

// Runs a kernel on `blocks` blocks of `threads` threads.
template <class Kernel>
void run_emulated(std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes,
                  const Kernel& kernel) {
  EmulatedBlock block(threads, shared_bytes);
  for (std::uint32_t b = 0; b < blocks; ++b)
    block.run([&](std::uint32_t /*thread*/) { kernel(Thread{block.shared(), b, blocks}); });
}

}  // namespace truemax::cuda
