// The engine of learnt features on CUDA; a part of the library of cuda/engine.cu.
#include "cuda/cuda_runtime.hpp"
#include "cuda/learnt_engine.hpp"
#include "device/library.hpp"

extern "C" {

__attribute__((visibility("default"))) truemax::device::LearntEngine* truemax_learnt_engine_open(
    int card, char* why, std::size_t size) {
  return truemax::device::opened(
      [&] { return new truemax::cuda::LearntEngineOver<truemax::cuda::CudaRuntime>(card); }, why, size);
}
}
