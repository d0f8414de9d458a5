// The runtime of tests: memory and threads of the CPU.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/error.hpp"
#include "cuda/emulated.hpp"
#include "device/engine.hpp"

namespace truemax::cuda {

class EmulatedRuntime {
 public:
  static constexpr bool kEmulated = true;
  static constexpr std::uint32_t kThreads = 64, kRowThreads = 32;  // of blocks: few, because they are slow

  explicit EmulatedRuntime(int /*card*/) {}
  device::Card card() const { return {"the CPU", kMemory, kMemory, 0}; }
  std::uint64_t free_memory() const { return kMemory; }
  std::uint32_t most_blocks() const { return 3; }
  std::uint32_t multiprocessors() const { return 2; }

  void* allocate(std::size_t bytes) {
    if (bytes > kMost)  // as a card does
      throw UserError(
          "--device cuda: taking memory failed: out of memory; use --device cpu, or free the card");
    void* const there = std::malloc(bytes + 1);
    if (there == nullptr) throw std::bad_alloc();
    std::memset(there, 0xFF, bytes + 1);  // memory of a device is not cleared
    return there;
  }
  void free(void* there) { std::free(there); }
  void to_device(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void to_host(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void send(void* to, const void* from, std::size_t bytes) { to_device(to, from, bytes); }
  void clear(void* to, std::size_t bytes) { std::memset(to, 0, bytes); }

  void start_clock() { started_ = std::chrono::steady_clock::now(); }
  double stop_clock() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }
  template <class Kernel>
  void launch_beside(const Kernel& kernel, std::uint32_t blocks, std::uint32_t threads,
                     std::size_t shared_bytes) {
    launch(kernel, blocks, threads, shared_bytes);
  }
  void join() {}
  template <class Kernel>
  std::uint32_t resident_blocks(std::uint32_t /*threads*/, std::size_t /*shared_bytes*/) {
    return most_blocks();
  }
  template <class Kernel>
  void launch(const Kernel& kernel, std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes) {
    run_emulated(blocks, threads, shared_bytes, kernel);
  }

 private:
  static constexpr std::uint64_t kMemory = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 40;  // more than any card has
  std::chrono::steady_clock::time_point started_;
};

}  // namespace truemax::cuda
