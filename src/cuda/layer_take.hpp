// TakeRows: draws classes and copies their weights; for each row: checks, copies, the score of its label, and
// what u keeps; the direction of the mean of x. What layer/pass.cpp does in take_rows.
//
// Rows that cannot be used are left out, and the first of them is reported: a kernel cannot throw, and
// nothing may wait for it.
#pragma once

#include "cuda/layer_draw.hpp"
#include "solve/mirror.hpp"

namespace truemax::cuda {

// X: type of x; W: of the weights; C: of the copies; kWide numbers at a time. Blocks: those of drawn classes,
// of u, of rows, and one of columns.
template <class X, class W, class C, int kWide>
struct TakeRows {
  LayerCall call;
  std::uint32_t drawn_blocks, u_blocks;
  static constexpr std::uint32_t kMostThreads = 256, kLeastBlocks = 4;  // of a processor
  static constexpr int kAtOnce = kWide == 1 ? 4 : 16 / kWide;           // packs of a thread

  static std::size_t shared_bytes(const LayerCall& call) {
    return larger(draws_here(call) ? Draws::words(call.drawn) * sizeof(std::uint32_t) : 0,
                  2 * (kMostThreads / 32) * sizeof(double));
  }
  TRUEMAX_HOST_DEVICE static bool draws_here(const LayerCall& call) {
    return call.draw != CallDraw::all && call.drawn <= Draws::kMostAtOnce;
  }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint64_t stamp = call.scalars->stamp + 1;
    const Group<32> group = t.template group<32>();
    const std::uint64_t warps = t.threads() / 32, warp = t.number() / 32;
    std::uint64_t block = t.block();
    if (block < drawn_blocks) {
      const Draws draws(call, t.shared);
      if (draws_here(call)) draws.prepare(t);
      for (std::uint64_t j = block * warps + warp; j < call.slots; j += drawn_blocks * warps)
        gather(group, j, draws, stamp);
      return;
    }
    block -= drawn_blocks;
    if (block < u_blocks)
      return keep(block * t.threads() + t.number(), u_blocks * std::uint64_t{t.threads()});
    block -= u_blocks;
    const std::uint64_t row_blocks = t.blocks() - drawn_blocks - u_blocks - 1;
    if (block == row_blocks) return find_direction(t);
    const std::uint64_t stride = row_blocks * warps;
    std::uint64_t i = block * warps + warp;
    Item item = item_at(i);
    while (i < call.rows) {
      const Item next = item_at(i + stride);
      take(group, i, item, stamp, i + stride, next);
      item = next, i += stride;
    }
  }

 private:
  // What is read of a row before its turn.
  struct Item {
    std::int64_t y, at;
  };
  TRUEMAX_KERNEL Item item_at(std::uint64_t i) const {
    if (i >= call.rows) return {-1, 0};
    return {call.target[i], call.index == nullptr ? 0 : call.index[i]};
  }
  TRUEMAX_KERNEL const X* row_of_x(std::uint64_t i) const {
    return static_cast<const X*>(call.x) + static_cast<std::int64_t>(i) * call.x_stride;
  }

  TRUEMAX_KERNEL bool usable(std::uint64_t i, std::int64_t y, std::int64_t at, bool reports) const {
    if (y == call.ignore_index) return false;
    if (y < 0 || static_cast<std::uint64_t>(y) >= call.classes) {
      if (reports) report(call, Fault::target, static_cast<std::int64_t>(i), y, 0);
      return false;
    }
    if (call.index == nullptr) return true;
    if (at >= 0 && static_cast<std::uint64_t>(at) < call.u_rows) return true;
    if (reports) report(call, Fault::index, static_cast<std::int64_t>(i), at, 0);
    return false;
  }

