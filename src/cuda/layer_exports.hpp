// The functions of the layer's library: included by cuda/layer.cu and by cuda/layer_emulated.cpp, which
// define with_run(call, stream, processors, work).
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "cuda/layer_run.hpp"
#include "cuda/layer_scores.hpp"

#define TRUEMAX_EXPORT __attribute__((visibility("default")))

extern "C" {

// 0, or the number of a CUDA error.
TRUEMAX_EXPORT int truemax_cuda_layer_take(const truemax::cuda::LayerCall* call, void* stream,
                                           std::uint32_t processors) {
  return truemax::cuda::with_run(call, stream, processors, [](auto& run) { run.take(); });
}
TRUEMAX_EXPORT int truemax_cuda_layer_estimate(const truemax::cuda::LayerCall* call, void* stream,
                                               std::uint32_t processors) {
  return truemax::cuda::with_run(call, stream, processors, [](auto& run) { run.estimate(); });
}
// The product of scores and estimate, or kNotHere: the caller must do them one after the other.
TRUEMAX_EXPORT int truemax_cuda_layer_score(const truemax::cuda::LayerCall* call, void* stream,
                                            std::uint32_t processors) {
  bool done = false;
  const int error =
      truemax::cuda::with_run(call, stream, processors, [&done](auto& run) { done = run.score(); });
  return error != 0 || done ? error : truemax::cuda::kNotHere;
}
// Both products of backward, or kNotHere. Says in the call how the gradient lies.
TRUEMAX_EXPORT int truemax_cuda_layer_multiply(truemax::cuda::LayerCall* call, void* stream,
                                               std::uint32_t processors) {
  bool done = false;
  const int error =
      truemax::cuda::with_run(call, stream, processors, [&](auto& run) { done = run.multiply(*call); });
  return error != 0 || done ? error : truemax::cuda::kNotHere;
}
TRUEMAX_EXPORT int truemax_cuda_layer_scale(const truemax::cuda::LayerCall* call, void* stream,
                                            std::uint32_t processors) {
  return truemax::cuda::with_run(call, stream, processors, [](auto& run) { run.scale(); });
}
TRUEMAX_EXPORT int truemax_cuda_layer_keep(const truemax::cuda::LayerCall* call, void* stream,
                                           std::uint32_t processors) {
  return truemax::cuda::with_run(call, stream, processors, [](auto& run) { run.keep(); });
}
TRUEMAX_EXPORT int truemax_cuda_layer_move(const truemax::cuda::LayerCall* call, void* stream,
                                           std::uint32_t processors) {
  return truemax::cuda::with_run(call, stream, processors, [](auto& run) { run.move(); });
}
// Of what Python fills and reads.
TRUEMAX_EXPORT void truemax_cuda_layer_sizes(std::uint64_t* sizes) {
  sizes[0] = sizeof(truemax::cuda::LayerCall);
  sizes[1] = sizeof(truemax::cuda::CallScalars);
  sizes[2] = offsetof(truemax::cuda::CallScalars, faulty);
}
// The probabilities of draws by counts and their alias table, on the host: counts [K] -> probability [K],
// cells [K] of 16 bytes.
TRUEMAX_EXPORT void truemax_cuda_layer_alias(const double* counts, std::uint64_t classes, double* probability,
                                             void* cells) {
  const std::vector<double> q =
      truemax::mixed_probabilities({counts, classes}, 1, truemax::kLayerUniformShare);
  const truemax::AliasTable table(q);
  std::memcpy(probability, q.data(), q.size() * sizeof(double));
  std::memcpy(cells, table.cells().data(), table.cells().size_bytes());
}
}
