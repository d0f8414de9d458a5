// Four numbers at an address that is a multiple of 16 bytes.
#pragma once

#include "cuda/thread.hpp"

namespace truemax::cuda {

#ifdef __CUDACC__
__device__ inline Four read_four(const float* from) {
  const float4 x = *reinterpret_cast<const float4*>(from);
  return {{x.x, x.y, x.z, x.w}};
}
__device__ inline void write_four(float* to, const Four& x) {
  *reinterpret_cast<float4*>(to) = make_float4(x.at[0], x.at[1], x.at[2], x.at[3]);
}
__device__ inline void add_four(float* to, const Four& x) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "f"(x.at[0]), "f"(x.at[1]), "f"(x.at[2]), "f"(x.at[3])
               : "memory");
#else
  for (int i = 0; i < 4; ++i) add(to + i, x.at[i]);
#endif
}
#else
inline Four read_four(const float* from) {
  return load_four(from);
}
inline void write_four(float* to, const Four& x) {
  for (int i = 0; i < 4; ++i) to[i] = x.at[i];
}
inline void add_four(float* to, const Four& x) {
  for (int i = 0; i < 4; ++i) add(to + i, x.at[i]);
}
#endif

TRUEMAX_KERNEL inline Four times(const Four& x, float by) {
  return {{x.at[0] * by, x.at[1] * by, x.at[2] * by, x.at[3] * by}};
}
TRUEMAX_KERNEL inline Four times(const Four& x, const Four& y) {
  return {{x.at[0] * y.at[0], x.at[1] * y.at[1], x.at[2] * y.at[2], x.at[3] * y.at[3]}};
}
TRUEMAX_KERNEL inline void add_times(Four& to, const Four& x, float by) {
  for (int i = 0; i < 4; ++i) to.at[i] += x.at[i] * by;
}
TRUEMAX_KERNEL inline void add_times(Four& to, const Four& x, const Four& y) {
  for (int i = 0; i < 4; ++i) to.at[i] += x.at[i] * y.at[i];
}

}  // namespace truemax::cuda