  // Loads are far ahead of what needs them: the time of this kernel is that of memory.
  TRUEMAX_KERNEL void take(const Group<32>& group, std::uint64_t i, const Item& item, std::uint64_t stamp,
                           std::uint64_t then, const Item& next) const {
    const std::int64_t y = item.y;
    const int lane = group.lane();
    const auto d = static_cast<std::uint32_t>(call.features);
    const X* const x = row_of_x(i);
    C* const x_copy = static_cast<C*>(call.x_copy) + i * call.features;
    bool counts = true;
    float score = 0, most_x = 0, most_w = 0, bias = 0;
    std::uint32_t first = static_cast<std::uint32_t>(lane) * kWide;
    do {
      Pack<X, kWide> of_x[kAtOnce];
      Pack<W, kWide> of_w[kAtOnce];
      TRUEMAX_UNROLL
      for (int r = 0; r < kAtOnce; ++r)
        if (const std::uint32_t c = first + static_cast<std::uint32_t>(r * 32 * kWide); c < d)
          of_x[r] = read_pack<X, kWide>(x + c);
      if (first < 32 * kWide) {
        counts = usable(i, y, item.at, lane == 0);
        if (counts && call.bias != nullptr) bias = call.bias[y];
      }
      if (!counts) break;
      const W* const w = class_row<W>(call, y);
      TRUEMAX_UNROLL
      for (int r = 0; r < kAtOnce; ++r)
        if (const std::uint32_t c = first + static_cast<std::uint32_t>(r * 32 * kWide); c < d)
          of_w[r] = read_kept_pack<W, kWide>(w + c);
      if constexpr (kWide > 1)
        if (lane == 0 && first == 0 && next.y >= 0 && static_cast<std::uint64_t>(next.y) < call.classes) {
          prefetch_class(call, static_cast<std::int32_t>(next.y));
          prefetch(row_of_x(then), static_cast<std::uint32_t>(d * sizeof(X)));
        }
      TRUEMAX_UNROLL
      for (int r = 0; r < kAtOnce; ++r)
        if (const std::uint32_t c = first + static_cast<std::uint32_t>(r * 32 * kWide); c < d) {
          float a[kWide], b[kWide];
          widen(of_x[r], a), widen(of_w[r], b);
          TRUEMAX_UNROLL
          for (int e = 0; e < kWide; ++e) {
            score += a[e] * b[e];
            most_x = larger(most_x, magnitude(a[e])), most_w = larger(most_w, magnitude(b[e]));
          }
          store_pack<C, kWide>(x_copy + c, narrowed<C, kWide>(a));
        }
      first += 32 * kWide * kAtOnce;
    } while (first < d);
    if (counts) {
      score = group.sum(score) + bias;
      most_x = group.highest_number(most_x);
      most_w = group.highest_number(larger(most_w, magnitude(bias)));
      const auto limit =
          static_cast<float>(smaller(kLayerLargest, kLayerLargestGradient / (1 + 1 / call.rho)));
      // NaN makes a score of NaN.
      if (!(most_x <= limit) || !(most_w <= static_cast<float>(kLayerLargest)) || !finite(score))
        counts = acceptable(group, i, x, y, bias);
    }
    if (!counts)
      for (std::uint32_t c = static_cast<std::uint32_t>(lane) * kWide; c < d; c += 32 * kWide)
        store_pack<C, kWide>(x_copy + c, Pack<C, kWide>{});
    if (lane != 0) return;
    call.label[i] = counts ? static_cast<std::int32_t>(y) : -1;
    call.label_score[i] = counts ? score : 0;
    call.share[i] = counts ? 1 : 0;
    call.rows_of[i] = 0;
    if (counts) raise(call.slot_of + y, slot_key(stamp, call.slots + i));
  }

  // Looks closer, and reports.
  TRUEMAX_KERNEL bool acceptable(const Group<32>& group, std::uint64_t i, const X* x, std::int64_t y,
                                 float bias) const {
    const W* const w = class_row<W>(call, y);
    std::uint32_t most_x = 0, most_w = size_bits(bias);
    for (std::uint64_t c = static_cast<std::uint64_t>(group.lane()); c < call.features; c += 32)
      most_x = larger(most_x, size_bits(wide(x[c]))), most_w = larger(most_w, size_bits(wide(w[c])));
    const auto size_x = static_cast<double>(size_of(group.highest(most_x)));
    const auto size_w = static_cast<double>(size_of(group.highest(most_w)));
    const double limit = smaller(kLayerLargest, kLayerLargestGradient / (1 + 1 / call.rho));
    if (!(size_x <= limit)) {
      if (group.lane() == 0) report(call, Fault::x, static_cast<std::int64_t>(i), 0, size_x);
      return false;
    }
    if (size_w <= kLayerLargest) return true;
    if (group.lane() == 0) report(call, Fault::weights, static_cast<std::int64_t>(i), y, size_w);
    return false;
  }

  // A thread has a row: the part of the mirror step that needs no scores.
  TRUEMAX_KERNEL void keep(std::uint64_t first, std::uint64_t stride) const {
    const bool forgets =
        call.draw == CallDraw::all || !(call.rho < 1e300) || call.index == nullptr || call.u_rows == 0;
    for (std::uint64_t i = first; i < call.rows; i += stride) {
      float base = -1;
      if (!forgets)
        if (const std::int64_t at = call.index[i]; at >= 0 && static_cast<std::uint64_t>(at) < call.u_rows)
          if (const float old = call.u[at]; finite(old))
            base = static_cast<float>(
                larger(Mirror(larger(static_cast<double>(old), 0.0), call.rho).from_pull(0), 0.0));
      call.base[i] = base;
    }
  }

