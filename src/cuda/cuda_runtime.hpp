// The runtime of CUDA: memory, copies, kernels and time of one card. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "core/error.hpp"
#include "cuda/thread.hpp"
#include "device/engine.hpp"

namespace truemax::cuda {

inline void check(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  throw UserError(std::string(doing) + " failed on the GPU: " + cudaGetErrorString(error) +
                  "; use --device cpu, or free the card");
}

// What a kernel says about itself: threads of a block at most, and blocks that share a multiprocessor at
// least.
template <class Kernel>
constexpr int most_threads() {
  if constexpr (requires { Kernel::kMostThreads; })
    return Kernel::kMostThreads;
  else
    return 256;
}
template <class Kernel>
constexpr int least_blocks() {
  if constexpr (requires { Kernel::kLeastBlocks; })
    return Kernel::kLeastBlocks;
  else
    return 1;
}

template <class Kernel>
__global__ void __launch_bounds__(most_threads<Kernel>(), least_blocks<Kernel>())
    run(const __grid_constant__ Kernel kernel) {
  extern __shared__ __align__(16) char shared[];
  kernel(Thread{shared});
}

class CudaRuntime {
 public:
  static constexpr bool kEmulated = false;
  static constexpr std::uint32_t kThreads = 256, kRowThreads = 128;

  explicit CudaRuntime(int card) : number_(card) {
    check(cudaSetDevice(card), "choosing the card");
    check(cudaGetDeviceProperties(&properties_, card), "asking for the card");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    check(cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking), "making a stream");
    check(cudaEventCreateWithFlags(&here_, cudaEventDisableTiming), "making an event");
    check(cudaEventCreateWithFlags(&there_, cudaEventDisableTiming), "making an event");
    check(cudaEventCreate(&from_), "making an event");
    check(cudaEventCreate(&to_), "making an event");
    const char* const times = std::getenv("TRUEMAX_KERNEL_TIMES");
    if (times != nullptr && *times == '1') times_ = std::make_unique<Times>();
  }
  ~CudaRuntime() {
    for (Staged& staged : staged_) {
      if (staged.there != nullptr) cudaFreeHost(staged.there);
      if (staged.copied != nullptr) cudaEventDestroy(staged.copied);
    }
    cudaEventDestroy(from_);
    cudaEventDestroy(to_);
    cudaEventDestroy(here_);
    cudaEventDestroy(there_);
    cudaStreamDestroy(beside_);
    cudaStreamDestroy(stream_);
  }
  CudaRuntime(const CudaRuntime&) = delete;
  CudaRuntime& operator=(const CudaRuntime&) = delete;

  device::Card card() const { return {properties_.name, properties_.totalGlobalMem, free_memory(), number_}; }
  std::uint64_t free_memory() const {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for its memory");
    return free;
  }
  std::uint32_t multiprocessors() const {
    return static_cast<std::uint32_t>(properties_.multiProcessorCount);
  }
  // Enough to fill the card several times over.
  std::uint32_t most_blocks() const { return multiprocessors() * 8; }

