// Matrix products of float32: on tensor cores in TF32 (10 bits of mantissa, sums in float32), or in float32
// throughout where the digits count.
//
// A block of 256 threads computes a tile of the result. Tiles of both factors come through shared memory by
// asynchronous copies of 16 bytes, kStages of them under way. They lie there as they do in memory, with rows
// padded so that the reads of a warp meet all banks.
#pragma once

#include <cstring>

#include "cuda/thread.hpp"

namespace truemax::cuda {

// Rows of numbers in memory; row r starts at data + stride * (index ? index[r] : r). Strides are multiples of
// 4 and `data` is aligned to 16 bytes, because numbers are read four at a time: those of a row up to the next
// multiple of 4 must be zero where they are summed over.
struct DeviceRows {
  const float* data;
  std::uint64_t stride;
  const std::uint32_t* index;

  TRUEMAX_HOST_DEVICE const float* row(std::uint32_t r) const {
    return data + stride * (index != nullptr ? index[r] : r);
  }
};

enum class Form {
  rows_by_rows,   // a [rows][depth], b [columns][depth]
  plain,          // a [rows][depth], b [depth][columns]
  columns_first,  // a [depth][rows], b [depth][columns]
};

struct Product {
  DeviceRows a, b;
  float* out;
  std::uint64_t stride;  // of out
  std::uint32_t rows, columns, depth;
};

#ifdef __CUDACC__

__device__ inline void copy_four(float* to, const float* from, bool there) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = there ? 16 : 0;  // the rest is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(at), "l"(from), "r"(bytes));
}
__device__ inline void end_copies() {
  asm volatile("cp.async.commit_group;\n" ::);
}
// Waits until at most kLeft of the ended groups of copies are under way.
template <int kLeft>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLeft));
}
__device__ inline std::uint32_t to_tf32(float x) {
  std::uint32_t out;
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(out) : "f"(x));
  return out;
}
// c [16][8] += a [16][8] b [8][8], spread over a warp: of thread 4 g + t, a has rows g, g + 8, g, g + 8 at
// columns t, t, t + 4, t + 4; b has rows t, t + 4 at column g; c has row g at 2 t, 2 t + 1, then row g + 8.
__device__ inline void multiply_add(const Group<32>& /*warp*/, float (&c)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

inline void copy_four(float* to, const float* from, bool there) {
  if (there)
    std::memcpy(to, from, 4 * sizeof(float));
  else
    std::memset(to, 0, 4 * sizeof(float));
}
inline void end_copies() {}
template <int kLeft>
void wait_for_copies() {}
inline std::uint32_t to_tf32(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return (bits + 0x1000U) & 0xFFFFE000U;
}
inline void multiply_add(const Group<32>& warp, float (&c)[4], const std::uint32_t (&a)[4],
                         const std::uint32_t (&b)[2]) {
  struct Given {
    float a[4], b[2];
  };
  Given mine, all[32];
  std::memcpy(mine.a, a, sizeof mine.a);
  std::memcpy(mine.b, b, sizeof mine.b);
  const Given* const here = &mine;
  int next = 0;
  EmulatedBlock::here().combined(here, 32, [&](const Given* first, const Given* other) {
    if (next == 0) all[next++] = *first;
    all[next++] = *other;
    return first;
  });
  const int g = warp.lane() / 4, t = warp.lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = g + 8 * (i / 2), column = 2 * t + i % 2;
    for (int k = 0; k < 8; ++k)
      c[i] += all[4 * (row % 8) + k % 4].a[row / 8 + 2 * (k / 4)] * all[4 * column + k % 4].b[k / 4];
  }
}

#endif

// kRows x kColumns numbers of shared memory, as they lie in memory.
template <int kRows, int kColumns>
struct SharedTile {
  // Rows of 32 numbers are read eight at a time, four numbers each; longer ones four at a time, eight each.
  static constexpr int kStride = kColumns + (kColumns == 32 ? 4 : 8);
  static constexpr int kNumbers = kRows * kStride;

  // Rows first_row ... and numbers first ... of them, as far as they exist.
  TRUEMAX_KERNEL static void fetch(const Thread& t, float* to, const DeviceRows& from,
                                   std::uint32_t first_row, std::uint32_t rows, std::uint32_t first,
                                   std::uint32_t columns) {
    constexpr int kFours = kColumns / 4;
    for (int i = static_cast<int>(t.number()); i < kRows * kFours; i += static_cast<int>(t.threads())) {
      const int r = i / kFours, c = i % kFours * 4;
      const std::uint32_t row = first_row + static_cast<std::uint32_t>(r);
      const std::uint32_t column = first + static_cast<std::uint32_t>(c);
      const bool there = row < rows && column < columns;
      copy_four(to + r * kStride + c, there ? from.row(row) + column : from.data, there);
    }
  }
};