  // Of layer/pass.cpp, by one block.
  TRUEMAX_KERNEL void find_direction(const Thread& t) const {
    const std::uint64_t d = call.features;
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32;
    auto* const parts = reinterpret_cast<double*>(t.shared);
    double of_mean = 0, of_square = 0;
    for (std::uint64_t c = t.number(); c < d; c += t.threads()) {
      const auto mean = static_cast<double>(call.columns[c]);
      of_mean += mean * mean;
      of_square += static_cast<double>(call.columns[d + c]);
    }
    of_mean = group.sum(of_mean), of_square = group.sum(of_square);
    if (group.lane() == 0) parts[t.number() / 32] = of_mean, parts[warps + t.number() / 32] = of_square;
    t.sync();
    of_mean = of_square = 0;
    for (std::uint32_t w = 0; w < warps; ++w) of_mean += parts[w], of_square += parts[warps + w];
    of_square /= static_cast<double>(d);
    const double scale = of_mean > 0 && of_mean < 1e300 ? 1 / sqrt(of_mean) : 0;
    for (std::uint64_t c = t.number(); c < d; c += t.threads()) {
      const auto of_column = static_cast<double>(call.columns[d + c]);
      call.direction[c] = static_cast<float>(scale * static_cast<double>(call.columns[c]));
      call.direction[d + c] = static_cast<float>(
          of_column > 0 ? clamped(sqrt(of_square / of_column), 1 / kLayerMostOfColumn, kLayerMostOfColumn)
                        : 1.0);
    }
  }

  TRUEMAX_KERNEL void gather(const Group<32>& group, std::uint64_t j, const Draws& draws,
                             std::uint64_t stamp) const {
    const std::uint64_t d = call.features;
    const int lane = group.lane();
    const bool here = draws_here(call);
    std::int32_t k = -1;
    if (j < call.drawn)
      k = call.draw == CallDraw::all ? static_cast<std::int32_t>(j)
          : here                     ? draws.class_of(j)
                                     : call.drawn_class[j];
    C* const to = static_cast<C*>(call.drawn_w) + j * d;
    bool counts = k >= 0;
    float offset = kEmptySlot;
    if (counts) {
      const float bias = call.bias == nullptr ? 0 : call.bias[k];
      std::uint32_t most = 0;
      const W* const w = class_row<W>(call, k);
      for (std::uint64_t first = static_cast<std::uint64_t>(lane) * kWide; first < d;
           first += std::uint64_t{32} * kWide * kAtOnce) {
        Pack<W, kWide> of_w[kAtOnce];
        TRUEMAX_UNROLL
        for (int r = 0; r < kAtOnce; ++r)
          if (const std::uint64_t c = first + static_cast<std::uint64_t>(r * 32 * kWide); c < d)
            of_w[r] = read_kept_pack<W, kWide>(w + c);
        TRUEMAX_UNROLL
        for (int r = 0; r < kAtOnce; ++r)
          if (const std::uint64_t c = first + static_cast<std::uint64_t>(r * 32 * kWide); c < d) {
            float b[kWide];
            widen(of_w[r], b);
            TRUEMAX_UNROLL
            for (int e = 0; e < kWide; ++e) most = larger(most, size_bits(b[e]));
            store_pack<C, kWide>(to + c, narrowed<C, kWide>(b));
          }
      }
      const auto size = static_cast<double>(size_of(group.highest(larger(most, size_bits(bias)))));
      if (size <= kLayerLargest) {
        offset = (call.draw == CallDraw::all ? 0 : here ? draws.log_weight(j, k) : call.offset[j]) + bias;
      } else {
        counts = false;
        if (lane == 0) report(call, Fault::weights, -1, k, size);
      }
    }
    if (!counts)
      for (std::uint64_t c = static_cast<std::uint64_t>(lane) * kWide; c < d; c += 32 * kWide)
        store_pack<C, kWide>(to + c, Pack<C, kWide>{});
    group.sync();
    if (lane != 0) return;
    if (k >= 0) raise(call.slot_of + k, slot_key(stamp, j));
    call.column_p[j] = 0;
    call.offset[j] = offset;
    call.drawn_class[j] = counts ? k : -1;
  }
};

}  // namespace truemax::cuda
