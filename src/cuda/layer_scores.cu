// Scores of the drawn classes, u, losses and p of each row, in one kernel: scores stay in registers.
//
// Two blocks of threads, which send each other numbers, take 128 rows and half of the slots each, 256 slots
// at a time. Two groups of four warps multiply, 64 rows each (cuda/sm90_tiles.hpp). For each 256 slots they
// keep exp(score - highest) in bfloat16. Then the blocks tell each other the highest score and the sum of
// each row, and p goes through the shared memory of the tiles to memory. Warps that do not multiply read what
// is known of the rows, keep weights of labels that several rows have, and add up losses.
//
// Estimate (cuda/layer_estimate.hpp) does the same from scores in memory; tests compare the two.
#include "cuda/layer_scores.hpp"

#include "cuda/sm90_tiles.hpp"

namespace truemax::cuda {
namespace {

using sm90::kDepth, sm90::kMultipliers;

constexpr std::uint32_t kRows = sm90::kHigh, kSlots = sm90::kAcross, kStages = 4;
constexpr int kHelpers = 96, kThreads = kMultipliers + 32 + kHelpers;
constexpr std::uint32_t kOfBlock = kRows / 2;  // rows that a block answers for
constexpr float kUnit = 1.4426950408889634F;
constexpr int kStoresOfPass = 2;
// Numbers of barriers for some of the threads.
constexpr int kStateBarrier = 1, kRowBarrier = 2, kHelperBarrier = 3, kSumBarrier = 4, kOwnBarrier = 5;
constexpr int kStoredBarrier = 6, kStoreBarrier = 7;  // and the next, one for each store

template <int kPasses>
struct alignas(1024) Shared {
  static constexpr std::uint32_t kColumns = kPasses * kSlots, kTilesOfP = kColumns / kDepth;
  union {
    sm90::Ring<kStages> ring;
    char p[kTilesOfP][kRows * kDepth * 2];
  };
  float offset[kColumns];
  EstimatedRow row[kRows];
  float2 others[kRows];     // of the other block: the highest score and the sum
  float others_sum[kRows];  // and the sum of p
  sm90::RingBarriers<kStages> barriers;
  std::uint64_t came[2];
  std::uint32_t givers, giver[kOfBlock];  // rows whose label has the slot of an earlier row
  std::uint32_t any_own;                  // 1: the label of a row is one of the block's drawn classes
};

struct Maps {
  CUtensorMap x, w, p;
};

// Of 256 slots, of two rows of a thread.
struct Part {
  float highest[2], sum[2];
  std::uint32_t e[64];  // pairs of exp2(score - highest): 2 j + h
};

__device__ float highest_of_four(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, 2));
}
__device__ float sum_of_four(float x) {
  x += __shfl_xor_sync(0xFFFFFFFFU, x, 1);
  return x + __shfl_xor_sync(0xFFFFFFFFU, x, 2);
}

// From scores to exps. own: slots of the labels of the two rows, counted from the first of these.
__device__ void take_scores(float (&scores)[128], const float* offset, const std::uint32_t (&own)[2],
                            Part& part) {
  const std::uint32_t pair = threadIdx.x % 4 * 2;
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    const float2 o = *reinterpret_cast<const float2*>(offset + 8 * j + pair);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      scores[4 * j + 2 * h] = fmaf(scores[4 * j + 2 * h], kUnit, o.x);
      scores[4 * j + 2 * h + 1] = fmaf(scores[4 * j + 2 * h + 1], kUnit, o.y);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (own[h] < kSlots && own[h] % 8 / 2 * 2 == pair) [[unlikely]] {
#pragma unroll
      for (int j = 0; j < 32; ++j) {
        if (own[h] == 8 * j + pair) scores[4 * j + 2 * h] = kEmptySlot;
        if (own[h] == 8 * j + pair + 1) scores[4 * j + 2 * h + 1] = kEmptySlot;
      }
    }
    float highest = kEmptySlot;
#pragma unroll
    for (int j = 0; j < 32; ++j)
      highest = fmaxf(highest, fmaxf(scores[4 * j + 2 * h], scores[4 * j + 2 * h + 1]));
    highest = highest_of_four(highest);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 32; ++j) {
      const float low = quick_exp2(scores[4 * j + 2 * h] - highest);
      const float high = quick_exp2(scores[4 * j + 2 * h + 1] - highest);
      sum += low + high;
      part.e[2 * j + h] = sm90::narrow_pair(low, high);
    }
    part.highest[h] = highest, part.sum[h] = sum_of_four(sum);
  }
}

