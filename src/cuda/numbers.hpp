// Numbers of 32 and 16 bits in memory, read and written several at a time.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda/thread.hpp"

namespace truemax::cuda {

// The upper half of a float32.
struct Bfloat16 {
  std::uint16_t bits;
};

TRUEMAX_HOST_DEVICE inline std::uint32_t bits_of(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}
TRUEMAX_HOST_DEVICE inline float float_of(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
#endif
}
TRUEMAX_HOST_DEVICE inline float wide(float x) {
  return x;
}
TRUEMAX_HOST_DEVICE inline float wide(Bfloat16 x) {
  return float_of(std::uint32_t{x.bits} << 16U);
}
TRUEMAX_HOST_DEVICE inline bool finite(float x) {
  return (bits_of(x) & 0x7F800000U) != 0x7F800000U;
}

// Rounded to the nearest, to even if two are as near. NaN stays NaN.
template <class T>
TRUEMAX_HOST_DEVICE inline T narrow(float x);
template <>
TRUEMAX_HOST_DEVICE inline float narrow<float>(float x) {
  return x;
}
template <>
TRUEMAX_HOST_DEVICE inline Bfloat16 narrow<Bfloat16>(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint16_t out;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out) : "f"(x));
  return {out};
#else
  const std::uint32_t bits = bits_of(x);
  if (!(x == x)) return {0x7FFFU};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
#endif
}

// Rounded up or down at random, so that the mean is x. `random`: 16 bits.
template <class T>
TRUEMAX_HOST_DEVICE inline T narrow_at_random(float x, std::uint32_t random);
template <>
TRUEMAX_HOST_DEVICE inline float narrow_at_random<float>(float x, std::uint32_t /*random*/) {
  return x;
}
template <>
TRUEMAX_HOST_DEVICE inline Bfloat16 narrow_at_random<Bfloat16>(float x, std::uint32_t random) {
  return {static_cast<std::uint16_t>((bits_of(x) + (random & 0xFFFFU)) >> 16U)};
}

// kCount numbers that lie at a multiple of their size, or of 16 bytes if they are more.
template <class T, int kCount>
struct Pack {
  T number[kCount];
  TRUEMAX_HOST_DEVICE float operator[](int i) const { return wide(number[i]); }
};

// All numbers of a pack, with one instruction each.
template <int kCount>
TRUEMAX_HOST_DEVICE inline void widen(const Pack<float, kCount>& pack, float* out) {
  TRUEMAX_UNROLL
  for (int i = 0; i < kCount; ++i) out[i] = pack.number[i];
}
template <int kCount>
TRUEMAX_HOST_DEVICE inline void widen(const Pack<Bfloat16, kCount>& pack, float* out) {
#ifdef __CUDA_ARCH__
  if constexpr (kCount % 2 == 0) {
    std::uint32_t words[kCount / 2];
    memcpy(words, &pack, sizeof pack);
    TRUEMAX_UNROLL
    for (int i = 0; i < kCount / 2; ++i) {
      out[2 * i] = __uint_as_float(words[i] << 16U);
      out[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000U);
    }
  } else
#endif
  {
    TRUEMAX_UNROLL
    for (int i = 0; i < kCount; ++i) out[i] = pack[i];
  }
}
template <class T, int kCount>
TRUEMAX_HOST_DEVICE inline Pack<T, kCount> narrowed(const float* in) {
  Pack<T, kCount> out;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) == 2 && kCount % 2 == 0) {
    std::uint32_t words[kCount / 2];
    TRUEMAX_UNROLL
    for (int i = 0; i < kCount / 2; ++i)
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(words[i]) : "f"(in[2 * i + 1]), "f"(in[2 * i]));
    memcpy(&out, words, sizeof out);
  } else
#endif
  {
    TRUEMAX_UNROLL
    for (int i = 0; i < kCount; ++i) out.number[i] = narrow<T>(in[i]);
  }
  return out;
}

// To 22 bits, and 0 below the least normal number.
TRUEMAX_HOST_DEVICE inline float quick_exp2(float x) {
#ifdef __CUDA_ARCH__
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
#else
  return std::exp2(x);
#endif
}

// kConstant: nothing writes there while the kernel runs, so that it may be read ahead of writes elsewhere.
template <class T, int kCount, bool kConstant = false>
TRUEMAX_HOST_DEVICE inline Pack<T, kCount> load_pack(const T* from) {
  Pack<T, kCount> out;
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(out) % 16 == 0) {
    uint4 raw[sizeof(out) / 16];
    const auto* const words = reinterpret_cast<const uint4*>(from);
    TRUEMAX_UNROLL
    for (int i = 0; i < static_cast<int>(sizeof(out) / 16); ++i)
      raw[i] = kConstant ? __ldg(words + i) : words[i];
    memcpy(&out, raw, sizeof out);
    return out;
  } else if constexpr (sizeof(out) == 8) {
    const auto* const words = reinterpret_cast<const uint2*>(from);
    const uint2 raw = kConstant ? __ldg(words) : *words;
    memcpy(&out, &raw, sizeof out);
    return out;
  } else
