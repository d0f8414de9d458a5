// The layer on CUDA: kernels on the caller's stream, over the caller's memory. Nothing here allocates or
// waits. Called by python/truemax/_card.py.
#include <cuda_runtime.h>

#include "cuda/layer_run.hpp"
#include "cuda/layer_scores.hpp"

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
__global__ void __launch_bounds__(most_threads<Kernel>(), least_blocks<Kernel>())
    run_layer(const __grid_constant__ Kernel kernel) {
  extern __shared__ __align__(16) char shared[];
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
    run_layer<<<blocks, threads, shared_bytes, stream_>>>(kernel);
    note(cudaGetLastError());
  }
  bool score(const ScoredRows& rows) { return done(score_rows(rows, stream_, processors_)); }
  bool multiply(LayerCall& call) { return done(multiply_back(call, stream_, processors_)); }
  int error() const { return static_cast<int>(error_); }

 private:
  bool done(int status) {
    if (status == kNotHere) return false;
    note(static_cast<cudaError_t>(status));
    return true;
  }
  void note(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
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
