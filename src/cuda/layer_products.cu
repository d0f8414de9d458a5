// gradient = p^T x_copy and dx = p drawn_w, side by side: some blocks of threads take tiles of one, the rest
// tiles of the other. Tiles have 128 by 256 numbers (cuda/sm90_tiles.hpp). While a block stores one, the
// next one's operands are on their way.
#include "cuda/layer_products.hpp"

#include <algorithm>

#include "cuda/numbers.hpp"
#include "cuda/sm90_tiles.hpp"
#include "solve/scalar_math.hpp"

namespace truemax::cuda {
namespace {

using sm90::kAcross, sm90::kDepth, sm90::kHigh, sm90::kMultipliers, sm90::kTile;

constexpr int kThreads = kMultipliers + 64;
constexpr std::uint32_t kStages = 4, kBuffers = 2, kTilesOfRow = kAcross / 64;
constexpr int kFilledBarrier = 1, kStoredBarrier = 3;  // of each buffer

struct alignas(1024) Shared {
  sm90::Ring<kStages> ring;
  char out[kBuffers][kHigh * 64 * 2];  // on its way to memory
  sm90::RingBarriers<kStages> barriers;
};

struct Maps {
  CUtensorMap x, w, p;               // tiles of 64 x 64
  CUtensorMap p_high, dx, gradient;  // of 128 x 64
};

// Tiles of both products, in order.
struct Plan {
  std::uint32_t rows, slots, features, parts, steps_of_part;
  std::uint32_t blocks_of_w;  // the rest are for dx