// Steps [first, end) of kPasses times `steps`.
template <int kPasses>
__device__ void load_tiles(Shared<kPasses>& shared, const Maps& maps, std::uint32_t first_row,
                           std::uint32_t first_slot, std::uint32_t steps, std::uint32_t first,
                           std::uint32_t end) {
  for (std::uint32_t n = first; n < end; ++n) {
    const std::uint32_t stage = shared.barriers.begin_load(n), column = n % steps * kDepth;
    std::uint64_t* const full = &shared.barriers.full[stage];
    sm90::load_tile(shared.ring.a[stage], &maps.x, column, first_row, full);
    sm90::load_tile(shared.ring.b[stage], &maps.w, column, first_slot + n / steps * kSlots, full);
  }
}

// The losses of the rows that this block answers for, by one warp, once u is there.
template <int kPasses>
__device__ void add_losses(const Shared<kPasses>& shared, const ScoredRows& rows, std::uint32_t block) {
  const Group<32> group;
  double loss = 0;
  std::int32_t counted = 0;
  for (std::uint32_t r = block * kOfBlock + group.lane(); r < (block + 1) * kOfBlock; r += 32)
    if (shared.row[r].label >= 0) loss += static_cast<double>(shared.row[r].u), ++counted;
  loss = group.sum(loss), counted = group.sum(counted);
  if (group.lane() == 0) rows.add_losses(loss, counted, (rows.rows() + kRows - 1) / kRows * 2);
}

// Sums of p over rows. A warp takes 64 columns.
template <int kPasses>
__device__ void add_columns(const Shared<kPasses>& shared, const ScoredRows& rows, std::uint32_t first_slot) {
  const std::uint32_t lane = threadIdx.x % 32, tile = threadIdx.x / 32;
  if (tile >= Shared<kPasses>::kTilesOfP) return;
  float sums[8][4] = {};
#pragma unroll 1
  for (std::uint32_t r = 0; r < kRows; r += 16)
#pragma unroll
    for (std::uint32_t pair = 0; pair < 4; ++pair) {
      std::uint32_t p[4];
      sm90::load_transposed(p, shared.p[tile] + sm90::swizzled(r + lane % 16, 2 * pair + lane / 16));
      sm90::add_columns_up(sums[2 * pair], p[0], p[1]);
      sm90::add_columns_up(sums[2 * pair + 1], p[2], p[3]);
    }
  if (lane >= 4) return;
#pragma unroll
  for (std::uint32_t j = 0; j < 8; ++j)
    if (const std::uint32_t c = first_slot + tile * kDepth + 8 * j + 2 * lane; c < rows.slots())
      atomicAdd(reinterpret_cast<float2*>(rows.call.column_p + c), make_float2(sums[j][0], sums[j][1]));
}

// p, by one warp. Threads that write to shared memory would wait for copies of their own.
template <int kPasses>
__device__ void store_tiles(const Shared<kPasses>& shared, const Maps& maps, std::uint32_t first_row,
                            std::uint32_t first_slot) {
  constexpr std::uint32_t kAtOnce = kSlots / kDepth / kStoresOfPass;
  const bool stores = threadIdx.x % 32 == 0;
  __syncwarp();
  for (std::uint32_t group = 0; group < kPasses * kStoresOfPass; ++group) {
    sm90::sync_some(kStoreBarrier + static_cast<int>(group), kMultipliers + 32);
    if (stores) {
      for (std::uint32_t tile = group * kAtOnce; tile < (group + 1) * kAtOnce; ++tile)
        sm90::store_tile(&maps.p, first_slot + tile * kDepth, first_row, shared.p[tile]);
      sm90::commit_stores();
    }
    __syncwarp();
  }
  sm90::sync_some(kOwnBarrier, kMultipliers + 32);
  if (shared.any_own == 0) {
    if (stores) sm90::wait_until_read();
    return;
  }
  if (stores) sm90::wait_until_stored();
  __syncwarp();
  sm90::arrive_some(kStoredBarrier, kMultipliers + 32);
}

