// Products of matrices of bfloat16 on processors of compute capability 9.0: tiles go through a ring in shared
// memory, which one thread fills ahead of time and two groups of four warps read.
#pragma once

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include "cuda/sm90.hpp"

namespace truemax::cuda::sm90 {

// A block multiplies 128 by 256, a group of four warps 64 of the 128, in steps of 64 along the sum.
inline constexpr std::uint32_t kHigh = 128, kAcross = 256, kDepth = 64;
inline constexpr int kMultipliers = 256;  // threads
inline constexpr std::uint32_t kTile = 64 * kDepth * 2, kTilesOfA = kHigh / 64, kTilesOfB = kAcross / 64;
inline constexpr std::uint32_t kOfA = kTilesOfA * kTile, kOfB = kTilesOfB * kTile;

template <std::uint32_t kStages>
struct Ring {
  char a[kStages][kOfA], b[kStages][kOfB];
};
template <std::uint32_t kStages>
struct RingBarriers {
  std::uint64_t full[kStages], empty[kStages];

  __device__ void init() {
    for (std::uint32_t s = 0; s < kStages; ++s)
      init_barrier(&full[s], 1), init_barrier(&empty[s], kMultipliers / 32);
  }
  // Step n may be loaded. Returns its place in the ring.
  __device__ std::uint32_t begin_load(std::uint32_t n) {
    const std::uint32_t stage = n % kStages;
    if (n >= kStages) wait(&empty[stage], (n / kStages + 1) % 2);
    arrive_and_expect(&full[stage], kOfA + kOfB);
    return stage;
  }
};

// Of 64 rows, which the thread's group has, by 256: the sum over `steps` steps, from step n on.
template <Along kA, Along kB, std::uint32_t kStages>
__device__ void multiply(const Ring<kStages>& ring, RingBarriers<kStages>& barriers, std::uint32_t steps,
                         std::uint32_t& n, float (&sums)[128]) {
  const std::uint32_t group = threadIdx.x / 128;
  for (std::uint32_t k = 0; k < steps; ++k, ++n) {
    const std::uint32_t stage = n % kStages;
    wait(&barriers.full[stage], n / kStages % 2);
    const std::uint64_t a = tile_descriptor(ring.a[stage] + group * kTile);
    const std::uint64_t b = tile_descriptor(ring.b[stage]);
    begin_products();
#pragma unroll
    for (std::uint32_t part = 0; part < kDepth / 16; ++part)
      multiply_tiles<kA, kB>(sums, a + part * kSixteenFurther<kA>, b + part * kSixteenFurther<kB>,
                             k > 0 || part > 0);
    commit_products();
    if (k == 0) continue;
    wait_products<1>();
    if (threadIdx.x % 32 == 0) arrive(&barriers.empty[(n - 1) % kStages]);
  }
  wait_products<0>();
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");  // nothing reads it before
  if (threadIdx.x % 32 == 0) arrive(&barriers.empty[(n - 1) % kStages]);
}

__device__ inline float wide_low(std::uint32_t pair) {
  return __uint_as_float(pair << 16U);
}
__device__ inline std::uint32_t narrow_pair(float low, float high) {
  std::uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

// A factor of pairs of bfloat16 as the sum of two: products are rounded as if it were float32.
struct PairFactor {
  std::uint32_t high, low;
};
__device__ inline PairFactor pair_factor(float x) {
  const std::uint32_t high = narrow_pair(x, x);
  const float rest = x - wide_low(high);
  return {high, narrow_pair(rest, rest)};
}
__device__ inline std::uint32_t times(std::uint32_t pair, const PairFactor& factor) {
  std::uint32_t out;
  asm("{\n.reg .b32 small;\nmul.rn.bf16x2 small, %1, %3;\nfma.rn.bf16x2 %0, %1, %2, small;\n}"
      : "=r"(out)
      : "r"(pair), "r"(factor.high), "r"(factor.low));
  return out;
}

// ---- On the host.
inline PFN_cuTensorMapEncodeTiled_v12000 encoder() {
  static const auto found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                               cudaEnableDefault, &result);
#else
    const cudaError_t error =
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &result);
#endif
    if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) function = nullptr;
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
  }();
  return found;
}

// Whether the current device runs these kernels, and they are faster than others: with few rows, most
// processors would have nothing to do.
inline bool here(std::uint64_t rows, std::uint32_t processors) {
  int device = 0, major = 0, minor = 0;
  return rows / 64 * 5 >= processors && cudaGetDevice(&device) == cudaSuccess &&
         cudaSetDevice(device) == cudaSuccess &&  // a new thread has no context yet
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
         major == 9 && minor == 0 && encoder() != nullptr;
}

// A matrix of bfloat16 in memory, in tiles of 64 columns; or several, one after the other. false: it does not
// lie at a multiple of 16 bytes.
inline bool describe(CUtensorMap* map, const void* from, std::uint64_t rows, std::uint64_t columns,
                     std::uint32_t rows_of_tile, std::uint64_t matrices = 0) {
  const cuuint64_t sizes[3] = {columns, rows, matrices}, strides[2] = {columns * 2, rows * columns * 2};
  const cuuint32_t box[3] = {64, rows_of_tile, 1}, steps[3] = {1, 1, 1};
  return encoder()(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, matrices == 0 ? 2 : 3, const_cast<void*>(from),
                   sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// A kernel with __cluster_dims__ or none, and more shared memory than usual.
template <class... Arguments>
int launch(void (*kernel)(Arguments...), std::uint32_t blocks, std::uint32_t threads, int bytes, void* stream,
           const Arguments&... arguments) {
  if (const cudaError_t error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      error != cudaSuccess)
    return static_cast<int>(error);
  kernel<<<blocks, threads, bytes, static_cast<cudaStream_t>(stream)>>>(arguments...);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace truemax::cuda::sm90
