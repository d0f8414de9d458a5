// What a kernel sees of the machine it runs on. With nvcc these are the threads of a GPU; without, the same
// kernels run on the CPU (cuda/emulated.hpp), one thread after the other up to the next exchange, so that
// tests need no GPU.
//
// A kernel is a struct of plain data with  operator()(Thread) const.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/host_device.hpp"

#ifndef __CUDACC__
#include "cuda/emulated.hpp"
#endif

namespace truemax::cuda {

#ifdef __CUDACC__

struct Four {
  float at[4];
};

// kSize consecutive threads of a warp: 1, 2, 4, ... 32.
template <int kSize>
class Group {
 public:
  __device__ int lane() const { return static_cast<int>(threadIdx.x % kSize); }
  __device__ void sync() const { __syncwarp(mask()); }
  template <class T>
  __device__ T from(T x, int lane) const {
    return __shfl_sync(mask(), x, lane, kSize);
  }
  template <class T>
  __device__ T sum(T x) const {
#pragma unroll
    for (int o = kSize / 2; o > 0; o /= 2) x += __shfl_xor_sync(mask(), x, o, kSize);
    return x;
  }
  template <class T>
  __device__ T highest(T x) const {
#pragma unroll
    for (int o = kSize / 2; o > 0; o /= 2) {
      const T other = __shfl_xor_sync(mask(), x, o, kSize);
      x = x < other ? other : x;
    }
    return x;
  }
  // NaN may be passed over.
  __device__ float highest_number(float x) const {
#if __CUDA_ARCH__ >= 800
    if constexpr (kSize == 32) {  // whole numbers that are ordered as the bits of x are
      const auto ordered = [](int bits) { return bits ^ ((bits >> 31) & 0x7FFFFFFF); };
      return __int_as_float(ordered(__reduce_max_sync(0xFFFFFFFFU, ordered(__float_as_int(x)))));
    }
#endif
    return highest(x);
  }
  // Bit i: what lane i says.
  __device__ std::uint32_t ballot(bool holds) const {
    const std::uint32_t all = __ballot_sync(mask(), holds);
    return (all & mask()) >> shift();
  }

 private:
  __device__ static unsigned shift() {
    return threadIdx.x % 32 / kSize * kSize;
  }
  __device__ static unsigned mask() {
    return kSize == 32 ? 0xFFFFFFFFU : ((1U << (kSize % 32)) - 1) << shift();
  }
};

// All threads of a warp, on the same way through the code.
class Warp : public Group<32> {
 public:
  __device__ bool any(bool holds) const { return __any_sync(0xFFFFFFFFU, holds); }
  // Bit i: lane i has the same x.
  __device__ std::uint32_t same(std::uint32_t x) const { return __match_any_sync(0xFFFFFFFFU, x); }
  // Of kWidth consecutive threads.
  template <int kWidth, class T>
  __device__ T sum_of(T x) const {
#pragma unroll
    for (int o = kWidth / 2; o > 0; o /= 2) x += __shfl_xor_sync(0xFFFFFFFFU, x, o);
    return x;
  }
  // Both sums, with six exchanges instead of ten: after the first, each thread carries only one of them.
  template <int kWidth, class T>
  __device__ void sum_both_of(T& x, T& y) const {
    constexpr int kHalf = kWidth / 2;
    const bool low = (threadIdx.x & kHalf) == 0;
    const T got = __shfl_xor_sync(0xFFFFFFFFU, low ? y : x, kHalf);
    const T mine = sum_of<kHalf>((low ? x : y) + got);
    const T other = __shfl_xor_sync(0xFFFFFFFFU, mine, kHalf);
    x = low ? mine : other, y = low ? other : mine;
  }
  template <int kWidth, class T>
  __device__ T highest_of(T x) const {
#pragma unroll
    for (int o = kWidth / 2; o > 0; o /= 2) {
      const T other = __shfl_xor_sync(0xFFFFFFFFU, x, o);
      x = x < other ? other : x;
    }
    return x;
  }
};

struct Thread {
  char* shared;  // memory of the block of threads
  __device__ std::uint32_t block() const { return blockIdx.x; }
  __device__ std::uint32_t blocks() const { return gridDim.x; }
  __device__ std::uint32_t number() const { return threadIdx.x; }
  __device__ std::uint32_t threads() const { return blockDim.x; }
  __device__ void sync() const { __syncthreads(); }
  template <int kSize>
  __device__ Group<kSize> group() const {
    return {};
  }
  __device__ Warp warp() const { return {}; }
};

__device__ inline void add(float* to, float x) {
  atomicAdd(to, x);
}
// Four numbers at an address that is a multiple of 16, which nobody changes while the kernel runs.
__device__ inline Four load_four(const float* from) {
  const float4 x = __ldg(reinterpret_cast<const float4*>(from));
  return {{x.x, x.y, x.z, x.w}};
}
// Past the cache of the multiprocessor, which does not see what others add.
__device__ inline float load_late(const float* from) {
  return __ldcg(from);
}
__device__ inline void add(double* to, double x) {
  atomicAdd(to, x);
}
// For numbers that are not negative, whose bits are ordered as they are.
__device__ inline void raise(std::uint64_t* to, std::uint64_t x) {
  atomicMax(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(x));
}

// Into the cache that all multiprocessors share. Whole packs of 16 bytes.
__device__ inline void prefetch(const void* from, std::uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
#else
  for (std::uint32_t at = 0; at < bytes; at += 128)
    asm volatile(
        "prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(static_cast<const char*>(from) + at)));
#endif
}
// What is at this address, and perhaps what is beside it.
__device__ inline void prefetch_one(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(from)));
}

#define TRUEMAX_KERNEL __device__
// Rarely called: its registers are not those of the caller.
#define TRUEMAX_APART __device__ __noinline__
#else
#define TRUEMAX_KERNEL
#define TRUEMAX_APART
#endif

}  // namespace truemax::cuda
