// The engine on CUDA: a library of its own, loaded by device/open.cpp.
#include <cuda_runtime.h>

#include "cuda/engine.hpp"
#include "device/library.hpp"

namespace truemax::cuda {
namespace {

void check(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  throw UserError(fmt::format("--device cuda: {} failed: {}; use --device cpu, or free the card", doing,
                              cudaGetErrorString(error)));
}

template <class Kernel>
__global__ void __launch_bounds__(256) run(const Kernel kernel) {
  extern __shared__ char shared[];
  kernel(Thread{shared});
}

class CudaRuntime {
 public:
  explicit CudaRuntime(int card) : number_(card) {
    check(cudaSetDevice(card), "choosing the card");
    check(cudaGetDeviceProperties(&properties_, card), "asking for the card");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    check(cudaEventCreate(&from_), "making an event");
    check(cudaEventCreate(&to_), "making an event");
  }
  ~CudaRuntime() {
    cudaEventDestroy(from_);
    cudaEventDestroy(to_);
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
  // Enough to fill the card several times over.
  std::uint32_t most_blocks() const { return static_cast<std::uint32_t>(properties_.multiProcessorCount) * 8; }

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
  void clear(void* to, std::size_t bytes) { check(cudaMemsetAsync(to, 0, bytes, stream_), "clearing"); }

  void start_clock() { check(cudaEventRecord(from_, stream_), "measuring"); }
  double stop_clock() {
    check(cudaEventRecord(to_, stream_), "measuring");
    check(cudaEventSynchronize(to_), "running a kernel");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, from_, to_), "measuring");
    return static_cast<double>(milliseconds) * 1e-3;
  }

  template <class Kernel>
  void launch(const Kernel& kernel, std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes) {
    if (blocks == 0) return;
    if (shared_bytes > (48U << 10))
      check(cudaFuncSetAttribute(run<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes)),
            "asking for shared memory");
    run<<<blocks, threads, shared_bytes, stream_>>>(kernel);
    check(cudaGetLastError(), "starting a kernel");
  }

 private:
  int number_;
  cudaDeviceProp properties_{};
  cudaStream_t stream_{};
  cudaEvent_t from_{}, to_{};
};

}  // namespace
}  // namespace truemax::cuda

extern "C" {

__attribute__((visibility("default"))) std::uint32_t truemax_engine_version() {
  return truemax::device::kEngineVersion;
}

__attribute__((visibility("default"))) int truemax_engine_cards(char* why, std::size_t size) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count;
  if (error == cudaErrorNoDevice) return 0;
  truemax::device::put_text(cudaGetErrorString(error), why, size);
  return -1;
}

__attribute__((visibility("default"))) truemax::device::Engine* truemax_engine_open(int card, char* why,
                                                                                    std::size_t size) {
  return truemax::device::opened(
      [&] { return new truemax::cuda::EngineOver<truemax::cuda::CudaRuntime>(card); }, why, size);
}
}
