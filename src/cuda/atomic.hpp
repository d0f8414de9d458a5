// Whole numbers that threads of all blocks share.
#pragma once

#include <cstdint>

#include "cuda/thread.hpp"

namespace truemax::cuda {

#ifdef __CUDACC__
__device__ inline std::uint32_t swap_in(std::uint32_t* at, std::uint32_t x) {
  return atomicExch(at, x);
}
__device__ inline std::uint32_t count_up(std::uint32_t* at) {
  return atomicAdd(at, 1U);
}
#else
inline std::uint32_t swap_in(std::uint32_t* at, std::uint32_t x) {
  const std::uint32_t before = *at;
  *at = x;
  return before;
}
inline std::uint32_t count_up(std::uint32_t* at) {
  return (*at)++;
}
#endif

}  // namespace truemax::cuda