#endif
  {
    for (int i = 0; i < kCount; ++i) out.number[i] = from[i];
    return out;
  }
}
template <class T, int kCount>
TRUEMAX_HOST_DEVICE inline Pack<T, kCount> read_pack(const T* from) {
  return load_pack<T, kCount, true>(from);
}

template <class T, int kCount>
TRUEMAX_HOST_DEVICE inline void store_pack(T* to, const Pack<T, kCount>& pack) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(pack) % 16 == 0) {
    uint4 raw[sizeof(pack) / 16];
    memcpy(raw, &pack, sizeof pack);
    TRUEMAX_UNROLL
    for (int i = 0; i < static_cast<int>(sizeof(pack) / 16); ++i) reinterpret_cast<uint4*>(to)[i] = raw[i];
    return;
  } else if constexpr (sizeof(pack) == 8) {
    uint2 raw;
    memcpy(&raw, &pack, sizeof pack);
    *reinterpret_cast<uint2*>(to) = raw;
    return;
  } else
#endif
  {
    for (int i = 0; i < kCount; ++i) to[i] = pack.number[i];
  }
}

// As read_pack: what the cache of all processors should keep longer than the rest.
template <class T, int kCount>
TRUEMAX_HOST_DEVICE inline Pack<T, kCount> read_kept_pack(const T* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) * kCount == 16) {
    std::uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    uint4 raw;
    asm("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
        : "l"(__cvta_generic_to_global(from)), "l"(policy));
    Pack<T, kCount> out;
    memcpy(&out, &raw, sizeof out);
    return out;
  }
#endif
  return read_pack<T, kCount>(from);
}

// What threads of different blocks do to one number.
#ifdef __CUDACC__
__device__ inline std::int32_t fetch_add(std::int32_t* to, std::int32_t x) {
  return atomicAdd(to, x);
}
// kCount numbers, four at a time at multiples of 16 bytes.
template <int kCount>
__device__ void add_numbers(float* to, const float* x) {
  constexpr int kAtOnce = kCount % 4 == 0 ? 4 : 1;
#pragma unroll
  for (int i = 0; i < kCount; i += kAtOnce) {
#if __CUDA_ARCH__ >= 900
    if constexpr (kAtOnce == 4) {
      atomicAdd(reinterpret_cast<float4*>(to + i), make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]));
      continue;
    }
#endif
#pragma unroll
    for (int e = i; e < i + kAtOnce; ++e) atomicAdd(to + e, x[e]);
  }
}
// Returns what was there.
__device__ inline std::uint32_t put_if(std::uint32_t* to, std::uint32_t old, std::uint32_t x) {
  return atomicCAS(to, old, x);
}
__device__ inline void lower(std::uint32_t* to, std::uint32_t x) {
  atomicMin(to, x);
}
__device__ inline void count(std::uint32_t* to) {
  atomicAdd(to, 1U);
}
__device__ inline bool claim(std::int32_t* flag) {
  return atomicCAS(flag, 0, 1) == 0;
}
__device__ inline void fence() {
  __threadfence();
}
// x is not 0.
__device__ inline int lowest_bit(std::uint32_t x) {
  return __ffs(static_cast<int>(x)) - 1;
}
__device__ inline void fence_for_host() {
  __threadfence_system();
}
// As other blocks left it.
template <class T>
__device__ T fresh(const T* from) {
  return __ldcg(from);
}
#else
inline std::int32_t fetch_add(std::int32_t* to, std::int32_t x) {
  const std::int32_t old = *to;
  *to += x;
  return old;
}
template <int kCount>
void add_numbers(float* to, const float* x) {
  for (int i = 0; i < kCount; ++i) to[i] += x[i];
}
inline std::uint32_t put_if(std::uint32_t* to, std::uint32_t old, std::uint32_t x) {
  const std::uint32_t there = *to;
  if (there == old) *to = x;
  return there;
}
inline void lower(std::uint32_t* to, std::uint32_t x) {
  if (x < *to) *to = x;
}
inline void count(std::uint32_t* to) {
  ++*to;
}
inline bool claim(std::int32_t* flag) {
  const bool mine = *flag == 0;
  *flag = 1;
  return mine;
}
inline void fence() {}
inline int lowest_bit(std::uint32_t x) {
  return std::countr_zero(x);
}
inline void fence_for_host() {}
template <class T>
T fresh(const T* from) {
  return *from;
}
#endif

}  // namespace truemax::cuda
