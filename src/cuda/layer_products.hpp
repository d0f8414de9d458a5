// Both products of the layer's backward in one kernel, for processors of compute capability 9.0.
#pragma once

#include "cuda/layer_call.hpp"

namespace truemax::cuda {

inline constexpr int kNotHere = -1;  // not an error of CUDA
inline constexpr std::uint32_t kMostParts = 8;

// gradient = p^T x_copy, as at most kMostParts parts in bfloat16, and dx = p drawn_w in bfloat16, on the
// caller's stream. 0, kNotHere if the caller must multiply, or the number of a CUDA error. Sets call.splits
// and call.gradient_type. processors: of the device.
int multiply_back(LayerCall& call, void* stream, std::uint32_t processors);

}  // namespace truemax::cuda