// The result in tiles of 2 kWarpRows x 4 kWarpColumns: eight warps.
template <Form kForm, int kWarpRows, int kWarpColumns, bool kExact>
struct Multiply {
  static constexpr int kThreads = 256, kDepth = 32, kStages = 3;
  static constexpr int kTileRows = 2 * kWarpRows, kTileColumns = 4 * kWarpColumns;
  static constexpr bool kRowsOfA = kForm != Form::columns_first, kRowsOfB = kForm == Form::rows_by_rows;
  using TileA = SharedTile<kRowsOfA ? kTileRows : kDepth, kRowsOfA ? kDepth : kTileRows>;
  using TileB = SharedTile<kRowsOfB ? kTileColumns : kDepth, kRowsOfB ? kDepth : kTileColumns>;
  static constexpr std::size_t kBytes = sizeof(float) * kStages * (TileA::kNumbers + TileB::kNumbers);

  Product product;

  static std::uint64_t tiles(const Product& p) {
    return std::uint64_t{(p.rows + kTileRows - 1U) / kTileRows} *
           ((p.columns + kTileColumns - 1U) / kTileColumns);
  }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Product& p = product;
    const std::uint32_t down = (p.rows + kTileRows - 1) / kTileRows;
    const std::uint32_t all = down * ((p.columns + kTileColumns - 1) / kTileColumns);
    for (std::uint32_t tile = t.block(); tile < all; tile += t.blocks())
      take(t, tile % down * kTileRows, tile / down * kTileColumns);
  }

 private:
  static constexpr int kSmallRows = kWarpRows / 16, kSmallColumns = kWarpColumns / 8;
  static constexpr int kOwnRows = kTileRows / 16, kOwnColumns = kTileColumns / 16;  // of a thread, exact

  TRUEMAX_KERNEL static float* stage_a(const Thread& t, std::uint32_t stage) {
    return reinterpret_cast<float*>(t.shared) + stage % kStages * (TileA::kNumbers + TileB::kNumbers);
  }
  TRUEMAX_KERNEL void fetch(const Thread& t, std::uint32_t stage, std::uint32_t row, std::uint32_t column,
                            std::uint32_t parts) const {
    const Product& p = product;
    const std::uint32_t at = stage * kDepth;
    if (stage < parts) {
      float* const a = stage_a(t, stage);
      if constexpr (kRowsOfA)
        TileA::fetch(t, a, p.a, row, p.rows, at, p.depth);
      else
        TileA::fetch(t, a, p.a, at, p.depth, row, p.rows);
      if constexpr (kRowsOfB)
        TileB::fetch(t, a + TileA::kNumbers, p.b, column, p.columns, at, p.depth);
      else
        TileB::fetch(t, a + TileA::kNumbers, p.b, at, p.depth, column, p.columns);
    }
    end_copies();
  }

  TRUEMAX_KERNEL void take(const Thread& t, std::uint32_t row, std::uint32_t column) const {
    const std::uint32_t parts = (product.depth + kDepth - 1) / kDepth;
    t.sync();  // the last tile has been read
    for (std::uint32_t s = 0; s + 1 < kStages; ++s) fetch(t, s, row, column, parts);
    if constexpr (kExact) {
      float sum[kOwnRows][kOwnColumns] = {};
      for (std::uint32_t s = 0; s < parts; ++s) {
        next(t, s, row, column, parts);
        const float* const a = stage_a(t, s);
        add_exact(t, sum, a, a + TileA::kNumbers);
      }
      store_exact(t, sum, row, column);
    } else {
      float sum[kSmallRows][kSmallColumns][4] = {};
      for (std::uint32_t s = 0; s < parts; ++s) {
        next(t, s, row, column, parts);
        const float* const a = stage_a(t, s);
        add(t, sum, a, a + TileA::kNumbers);
      }
      store(t, sum, row, column);
    }
    wait_for_copies<0>();
  }

  // Part s has come, all have read the one before it, and the next is asked for in its place.
  TRUEMAX_KERNEL void next(const Thread& t, std::uint32_t s, std::uint32_t row, std::uint32_t column,
                           std::uint32_t parts) const {
    wait_for_copies<kStages - 2>();
    t.sync();
    fetch(t, s + kStages - 1, row, column, parts);
  }

  TRUEMAX_KERNEL static float a_at(const float* a, int row, int k) {
    return kRowsOfA ? a[row * TileA::kStride + k] : a[k * TileA::kStride + row];
  }
  TRUEMAX_KERNEL static float b_at(const float* b, int k, int column) {
    return kRowsOfB ? b[column * TileB::kStride + k] : b[k * TileB::kStride + column];
  }

  TRUEMAX_KERNEL static void add(const Thread& t, float (&sum)[kSmallRows][kSmallColumns][4], const float* a,
                                 const float* b) {
    const Group<32> warp = t.template group<32>();
    const int g = warp.lane() / 4, l = warp.lane() % 4;
    const int row = first_row(t) + g, column = first_column(t) + g;
    TRUEMAX_UNROLL
    for (int k = 0; k < kDepth; k += 8) {
      std::uint32_t of_a[kSmallRows][4], of_b[kSmallColumns][2];
      TRUEMAX_UNROLL
      for (int i = 0; i < kSmallRows; ++i) TRUEMAX_UNROLL
      for (int j = 0; j < 4; ++j) of_a[i][j] = to_tf32(a_at(a, row + 16 * i + j % 2 * 8, k + l + j / 2 * 4));
      TRUEMAX_UNROLL
      for (int i = 0; i < kSmallColumns; ++i) TRUEMAX_UNROLL
      for (int j = 0; j < 2; ++j) of_b[i][j] = to_tf32(b_at(b, k + l + 4 * j, column + 8 * i));
      TRUEMAX_UNROLL
      for (int i = 0; i < kSmallRows; ++i) TRUEMAX_UNROLL
      for (int j = 0; j < kSmallColumns; ++j) multiply_add(warp, sum[i][j], of_a[i], of_b[j]);
    }
  }
  TRUEMAX_KERNEL static int first_row(const Thread& t) {
    return static_cast<int>(t.number() / 32 % 2) * kWarpRows;
  }
  TRUEMAX_KERNEL static int first_column(const Thread& t) {
    return static_cast<int>(t.number() / 64) * kWarpColumns;
  }
  TRUEMAX_KERNEL void store(const Thread& t, const float (&sum)[kSmallRows][kSmallColumns][4],
                            std::uint32_t row, std::uint32_t column) const {
    const int lane = t.template group<32>().lane();
    TRUEMAX_UNROLL
    for (int i = 0; i < kSmallRows; ++i) TRUEMAX_UNROLL
    for (int j = 0; j < kSmallColumns; ++j) TRUEMAX_UNROLL
    for (int n = 0; n < 4; ++n)
      put(row + static_cast<std::uint32_t>(first_row(t) + 16 * i + lane / 4 + n / 2 * 8),
          column + static_cast<std::uint32_t>(first_column(t) + 8 * j + lane % 4 * 2 + n % 2), sum[i][j][n]);
  }

  // Thread (r, c) of 16 x 16 has rows r, r + 16, ... and columns c, c + 16, ...
  TRUEMAX_KERNEL static void add_exact(const Thread& t, float (&sum)[kOwnRows][kOwnColumns], const float* a,
                                       const float* b) {
    const int r = static_cast<int>(t.number() / 16), c = static_cast<int>(t.number() % 16);
    TRUEMAX_UNROLL
    for (int k = 0; k < kDepth; ++k) {
      float of_a[kOwnRows], of_b[kOwnColumns];
      TRUEMAX_UNROLL
      for (int i = 0; i < kOwnRows; ++i) of_a[i] = a_at(a, r + 16 * i, k);
      TRUEMAX_UNROLL
      for (int j = 0; j < kOwnColumns; ++j) of_b[j] = b_at(b, k, c + 16 * j);
      TRUEMAX_UNROLL
      for (int i = 0; i < kOwnRows; ++i) TRUEMAX_UNROLL
      for (int j = 0; j < kOwnColumns; ++j) sum[i][j] += of_a[i] * of_b[j];
    }
  }
  TRUEMAX_KERNEL void store_exact(const Thread& t, const float (&sum)[kOwnRows][kOwnColumns],
                                  std::uint32_t row, std::uint32_t column) const {
    TRUEMAX_UNROLL
    for (int i = 0; i < kOwnRows; ++i) TRUEMAX_UNROLL
    for (int j = 0; j < kOwnColumns; ++j)
      put(row + t.number() / 16 + 16 * static_cast<std::uint32_t>(i),
          column + t.number() % 16 + 16 * static_cast<std::uint32_t>(j), sum[i][j]);
  }
  TRUEMAX_KERNEL void put(std::uint32_t row, std::uint32_t column, float x) const {
    if (row < product.rows && column < product.columns) product.out[product.stride * row + column] = x;
  }
};

