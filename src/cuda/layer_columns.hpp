// Before Move: p times the gradients of the rows' losses, and sums over columns.
#pragma once

#include <limits>

#include "cuda/layer_parts.hpp"

namespace truemax::cuda {

// Every block looks at the gradients of all rows, so that no block waits for another.
template <class P>
struct ScaleRows {
  LayerCall call;
  static constexpr int kWide = 8;

  static std::size_t shared_bytes(std::uint32_t threads) { return threads * 2 * sizeof(double) + 8; }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    auto* const sums = reinterpret_cast<double*>(t.shared);
    auto* const tops = sums + t.threads();
    double sum = 0, top = 0;
    std::int64_t bad = -1;
    for (std::uint64_t i = t.number(); i < call.rows; i += t.threads()) {
      if (call.label[i] < 0) continue;
      const float g = call.gradient_in[i];
      if (!finite(g)) {
        bad = static_cast<std::int64_t>(i);
        continue;
      }
      const auto size = static_cast<double>(g < 0 ? -g : g);
      sum += size, top = larger(top, size);
    }
    if (bad >= 0) {
      report(call, Fault::gradient, bad, 0, 0);
      sum = std::numeric_limits<double>::infinity();
    }
    sums[t.number()] = sum, tops[t.number()] = top;
    t.sync();
    for (std::uint32_t half = t.threads() / 2; half > 0; half /= 2) {
      if (t.number() < half) {
        sums[t.number()] += sums[t.number() + half];
        tops[t.number()] = larger(tops[t.number()], tops[t.number() + half]);
      }
      t.sync();
    }
    sum = sums[0], top = tops[0];
    const bool moves = sum > 0 && sum < std::numeric_limits<double>::infinity();
    if (t.block() == 0 && t.number() == 0) {
      call.scalars->of_x = moves ? top : 0;
      call.scalars->of_w = moves ? top / sum : 0;
    }
    scale(t, moves ? top : 0);
  }

 private:
  // p and its sums over rows; `top` is 0 if nothing moves.
  TRUEMAX_KERNEL void scale(const Thread& t, double top) const {
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32;
    for (std::uint64_t i = std::uint64_t{t.block()} * warps + t.number() / 32; i < call.rows;
         i += std::uint64_t{t.blocks()} * warps) {
      if (call.label[i] < 0) continue;
      const auto factor = static_cast<float>(top > 0 ? static_cast<double>(call.gradient_in[i]) / top : 0.0);
      const std::int32_t place = call.place[i];
      const bool joins = has_own_slot(call, place) && static_cast<std::uint64_t>(place) != call.slots + i;
      const auto join = [&](float all) {
        if (joins) join_label<P, 1>(call, group, i, static_cast<std::uint64_t>(place) - call.slots, all);
      };
      if (factor == 1) {
        join(call.sum_p[i]);
        continue;
      }
      P* const p = static_cast<P*>(call.p) + i * call.slots;
      float all = 0;
      for (std::uint64_t j = static_cast<std::uint64_t>(group.lane()) * kWide; j < call.slots;
           j += std::uint64_t{32} * kWide) {
        auto pack = load_pack<P, kWide>(p + j);
        for (int e = 0; e < kWide; ++e) {
          const float before = pack[e];
          pack.number[e] = narrow<P>(before * factor);
          all += pack[e];
        }
        store_pack<P, kWide>(p + j, pack);
      }
      all = group.sum(all);
      if (group.lane() == 0) call.sum_p[i] = all, call.share[i] = factor;
      join(all);
    }
  }
};

