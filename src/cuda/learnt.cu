// The engine of learnt features on CUDA; a part of the library of cuda/engine.cu.
#include "cuda/cuda_runtime.hpp"
#include "cuda/learnt_engine.hpp"

extern "C" {

// Owned by the caller. Throws UserError.
__attribute__((visibility("default"))) truemax::device::LearntEngine* truemax_learnt_engine_open(int card) {
  return new truemax::cuda::LearntEngineOver<truemax::cuda::CudaRuntime>(card);
}
}