// The product on the CPU: what tests of whole runs have time for.
template <Form kForm>
void multiply_plainly(const Product& p) {
  for (std::uint32_t r = 0; r < p.rows; ++r)
    for (std::uint32_t c = 0; c < p.columns; ++c) {
      float sum = 0;
      for (std::uint32_t k = 0; k < p.depth; ++k)
        sum += (kForm == Form::columns_first ? p.a.row(k)[r] : p.a.row(r)[k]) *
               (kForm == Form::rows_by_rows ? p.b.row(c)[k] : p.b.row(k)[c]);
      p.out[p.stride * r + c] = sum;
    }
}

// Launches the product with tiles that are large if there are enough of them for the card.
template <Form kForm, class Runtime>
void multiply(Runtime& runtime, const Product& p, bool exact) {
  if (p.rows == 0 || p.columns == 0) return;
  if constexpr (Runtime::kEmulated) return multiply_plainly<kForm>(p);
  const auto launch = [&]<class Kernel>(const Kernel& kernel) {
    runtime.launch(kernel, static_cast<std::uint32_t>(Kernel::tiles(p)), Kernel::kThreads, Kernel::kBytes);
  };
  using Large = Multiply<kForm, 64, 32, false>;
  if (exact)
    launch(Multiply<kForm, 64, 32, true>{p});
  else if (Large::tiles(p) >= runtime.most_blocks() / 8)
    launch(Large{p});
  else
    launch(Multiply<kForm, 32, 16, false>{p});
}

}  // namespace truemax::cuda