  TRUEMAX_HOST_DEVICE std::uint32_t across() const { return (features + kAcross - 1) / kAcross; }
  TRUEMAX_HOST_DEVICE std::uint32_t tiles_of_w() const {
    return (slots + kHigh - 1) / kHigh * across() * parts;
  }
  TRUEMAX_HOST_DEVICE std::uint32_t tiles_of_x() const { return (rows + kHigh - 1) / kHigh * across(); }
  TRUEMAX_HOST_DEVICE std::uint32_t steps_of_rows() const { return (rows + kDepth - 1) / kDepth; }
  TRUEMAX_HOST_DEVICE std::uint32_t steps_of_x() const { return (slots + kDepth - 1) / kDepth; }
};

struct Tile {
  std::uint32_t high, across;        // first row and column
  std::uint32_t part, first, steps;  // along the sum
};

// Calls visit(tile) for the tiles of this block.
template <bool kOfW, class Visit>
__device__ void each_tile(const Plan& plan, const Visit& visit) {
  const std::uint32_t wide = plan.across();
  if constexpr (kOfW) {
    const std::uint32_t of_part = plan.tiles_of_w() / plan.parts;
    for (std::uint32_t i = blockIdx.x; i < plan.tiles_of_w(); i += plan.blocks_of_w) {
      const std::uint32_t part = i / of_part, first = part * plan.steps_of_part;
      const std::uint32_t end = smaller(first + plan.steps_of_part, plan.steps_of_rows());
      visit(Tile{i % of_part / wide * kHigh, i % wide * kAcross, part, first, end - first});
    }
  } else {
    const std::uint32_t stride = gridDim.x - plan.blocks_of_w;
    for (std::uint32_t i = blockIdx.x - plan.blocks_of_w; i < plan.tiles_of_x(); i += stride)
      visit(Tile{i / wide * kHigh, i % wide * kAcross, 0, 0, plan.steps_of_x()});
  }
}

template <bool kOfW>
__device__ void load(Shared& shared, const Maps& maps, const Plan& plan) {
  std::uint32_t n = 0;
  each_tile<kOfW>(plan, [&](const Tile& tile) {
    for (std::uint32_t k = tile.first; k < tile.first + tile.steps; ++k, ++n) {
      const std::uint32_t stage = shared.barriers.begin_load(n), along = k * kDepth;
      std::uint64_t* const full = &shared.barriers.full[stage];
      if constexpr (kOfW)
        for (std::uint32_t t = 0; t < sm90::kTilesOfA; ++t)
          sm90::load_tile(shared.ring.a[stage] + t * kTile, &maps.p, tile.high + t * 64, along, full);
      else
        sm90::load_tile(shared.ring.a[stage], &maps.p_high, along, tile.high, full);
      for (std::uint32_t t = 0; t < sm90::kTilesOfB; ++t)
        sm90::load_tile(shared.ring.b[stage] + t * kTile, kOfW ? &maps.x : &maps.w, tile.across + t * 64,
                        along, full);
    }
  });
}

// To shared memory, 64 columns at a time; from there another warp stores them, while this one fills the other
// buffer. n: 0 for the first tile.
__device__ void put_down(const float (&sums)[128], Shared& shared, std::uint32_t n) {
  const std::uint32_t lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane % 16;
#pragma unroll
  for (std::uint32_t tile = 0; tile < kTilesOfRow; ++tile) {
    const int buffer = tile % kBuffers;
    if (tile >= kBuffers || n > 0) sm90::sync_some(kStoredBarrier + buffer, kMultipliers + 32);
#pragma unroll
    for (std::uint32_t j = 0; j < 8; j += 2) {
      std::uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* const sum = sums + 32 * tile + 4 * j + 2 * i;
        pairs[i] = sm90::narrow_pair(sum[0], sum[1]);
      }
      sm90::store_matrices(shared.out[buffer] + sm90::swizzled(row, j + lane / 16), pairs[0], pairs[1],
                           pairs[2], pairs[3]);
    }
    sm90::fence_for_copies();
    sm90::arrive_some(kFilledBarrier + buffer, kMultipliers + 32);
  }
}
template <bool kOfW>
__device__ void store(const Shared& shared, const Maps& maps, const Plan& plan) {
  const bool stores = threadIdx.x % 32 == 0;
  std::uint32_t all = 0, n = 0;
  each_tile<kOfW>(plan, [&](const Tile&) { all += kTilesOfRow; });
  each_tile<kOfW>(plan, [&](const Tile& tile) {
    for (std::uint32_t t = 0; t < kTilesOfRow; ++t, ++n) {
      const int buffer = static_cast<int>(n % kBuffers);
      sm90::sync_some(kFilledBarrier + buffer, kMultipliers + 32);
      if (stores) {
        const std::uint32_t column = tile.across + 64 * t;
        if constexpr (kOfW)
          sm90::store_tile(&maps.gradient, column, tile.high, tile.part, shared.out[buffer]);
        else
          sm90::store_tile(&maps.dx, column, tile.high, shared.out[buffer]);
        sm90::commit_stores();
        sm90::wait_until_read<1>();
      }
      __syncwarp();
      // The buffer before this one is free, if it is wanted again.
      if (n > 0 && n + 1 < all) sm90::arrive_some(kStoredBarrier + 1 - buffer, kMultipliers + 32);
    }
  });
  if (stores) sm90::wait_until_read<0>();
}

template <bool kOfW>
__device__ void work(Shared& shared, const Maps& maps, const Plan& plan) {
  const std::uint32_t thread = threadIdx.x;
  if (thread >= kMultipliers + 32) return store<kOfW>(shared, maps, plan);
  if (thread >= kMultipliers) {
    if (thread == kMultipliers) load<kOfW>(shared, maps, plan);
    return;
  }
  using sm90::Along;
  std::uint32_t n = 0;
  float sums[128];
  each_tile<kOfW>(plan, [&](const Tile& tile) {
    const std::uint32_t before = n;
    sm90::multiply<kOfW ? Along::other : Along::sum, Along::other>(shared.ring, shared.barriers, tile.steps,
                                                                   n, sums);
    put_down(sums, shared, before);
  });
}

__global__ void __launch_bounds__(kThreads, 1)
    multiply_both(const __grid_constant__ Maps maps, const __grid_constant__ Plan plan) {
  extern __shared__ __align__(1024) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const bool of_w = blockIdx.x < plan.blocks_of_w;
  if (threadIdx.x == kMultipliers) {
    sm90::prefetch_map(of_w ? &maps.p : &maps.p_high), sm90::prefetch_map(of_w ? &maps.x : &maps.w);
    shared.barriers.init();
    sm90::publish_barriers();
  }
  __syncthreads();
  if (of_w)
    work<true>(shared, maps, plan);
  else
    work<false>(shared, maps, plan);
}

// Steps of the block with most of them, if the gradient has so many parts.
std::uint32_t steps_with(Plan& plan, std::uint32_t parts, std::uint32_t processors) {
  plan.parts = parts;
  plan.steps_of_part = (plan.steps_of_rows() + parts - 1) / parts;
  const auto rounds = [](std::uint32_t tiles, std::uint32_t blocks) { return (tiles + blocks - 1) / blocks; };
  std::uint32_t least = ~0U;
  for (std::uint32_t turns = 1; turns <= 4; ++turns) {  // tiles of the gradient that a block takes
    const std::uint32_t blocks = rounds(plan.tiles_of_w(), turns);
    if (blocks >= processors) continue;
    const std::uint32_t of_x = rounds(plan.tiles_of_x(), processors - blocks);
    const std::uint32_t most = std::max(turns * plan.steps_of_part, of_x * plan.steps_of_x());
    if (most < least) least = most, plan.blocks_of_w = blocks;
  }
  return least;
}

}  // namespace

