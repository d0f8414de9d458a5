// The engine of linear models on CUDA: a library of its own, loaded by device/open.cpp.
#include "cuda/cuda_runtime.hpp"
#include "cuda/engine.hpp"
#include "device/library.hpp"

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