template <int kPasses>
__device__ void multiply_and_estimate(Shared<kPasses>& shared, const ScoredRows& rows, std::uint32_t block,
                                      std::uint32_t first_row, std::uint32_t first_slot,
                                      std::uint32_t steps) {
  constexpr std::uint32_t kColumns = Shared<kPasses>::kColumns;
  const std::uint32_t thread = threadIdx.x, lane = thread % 32, other = 1 - block;
  const std::uint32_t row = thread / 32 * 16 + lane / 4;  // and that + 8
  Part part[kPasses];
  std::uint32_t own[2];  // slots of the labels of both rows, from the first one here on
  std::uint32_t n = 0;
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    float scores[128];
    sm90::multiply<sm90::Along::sum, sm90::Along::sum>(shared.ring, shared.barriers, steps, n, scores);
    if (pass == 0) {
      sm90::sync_some(kStateBarrier, kMultipliers + kHelpers);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const EstimatedRow& mine = shared.row[row + 8 * h];
        own[h] = mine.label >= 0 && mine.slot < rows.slots() ? mine.slot - first_slot : ~0U;
      }
    }
    const std::uint32_t here[2] = {own[0] - pass * kSlots, own[1] - pass * kSlots};
    take_scores(scores, shared.offset + pass * kSlots, here, part[pass]);
  }

  float highest[2], sum[2];
  sm90::wait_cluster();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    highest[h] = part[0].highest[h], sum[h] = part[0].sum[h];
    if constexpr (kPasses == 2) {
      highest[h] = fmaxf(highest[h], part[1].highest[h]);
      sum[h] = sum[h] * quick_exp2(part[0].highest[h] - highest[h]) +
               part[1].sum[h] * quick_exp2(part[1].highest[h] - highest[h]);
    }
    if (lane % 4 == 0)
      sm90::send_there(&shared.others[row + 8 * h], other, &shared.came[0], make_float2(highest[h], sum[h]));
  }
  sm90::wait(&shared.came[0], 0);
  sm90::PairFactor factor[kPasses][2];
  {
    // Two threads of four find u of a row each. Both blocks add up in the same order.
    const std::uint32_t h = lane % 2, r = row + 8 * h;
    const float2 mine = h == 0 ? make_float2(highest[0], sum[0]) : make_float2(highest[1], sum[1]);
    const float2 a = block == 0 ? mine : shared.others[r], b = block == 0 ? shared.others[r] : mine;
    const float top = fmaxf(a.x, b.x), all = a.y * quick_exp2(a.x - top) + b.y * quick_exp2(b.x - top);
    const EstimatedRow& of = shared.row[r];
    RowScale scale{0, 0};
    if (of.label >= 0)
      scale = rows.scale_of(top > kEmptySlot / 2 ? top * (1 / kUnit) - of.score : kEmptySlot, all, of.base);
    if (lane % 4 < 2) shared.row[r].u = scale.u;
#pragma unroll
    for (int to = 0; to < 2; ++to) {
      const int from = static_cast<int>(lane / 2 * 2) + to;
      const float factor_of_row = __shfl_sync(0xFFFFFFFFU, scale.factor, from);
      const float top_of_row = __shfl_sync(0xFFFFFFFFU, top, from);
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass)
        factor[pass][to] = sm90::pair_factor(factor_of_row * quick_exp2(part[pass].highest[to] - top_of_row));
    }
  }
  sm90::sync_some(kRowBarrier, kMultipliers);  // the tiles are read

  // p, rounded. What the label loses is the sum of what was rounded: the coefficients of a row sum to 0.
  float all[4][4] = {};  // several sums, so that none waits long for the one before