int multiply_back(LayerCall& call, void* stream, std::uint32_t processors) {
  Plan plan{static_cast<std::uint32_t>(call.rows), static_cast<std::uint32_t>(call.slots),
            static_cast<std::uint32_t>(call.features)};
  // A tile that is mostly empty takes as long as a full one.
  const bool fills = 4 * call.features >= 3 * std::uint64_t{plan.across()} * kAcross;
  if (call.copy_type != NumberType::bfloat16 || call.score_type != NumberType::bfloat16 ||
      call.dx_type != NumberType::bfloat16 || call.dx == nullptr || call.features % 8 != 0 || !fills ||
      !sm90::here(call.rows, processors))
    return kNotHere;
  std::uint32_t best = ~0U, parts = 0;
  for (std::uint32_t n = 1; n <= std::min<std::uint64_t>(kMostParts, call.room); n *= 2) {
    const std::uint32_t steps = steps_with(plan, n, processors);
    const bool all_have_rows = plan.steps_of_part * (n - 1) < plan.steps_of_rows();
    if (all_have_rows && steps < best) best = steps, parts = n;
  }
  if (parts == 0) return kNotHere;
  steps_with(plan, parts, processors);
  Maps maps;
  if (!sm90::describe(&maps.x, call.x_copy, call.rows, call.features, kDepth) ||
      !sm90::describe(&maps.w, call.drawn_w, call.slots, call.features, kDepth) ||
      !sm90::describe(&maps.p, call.p, call.rows, call.slots, kDepth) ||
      !sm90::describe(&maps.p_high, call.p, call.rows, call.slots, kHigh) ||
      !sm90::describe(&maps.dx, call.dx, call.rows, call.features, kHigh) ||
      !sm90::describe(&maps.gradient, call.gradient, call.slots, call.features, kHigh, parts))
    return kNotHere;
  call.splits = parts, call.gradient_type = NumberType::bfloat16;
  const std::uint32_t blocks_of_x = std::min(plan.tiles_of_x(), processors - plan.blocks_of_w);
  return sm90::launch(multiply_both, plan.blocks_of_w + blocks_of_x, kThreads,
                      static_cast<int>(sizeof(Shared)), stream, maps, plan);
}

}  // namespace truemax::cuda