// Sums of p over rows, where Estimate has not made them or ScaleRows has changed p. A thread has a pack of
// columns.
template <class P>
struct SumColumns {
  LayerCall call;
  static constexpr int kWide = 8, kAtOnce = 8;
  static constexpr std::uint64_t kRows = 64;  // of a thread

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint64_t packs = call.slots / kWide, parts = (call.rows + kRows - 1) / kRows;
    const std::uint64_t stride = std::uint64_t{t.blocks()} * t.threads();
    for (std::uint64_t at = std::uint64_t{t.block()} * t.threads() + t.number(); at < packs * parts;
         at += stride) {
      const std::uint64_t j = at % packs * kWide, first = at / packs * kRows;
      const std::uint64_t end = smaller(first + kRows, call.rows);
      float sum[kWide] = {};
      for (std::uint64_t i = first; i < end; i += kAtOnce) {
        TRUEMAX_UNROLL
        for (int r = 0; r < kAtOnce; ++r)
          if (i + static_cast<std::uint64_t>(r) < end) {
            const auto pack = load_pack<P, kWide>(static_cast<const P*>(call.p) +
                                                  (i + static_cast<std::uint64_t>(r)) * call.slots + j);
            TRUEMAX_UNROLL
            for (int e = 0; e < kWide; ++e) sum[e] += pack[e];
          }
      }
      for (int e = 0; e < kWide; ++e)
        if (sum[e] != 0) add(call.column_p + j + static_cast<std::uint64_t>(e), sum[e]);
    }
  }
};

struct ClearColumns {
  LayerCall call;
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint64_t stride = std::uint64_t{t.blocks()} * t.threads();
    for (std::uint64_t j = std::uint64_t{t.block()} * t.threads() + t.number(); j < call.slots; j += stride)
      call.column_p[j] = 0;
  }
};

// A block of threads as rows of a strip of columns: of_row threads take a row, kWide columns each.
template <int kWide>
struct Strips {
  std::uint32_t strips, first_column, column, first, stride, group, groups;

  TRUEMAX_KERNEL Strips(const Thread& t, std::uint32_t blocks, std::uint64_t d, std::uint32_t of_row) {
    const std::uint32_t width = kWide * of_row;
    strips = (static_cast<std::uint32_t>(d) + width - 1) / width;
    const std::uint32_t strip = t.block() % strips;
    groups = t.threads() / of_row, group = t.number() / of_row;
    first_column = strip * width;
    column = first_column + t.number() % of_row * kWide;
    first = t.block() / strips * groups + group;
    stride = (blocks - strip + strips - 1) / strips * groups;
  }

  static std::size_t shared_bytes(std::uint32_t threads) {
    return std::size_t{threads} * kWide * sizeof(float);
  }

  // Adds the sums of this block's threads to `to`.
  TRUEMAX_KERNEL void add_up(const Thread& t, std::uint32_t of_row, std::uint64_t d, const float* mine,
                             float* to) const {
    const std::uint32_t width = kWide * of_row;
    auto* const sums = reinterpret_cast<float*>(t.shared);
    Pack<float, kWide> pack;
    TRUEMAX_UNROLL
    for (int e = 0; e < kWide; ++e) pack.number[e] = mine[e];
    t.sync();
    store_pack<float, kWide>(sums + group * width + (column - first_column), pack);
    t.sync();
    constexpr std::uint32_t kAtOnce = kWide == 1 ? 1 : 4;
    for (std::uint32_t j = t.number() * kAtOnce; j < width && first_column + j < d;
         j += t.threads() * kAtOnce) {
      float sum[kAtOnce] = {};
      for (std::uint32_t g = 0; g < groups; ++g) {
        const auto part = load_pack<float, kAtOnce>(sums + g * width + j);
        TRUEMAX_UNROLL
        for (std::uint32_t e = 0; e < kAtOnce; ++e) sum[e] += part.number[e];
      }
      add_numbers<kAtOnce>(to + first_column + j, sum);
    }
  }
};

// Sums over columns of x and of the squared gradients of classes, where rows are too long for Move to add
// them up; and W, moments and b of all touched classes into the cache, for Move. C: type of the copies.
template <class C, int kWide>
struct Columns {
  LayerCall call;
  std::uint32_t of_row;  // threads that take a row: a divisor of the threads of a block
  static constexpr int kAtOnce = sizeof(C) == 2 ? 4 : 2;
  static constexpr std::uint32_t kMostThreads = 512, kLeastBlocks = 2;

