// What processors of compute capability 9.0 add (sm_90a): copies of tiles between memory and shared memory
// by hardware, barriers that wait for them, products of tiles in shared memory, and pairs of blocks of
// threads that see each other's shared memory. Each function is one instruction of PTX, or a few.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace truemax::cuda::sm90 {

__device__ inline std::uint32_t address_of(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

// ---- Barriers in shared memory: full when all have arrived and all expected bytes are there.
__device__ inline void init_barrier(std::uint64_t* barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_of(barrier)), "r"(arrivals)
               : "memory");
}
// Before other threads, and copies, use them.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_of(barrier)) : "memory");
}
__device__ inline void arrive_and_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(barrier)), "r"(bytes)
               : "memory");
}
// Until the barrier has left the phase of that parity.
__device__ inline void wait(std::uint64_t* barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  while (done == 0)
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(address_of(barrier)), "r"(parity)
        : "memory");
}

// Some warps of a block: `threads` of them, by barrier `id`, which is not 0.
__device__ inline void sync_some(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void arrive_some(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- Tiles.
__device__ inline void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// From column and row on; what lies outside the matrix is 0.
__device__ inline void load_tile(void* to, const CUtensorMap* map, std::uint32_t column, std::uint32_t row,
                                 std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], "
      "[%4];" ::"r"(address_of(to)),
      "l"(map), "r"(column), "r"(row), "r"(address_of(barrier))
      : "memory");
}
// What lies outside the matrix is not written.
__device__ inline void store_tile(const CUtensorMap* map, std::uint32_t column, std::uint32_t row,
                                  const void* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
               "r"(column), "r"(row), "r"(address_of(from))
               : "memory");
}
// Of one of several matrices.
__device__ inline void store_tile(const CUtensorMap* map, std::uint32_t column, std::uint32_t row,
                                  std::uint32_t matrix, const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map),
      "r"(column), "r"(row), "r"(matrix), "r"(address_of(from))
      : "memory");
}
// Of this thread's stores: shared memory may be left, or all is in memory.
__device__ inline void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int kOpen = 0>  // but for the last ones
__device__ inline void wait_until_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kOpen) : "memory");
}
__device__ inline void wait_until_stored() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// What threads wrote to shared memory, before a copy reads it.
__device__ inline void fence_for_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Where 16 bytes number `chunk` of a row lie in a tile with rows of 128 bytes that begins at a multiple of
// 1,024 bytes: what copies and products agree on.
__device__ inline std::uint32_t swizzled(std::uint32_t row, std::uint32_t chunk) {
  return row * 128 + ((chunk ^ row) % 8) * 16;
}
// Four matrices of 8 x 8 numbers of 16 bits from registers of a warp: thread i says where row i % 8 of
// matrix i / 8 goes.
__device__ inline void store_matrices(void* to, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                      std::uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address_of(to)),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

// Four matrices that lie so, each transposed.
__device__ inline void load_transposed(std::uint32_t (&to)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address_of(from))
               : "memory");
}

// ---- Products, by one warp: sums of bfloat16 in float32, as products with ones.
inline constexpr std::uint32_t kTwoOnes = 0x3F803F80U;
// d[0] and d[2] += sums over 16 columns of rows t / 4 and t / 4 + 8, of which a has pairs as in
// multiply_tiles.
__device__ inline void add_rows_up(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                   std::uint32_t a3) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %8}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(kTwoOnes));
}
// d[0] and d[1] += sums over 16 rows of columns t % 4 * 2 and the next, of which b has both transposed
// matrices of 8 x 8.
__device__ inline void add_columns_up(float (&d)[4], std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%6, %6, %6, %6}, {%4, %5}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(b0), "r"(b1), "r"(kTwoOnes));
}

// ---- Products, by four warps together.
// How a tile of rows of 64 numbers of 16 bits lies: along the sum, or across it, with 64 rows and the next 64
// numbers in the next tile.
enum class Along { sum, other };
__device__ inline std::uint64_t tile_descriptor(const void* shared) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62, kEightRows = 1024 >> 4, kNext = 8192 >> 4;
  return (address_of(shared) & 0x3FFFF) >> 4 | kNext << 16 | kEightRows << 32 | kSwizzle128;
}
// To add to a descriptor: sixteen numbers further along the sum.
template <Along kAlong>
inline constexpr std::uint64_t kSixteenFurther = (kAlong == Along::sum ? 32 : 16 * 128) >> 4;

__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most kOpen commits are still at work.
template <int kOpen>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOpen) : "memory");
}
// d (64 x 256) = a (64 x 16) b^T (256 x 16), added to what d is if `adds`. Thread t of the four warps has
// numbers 4 j + 2 h + e of row t / 32 * 16 + t % 32 / 4 + 8 h and column 8 j + t % 4 * 2 + e.
#define TRUEMAX_EIGHT(d, i)                                                                             \
  "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), \
      "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define TRUEMAX_SIXTYFOUR(d, i)                                                                           \
  TRUEMAX_EIGHT(d, i), TRUEMAX_EIGHT(d, (i) + 8), TRUEMAX_EIGHT(d, (i) + 16), TRUEMAX_EIGHT(d, (i) + 24), \
      TRUEMAX_EIGHT(d, (i) + 32), TRUEMAX_EIGHT(d, (i) + 40), TRUEMAX_EIGHT(d, (i) + 48),                 \
      TRUEMAX_EIGHT(d, (i) + 56)
template <Along kA, Along kB>
__device__ inline void multiply_tiles(float (&d)[128], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
      "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "
      "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, "
      "%87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, "
      "%104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, "
      "%118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, p, 1, 1, %131, %132;\n}"
      : TRUEMAX_SIXTYFOUR(d, 0), TRUEMAX_SIXTYFOUR(d, 64)
      : "l"(a), "l"(b), "r"(adds ? 1 : 0), "n"(kA == Along::sum ? 0 : 1), "n"(kB == Along::sum ? 0 : 1));
}
#undef TRUEMAX_SIXTYFOUR
#undef TRUEMAX_EIGHT

// Registers of a thread, for all four warps.
template <int kCount>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// ---- Blocks of a cluster.
// With `wait_cluster`: all threads that have not ended. Orders nothing but barriers that were published.
__device__ inline void arrive_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void wait_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// To the same place in the shared memory of another block, whose barrier expects these bytes.
__device__ inline void send_there(float* mine, std::uint32_t block, std::uint64_t* barrier, float x) {
  asm volatile(
      "{\n.reg .b32 to, bar;\nmapa.shared::cluster.u32 to, %0, %2;\nmapa.shared::cluster.u32 bar, %1, %2;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [to], %3, [bar];\n}" ::"r"(
          address_of(mine)),
      "r"(address_of(barrier)), "r"(block), "f"(x)
      : "memory");
}
__device__ inline void send_there(float2* mine, std::uint32_t block, std::uint64_t* barrier, float2 x) {
  asm volatile(
      "{\n.reg .b32 to, bar;\nmapa.shared::cluster.u32 to, %0, %2;\nmapa.shared::cluster.u32 bar, %1, %2;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [to], {%3, %4}, [bar];\n}" ::"r"(
          address_of(mine)),
      "r"(address_of(barrier)), "r"(block), "f"(x.x), "f"(x.y)
      : "memory");
}

}  // namespace truemax::cuda::sm90