  void* allocate(std::size_t bytes) {
    void* there = nullptr;
    check(cudaMalloc(&there, bytes == 0 ? 1 : bytes), "taking memory");
    return there;
  }
  void free(void* there) { cudaFree(there); }
  void to_device(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "copying");
    check(cudaStreamSynchronize(stream_), "copying");
  }
  void to_host(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "copying");
    check(cudaStreamSynchronize(stream_), "copying");
  }
  // Copies without waiting for the device: `from` may change at once.
  void send(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    Staged& staged = staged_[next_staged_++ % kStaged];
    if (staged.copied == nullptr)
      check(cudaEventCreateWithFlags(&staged.copied, cudaEventDisableTiming), "making an event");
    check(cudaEventSynchronize(staged.copied), "running a kernel");
    if (staged.bytes < bytes) {
      if (staged.there != nullptr) cudaFreeHost(staged.there);
      staged.there = nullptr;
      check(cudaMallocHost(&staged.there, 2 * bytes), "taking memory of the host");
      staged.bytes = 2 * bytes;
    }
    std::memcpy(staged.there, from, bytes);
    check(cudaMemcpyAsync(to, staged.there, bytes, cudaMemcpyHostToDevice, stream_), "copying");
    check(cudaEventRecord(staged.copied, stream_), "copying");
  }
  void clear(void* to, std::size_t bytes) { check(cudaMemsetAsync(to, 0, bytes, stream_), "clearing"); }

  void start_clock() { check(cudaEventRecord(from_, stream_), "measuring"); }
  double stop_clock() {
    check(cudaEventRecord(to_, stream_), "measuring");
    check(cudaEventSynchronize(to_), "running a kernel");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, from_, to_), "measuring");
    return static_cast<double>(milliseconds) * 1e-3;
  }

  // Kernels that may run beside each other: every other one goes to a second stream, so that the card is full
  // while the last blocks of one end. join() makes all that follows wait for them.
  template <class Kernel>
  void launch_beside(const Kernel& kernel, std::uint32_t blocks, std::uint32_t threads,
                     std::size_t shared_bytes) {
    second_ = !second_ && times_ == nullptr;
    if (!second_) return launch(kernel, blocks, threads, shared_bytes);
    if (!forked_) {  // after all that went before
      check(cudaEventRecord(here_, stream_), "waiting");
      check(cudaStreamWaitEvent(beside_, here_), "waiting");
      forked_ = true;
    }
    std::swap(stream_, beside_);
    launch(kernel, blocks, threads, shared_bytes);
    std::swap(stream_, beside_);
  }
  void join() {
    if (!forked_) return;
    check(cudaEventRecord(there_, beside_), "waiting");
    check(cudaStreamWaitEvent(stream_, there_), "waiting");
    forked_ = false, second_ = false;
  }
  // The most blocks of a kernel that run at a time.
  template <class Kernel>
  std::uint32_t resident_blocks(std::uint32_t threads, std::size_t shared_bytes) {
    ask_for_shared<Kernel>(shared_bytes);
    int each = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, run<Kernel>, static_cast<int>(threads),
                                                        shared_bytes),
          "asking for the card");
    return static_cast<std::uint32_t>(each < 1 ? 1 : each) * multiprocessors();
  }

  template <class Kernel>
  void launch(const Kernel& kernel, std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes) {
    if (blocks == 0) return;
    ask_for_shared<Kernel>(shared_bytes);
    if (times_ != nullptr) check(cudaEventRecord(times_->from, stream_), "measuring");
    run<<<blocks, threads, shared_bytes, stream_>>>(kernel);
    check(cudaGetLastError(), "starting a kernel");
    if (times_ != nullptr) times_->add(typeid(Kernel).name(), stream_);
  }

 private:
  template <class Kernel>
  static void ask_for_shared(std::size_t bytes) {
    constexpr std::size_t kWithoutAsking = 48U << 10;
    if (bytes > kWithoutAsking)
      check(cudaFuncSetAttribute(run<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(bytes)),
            "asking for shared memory");
  }

  // Memory of the host from which a copy may be under way.
  struct Staged {
    void* there = nullptr;
    std::size_t bytes = 0;
    cudaEvent_t copied = nullptr;
  };
  static constexpr std::size_t kStaged = 8;
  // With TRUEMAX_KERNEL_TIMES=1: the time of each kernel, one after the other, printed at the end.
  struct Times {
    struct Of {
      double seconds = 0;
      std::uint64_t count = 0;
    };
    Times() {
      check(cudaEventCreate(&from), "making an event");
      check(cudaEventCreate(&to), "making an event");
    }
    ~Times() {
      cudaEventDestroy(from);
      cudaEventDestroy(to);
      for (const auto& [name, of] : kernels)
        std::fprintf(stderr, "%9.3f ms %8llu x %8.2f us  %s\n", of.seconds * 1e3,
                     static_cast<unsigned long long>(of.count),
                     of.seconds * 1e6 / static_cast<double>(of.count), name.c_str());
    }
    void add(const char* name, cudaStream_t stream) {
      check(cudaEventRecord(to, stream), "measuring");
      check(cudaEventSynchronize(to), "running a kernel");
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, from, to), "measuring");
      Of& of = kernels[name];
      of.seconds += static_cast<double>(milliseconds) * 1e-3, ++of.count;
    }
    cudaEvent_t from{}, to{};
    std::map<std::string, Of> kernels;
  };

  int number_;
  cudaDeviceProp properties_{};
  cudaStream_t stream_{}, beside_{};
  cudaEvent_t from_{}, to_{}, here_{}, there_{};
  bool forked_ = false, second_ = false;
  Staged staged_[kStaged];
  std::size_t next_staged_ = 0;
  std::unique_ptr<Times> times_;
};

}  // namespace truemax::cuda