#pragma unroll
  for (int group = 0; group < kPasses * kStoresOfPass; ++group) {
    constexpr int kPairs = 64 / kStoresOfPass;
    const int pass = group / kStoresOfPass, first = group % kStoresOfPass * kPairs;
    std::uint32_t(&p)[64] = part[pass].e;
#pragma unroll
    for (int i = first; i < first + kPairs; ++i) p[i] = sm90::times(p[i], factor[pass][i % 2]);
#pragma unroll
    for (int i = first; i < first + kPairs; i += 4) {
      const std::uint32_t column = pass * kSlots + 4 * i;
      const std::uint32_t r = thread / 32 * 16 + lane % 16, chunk = column % kDepth / 8 + lane / 16;
      sm90::add_rows_up(all[i / 4 % 4], p[i], p[i + 1], p[i + 2], p[i + 3]);
      sm90::store_matrices(shared.p[column / kDepth] + sm90::swizzled(r, chunk), p[i], p[i + 1], p[i + 2],
                           p[i + 3]);
    }
    sm90::fence_for_copies();
    sm90::arrive_some(kStoreBarrier + group, kMultipliers + 32);
  }
  float sum_p[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum_p[h] = (all[0][2 * h] + all[1][2 * h]) + (all[2][2 * h] + all[3][2 * h]);
    if (lane % 4 == 0) sm90::send_there(&shared.others_sum[row + 8 * h], other, &shared.came[1], sum_p[h]);
  }
  sm90::wait(&shared.came[1], 0);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum_p[h] += shared.others_sum[row + 8 * h];
    if (lane % 4 == 0) shared.row[row + 8 * h].sum_p = sum_p[h];
  }
  sm90::arrive_some(kSumBarrier, kMultipliers + kHelpers);
  if (own[0] < kColumns || own[1] < kColumns) shared.any_own = 1;
  __syncwarp();
  sm90::arrive_some(kOwnBarrier, kMultipliers + 32);
  sm90::sync_some(kRowBarrier, kMultipliers);  // and all of p is there
  add_columns(shared, rows, first_slot);
  if (shared.any_own == 0) return;
  // The label is one of the drawn classes: the products have its part too.
  sm90::sync_some(kStoredBarrier, kMultipliers + 32);
#pragma unroll
  for (int h = 0; h < 2; ++h)
    if (lane % 4 == 0 && own[h] < kColumns) {
      const std::uint64_t slot = first_slot + own[h];
      const Bfloat16 p = narrow<Bfloat16>(-sum_p[h]);
      static_cast<Bfloat16*>(rows.call.p)[(first_row + row + 8 * h) * rows.call.slots + slot] = p;
      add(rows.call.column_p + slot, wide(p));
    }
}

