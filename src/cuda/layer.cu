// The layer on CUDA: kernels on the caller's stream, over the caller's memory. Nothing here allocates or
// waits. Called by python/truemax/_card.py.
#include <cuda_runtime.h>

#include <cstdlib>

#include "cuda/layer_run.hpp"

namespace truemax::cuda {
namespace {

// What a kernel says about its blocks of threads, so that enough of them fit on a processor.
template <class Kernel>
constexpr int most_threads() {
  if constexpr (requires { Kernel::kMostThreads; })
    return Kernel::kMostThreads;
  else
    return 512;
}
template <class Kernel>
constexpr int least_blocks() {
  if constexpr (requires { Kernel::kLeastBlocks; })
    return Kernel::kLeastBlocks;
  else
    return 1;
}

template <class Kernel>
constexpr bool waits() {
  return requires {
    Kernel::kWaits;
  };
}

template <class Kernel>
__global__ void __launch_bounds__(most_threads<Kernel>(), least_blocks<Kernel>())
    run_layer(const __grid_constant__ Kernel kernel) {
  extern __shared__ __align__(16) char shared[];
  if constexpr (!waits<Kernel>()) wait_for_previous();
  kernel(Thread{shared});
}

class StreamLauncher {
 public:
  StreamLauncher(cudaStream_t stream, std::uint32_t processors) : stream_(stream), processors_(processors) {}
  std::uint64_t processors() const { return processors_; }
  template <class Kernel>
  void launch(const Kernel& kernel, std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes) {
    constexpr std::size_t kAlways = 48 << 10;
    if (shared_bytes > kAlways)
      note(cudaFuncSetAttribute(run_layer<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(shared_bytes)));
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = blocks, config.blockDim = threads, config.dynamicSmemBytes = shared_bytes;
    config.stream = stream_, config.attrs = &early, config.numAttrs = begins_early() ? 1 : 0;
    note(cudaLaunchKernelEx(&config, run_layer<Kernel>, kernel));
  }
  int error() const { return static_cast<int>(error_); }

 private:
  void note(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }
  // Whether a kernel may begin while the one before it ends.
  static bool begins_early() {
    static const bool wanted = std::getenv("TRUEMAX_PDL") == nullptr || *std::getenv("TRUEMAX_PDL") != '0';
    int device = 0, major = 0;
    return wanted && cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           major >= 9;
  }

  cudaStream_t stream_;
  std::uint32_t processors_;
  cudaError_t error_ = cudaSuccess;
};

template <class Work>
int with_run(const LayerCall* call, void* stream, std::uint32_t processors, const Work& work) {
  if (call->size != sizeof(LayerCall) || call->slots % kSlotsAtOnce != 0 ||
      call->slots + call->rows > kMostSlots)
    return static_cast<int>(cudaErrorInvalidValue);
  StreamLauncher launcher(static_cast<cudaStream_t>(stream), processors);
  LayerRun<StreamLauncher> run(*call, launcher);
  work(run);
  return launcher.error();
}

}  // namespace
}  // namespace truemax::cuda

#include "cuda/layer_exports.hpp"

extern "C" TRUEMAX_EXPORT const char* truemax_cuda_layer_message(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