  static std::size_t shared_bytes(std::uint32_t threads) { return Strips<kWide>::shared_bytes(threads); }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    if constexpr (kWide > 1) prefetch_classes(t);
    const CallFactors factors = factors_of(call);
    if (factors.moves) add_up(t, static_cast<float>(factors.of_w));
  }

 private:
  TRUEMAX_KERNEL void prefetch_classes(const Thread& t) const {
    for (std::uint64_t j = std::uint64_t{t.number()} * t.blocks() + t.block(); j < call.slots + call.rows;
         j += std::uint64_t{t.blocks()} * t.threads()) {
      std::int32_t k = -1;
      if (j < call.slots)
        k = call.drawn_class[j];
      else if (call.place[j - call.slots] == static_cast<std::int32_t>(j))
        k = call.label[j - call.slots];
      if (k < 0) continue;
      prefetch_class(call, k);
      prefetch_one(call.moments + k);
      if (call.bias != nullptr) prefetch_one(call.bias + k);
    }
  }

  TRUEMAX_KERNEL void add_up(const Thread& t, float of_w) const {
    const std::uint64_t d = call.features;
    const Strips<kWide> at(t, t.blocks(), d, of_row);
    float mean[kWide] = {}, square[kWide] = {};
    if (at.column < d) {
      for (std::uint32_t j = at.first; j < call.slots; j += at.stride) take_drawn(j, at.column, of_w, square);
      for (std::uint32_t i = at.first; i < call.rows; i += kAtOnce * at.stride)
        take_rows(at, i, of_w, mean, square);
    }
    at.add_up(t, of_row, d, mean, call.column_sums);
    at.add_up(t, of_row, d, square, call.column_sums + d);
  }

  TRUEMAX_KERNEL void take_drawn(std::uint32_t j, std::uint32_t column, float of_w, float* square) const {
    if (call.drawn_class[j] < 0) return;
    const auto g = drawn_gradient<kWide>(call, j, column);
    TRUEMAX_UNROLL
    for (int e = 0; e < kWide; ++e) square[e] += (of_w * g[e]) * (of_w * g[e]);
  }

  // kAtOnce rows: x, and the gradients of labels that were not drawn.
  TRUEMAX_KERNEL void take_rows(const Strips<kWide>& at, std::uint32_t i, float of_w, float* mean,
                                float* square) const {
    Pack<C, kWide> x[kAtOnce];
    float share[kAtOnce], of_label[kAtOnce];
    std::int32_t place[kAtOnce], others[kAtOnce];
    TRUEMAX_UNROLL
    for (int r = 0; r < kAtOnce; ++r) {
      const std::uint32_t row = i + static_cast<std::uint32_t>(r) * at.stride;
      share[r] = 0, place[r] = -1;
      if (row >= call.rows) continue;
      x[r] = load_pack<C, kWide>(static_cast<const C*>(call.x_copy) + row * call.features + at.column);
      share[r] = call.share[row], of_label[r] = call.sum_p[row];
      place[r] = call.place[row], others[r] = call.rows_of[row];
    }
    TRUEMAX_UNROLL
    for (int r = 0; r < kAtOnce; ++r) {
      if (place[r] < 0) continue;
      const std::uint32_t row = i + static_cast<std::uint32_t>(r) * at.stride;
      const float weight = magnitude(of_w * share[r]);
      float wide_x[kWide];
      widen(x[r], wide_x);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) mean[e] += weight * wide_x[e];
      if (static_cast<std::uint64_t>(place[r]) != call.slots + row) continue;
      Pack<float, kWide> g{};
      if (others[r] > 0) g = load_pack<float, kWide>(call.label_gradient + row * call.features + at.column);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) {
        const float of_class = of_w * (g[e] - of_label[r] * wide_x[e]);
        square[e] += of_class * of_class;
      }
    }
  }
};

// After ScaleRows, which may leave rows without a share.
struct NumberLabels {
  LayerCall call;

  static std::size_t shared_bytes(std::uint32_t threads) { return kOfNumbering * threads; }
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::int32_t all = number_labels(call, t, [this](std::uint64_t i) { return call.share[i] != 0; });
    if (t.number() == 0) *call.counted = all;
  }
};

}  // namespace truemax::cuda