template <int kPasses>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)
    score_and_estimate(const __grid_constant__ Maps maps, const __grid_constant__ ScoredRows rows) {
  extern __shared__ __align__(1024) char memory[];
  Shared<kPasses>& shared = *reinterpret_cast<Shared<kPasses>*>(memory);
  const std::uint32_t block = blockIdx.x % 2, thread = threadIdx.x;
  if (thread == kMultipliers) sm90::prefetch_map(&maps.x), sm90::prefetch_map(&maps.w);
  const std::uint32_t first_row = blockIdx.x / 2 * kRows, first_slot = block * Shared<kPasses>::kColumns;
  if (first_row >= rows.rows()) {  // the last two blocks, if there is a ring of labels
    if (block == 0) rows.number(Thread{memory});
    return;
  }
  const std::uint32_t steps = (static_cast<std::uint32_t>(rows.call.features) + kDepth - 1) / kDepth;
  const std::uint32_t tiles = kPasses * steps, at_once = smaller(tiles, kStages);
  if (thread == kMultipliers) {
    shared.barriers.init();
    sm90::init_barrier(&shared.came[0], 1), sm90::init_barrier(&shared.came[1], 1);
    shared.givers = shared.any_own = 0;
    sm90::publish_barriers();
    load_tiles(shared, maps, first_row, first_slot, steps, 0, at_once);
    sm90::arrive_and_expect(&shared.came[0], kRows * sizeof(float2));
    sm90::arrive_and_expect(&shared.came[1], kRows * sizeof(float));
  }
  __syncthreads();
  sm90::arrive_cluster();  // this block's barriers are there
  if (thread < kMultipliers) {
    sm90::take_registers<224>();
    multiply_and_estimate(shared, rows, block, first_row, first_slot, steps);
    return;
  }
  sm90::give_registers<56>();
  if (thread < kMultipliers + 32) {
    if (thread == kMultipliers) {
      sm90::prefetch_map(&maps.p);
      load_tiles(shared, maps, first_row, first_slot, steps, at_once, tiles);
    }
    store_tiles(shared, maps, first_row, first_slot);
    return;
  }
  const std::uint32_t helper = thread - kMultipliers - 32;
  for (std::uint32_t r = helper; r < kRows; r += kHelpers) shared.row[r] = rows.state_of(first_row + r);
  for (std::uint32_t c = helper; c < Shared<kPasses>::kColumns; c += kHelpers)
    shared.offset[c] = first_slot + c < rows.slots()
                           ? larger(kUnit * rows.call.offset[first_slot + c], kEmptySlot)
                           : kEmptySlot;
  __syncwarp();
  sm90::arrive_some(kStateBarrier, kMultipliers + kHelpers);
  sm90::sync_some(kHelperBarrier, kHelpers);
  const std::uint32_t mine = block * kOfBlock + helper;
  if (helper < kOfBlock && rows.gives(first_row + mine, shared.row[mine]))
    shared.giver[atomicAdd(&shared.givers, 1U)] = mine;
  sm90::sync_some(kHelperBarrier, kHelpers);
  const auto each_giver = [&](const auto& visit) {
    for (std::uint32_t g = helper / 32; g < shared.givers; g += kHelpers / 32) visit(shared.giver[g]);
  };
  each_giver([&](std::uint32_t r) { rows.keep(Group<32>{}, first_row + r, shared.row[r].label); });
  sm90::sync_some(kSumBarrier, kMultipliers + kHelpers);
  each_giver([&](std::uint32_t r) {
    rows.join(Group<32>{}, first_row + r, shared.row[r].slot, shared.row[r].sum_p);
  });
  if (helper < kOfBlock)
    rows.put_row(first_row + mine, shared.row[mine]);
  else
    add_losses(shared, rows, block);
}

template <int kPasses>
int launch(const Maps& maps, const ScoredRows& rows, void* stream) {
  const auto tiles = static_cast<std::uint32_t>((rows.call.rows + kRows - 1) / kRows);
  const std::uint32_t more = ScoredRows::numbers_labels(rows.call) ? 1 : 0;
  return sm90::launch(score_and_estimate<kPasses>, 2 * (tiles + more), kThreads,
                      static_cast<int>(sizeof(Shared<kPasses>)), stream, maps, rows);
}

}  // namespace

int score_rows(const ScoredRows& rows, void* stream, std::uint32_t processors) {
  const LayerCall& call = rows.call;
  Maps maps;
  if (call.copy_type != NumberType::bfloat16 || call.score_type != NumberType::bfloat16 ||
      call.slots > 4 * kSlots || call.features % 8 != 0 || !sm90::here(call.rows, processors) ||
      !sm90::describe(&maps.x, call.x_copy, call.rows, call.features, kRows) ||
      !sm90::describe(&maps.w, call.drawn_w, call.slots, call.features, kSlots) ||
      !sm90::describe(&maps.p, call.p, call.rows, call.slots, kRows))
    return kNotHere;
  return call.slots > 2 * kSlots ? launch<2>(maps, rows, stream) : launch<1>(maps, rows, stream);
}

}  // namespace truemax::cuda
