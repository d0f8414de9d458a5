// Backward of a layer on the GPU: what layer/pass.cpp does in differentiate and move.
//
//   ScaleRows  only if rows differ in the gradient of their loss: p times that, relative to the largest
//   products   gradient = p^T x_copy;  dx = p drawn_w
//   Columns    sums over columns of x and of the gradients; its last block: direction, and how far columns go
//   Move       moments, W, b; the label's part of dx; u, the ring of labels and the counters
//   KeepLabels only if another step comes between forward and backward
//
// Gradients of W are kept without a common factor, `of_w`, which is applied when they are read.
#pragma once

#include "cuda/layer_forward.hpp"

namespace truemax::cuda {

inline constexpr double kLogKeep = -0.0010005003335835344;  // log of kLayerKeep

struct CallFactors {
  double of_x, of_w;
  bool moves;
};

// The gradient of the objective in the loss of a row, and over the sum of the sizes of all.
TRUEMAX_KERNEL inline CallFactors factors_of(const LayerCall& call) {
  if (call.reduction == CallReduction::none)
    return {call.scalars->of_x, call.scalars->of_w, call.scalars->of_w != 0};
  const float g = *call.gradient_in;
  const std::int32_t n = *call.counted;
  if (!finite(g) || g == 0 || n == 0) return {0, 0, false};
  const double wide_g = static_cast<double>(g);
  return {call.reduction == CallReduction::mean ? wide_g / n : wide_g, (g < 0 ? -1.0 : 1.0) / n, true};
}

// Whether the label of a row was not drawn; its gradient is then -sum_p x, without the factor of_w.
TRUEMAX_KERNEL inline bool has_own_slot(const LayerCall& call, std::int32_t place) {
  return place >= 0 && static_cast<std::uint64_t>(place) >= call.slots;
}

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
        if (joins) join_label<P>(call, group, i, static_cast<std::uint64_t>(place) - call.slots, all);
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
  std::uint64_t strips, first_column, column, first, stride, group, groups;

  TRUEMAX_KERNEL Strips(const Thread& t, std::uint32_t blocks, std::uint64_t d, std::uint32_t of_row) {
    const std::uint64_t width = std::uint64_t{kWide} * of_row;
    strips = (d + width - 1) / width;
    const std::uint64_t strip = t.block() % strips;
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
    const std::uint64_t width = std::uint64_t{kWide} * of_row;
    auto* const sums = reinterpret_cast<float*>(t.shared);
    t.sync();
    TRUEMAX_UNROLL
    for (int e = 0; e < kWide; ++e)
      sums[group * width + (column - first_column) + static_cast<std::uint64_t>(e)] = mine[e];
    t.sync();
    for (std::uint64_t j = t.number(); j < width && first_column + j < d; j += t.threads()) {
      float sum = 0;
      for (std::uint64_t g = 0; g < groups; ++g) sum += sums[g * width + j];
      if (sum != 0) add(to + first_column + j, sum);
    }
  }
};

// C: type of the copies. With a ring of labels, the last block numbers rows instead.
template <class C, int kWide>
struct Columns {
  LayerCall call;
  std::uint32_t of_row;  // threads that take a row: a divisor of the threads of a block
  static constexpr int kAtOnce = sizeof(C) == 2 ? 4 : 2;
  static constexpr std::uint32_t kMostThreads = 512, kLeastBlocks = 2;

  static std::size_t shared_bytes(std::uint32_t threads) {
    return larger(Strips<kWide>::shared_bytes(threads), (threads + 2) * sizeof(double));
  }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const CallFactors factors = factors_of(call);
    if (t.block() == 0 && t.number() == 0 && call.reduction != CallReduction::none &&
        !finite(*call.gradient_in))
      report(call, Fault::gradient, -1, 0, 0);
    if (!factors.moves) return;
    const std::uint32_t blocks = t.blocks() - (call.recent_size > 0 ? 1 : 0);
    if (t.block() == blocks)
      number_labels(t);
    else
      add_up(t, blocks, static_cast<float>(factors.of_w));
    fence();
    t.sync();
    auto* const last = reinterpret_cast<std::int32_t*>(t.shared);
    if (t.number() == 0)
      *last = fetch_add(&call.scalars->columned, 1) + 1 == static_cast<std::int32_t>(t.blocks()) ? 1 : 0;
    t.sync();
    const bool finishes = *last == 1;
    t.sync();
    if (!finishes) return;
    fence();
    finish(t);
  }

 private:
  TRUEMAX_KERNEL void add_up(const Thread& t, std::uint32_t blocks, float of_w) const {
    const std::uint64_t d = call.features;
    const Strips<kWide> at(t, blocks, d, of_row);
    float mean[kWide] = {}, square[kWide] = {};
    if (at.column < d) {
      for (std::uint64_t i = at.first; i < call.rows; i += kAtOnce * at.stride)
        take_rows(at, i, of_w, mean, square);
      for (std::uint64_t j = at.first; j < call.slots; j += at.stride) take_drawn(j, at.column, of_w, square);
    }
    at.add_up(t, of_row, d, mean, call.column_sums);
    at.add_up(t, of_row, d, square, call.column_sums + d);
  }

  // kAtOnce rows: x, and the gradients of labels that were not drawn.
  TRUEMAX_KERNEL void take_rows(const Strips<kWide>& at, std::uint64_t i, float of_w, float* mean,
                                float* square) const {
    Pack<C, kWide> x[kAtOnce];
    float share[kAtOnce], of_label[kAtOnce];
    std::int32_t place[kAtOnce], others[kAtOnce];
    TRUEMAX_UNROLL
    for (int r = 0; r < kAtOnce; ++r) {
      const std::uint64_t row = i + static_cast<std::uint64_t>(r) * at.stride;
      share[r] = 0, place[r] = -1;
      if (row >= call.rows) continue;
      x[r] = load_pack<C, kWide>(static_cast<const C*>(call.x_copy) + row * call.features + at.column);
      share[r] = call.share[row], of_label[r] = call.sum_p[row];
      place[r] = call.place[row], others[r] = call.rows_of[row];
    }
    TRUEMAX_UNROLL
    for (int r = 0; r < kAtOnce; ++r) {
      if (place[r] < 0) continue;
      const std::uint64_t row = i + static_cast<std::uint64_t>(r) * at.stride;
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

  TRUEMAX_KERNEL void take_drawn(std::uint64_t j, std::uint64_t column, float of_w, float* square) const {
    float* const from = call.gradient + j * call.features + column;
    auto g = load_pack<float, kWide>(from);
    if (call.splits > 1) {
      for (std::uint64_t s = 1; s < call.splits; ++s) {
        const auto more = load_pack<float, kWide>(from + s * call.slots * call.features);
        TRUEMAX_UNROLL
        for (int e = 0; e < kWide; ++e) g.number[e] += more[e];
      }
      store_pack<float, kWide>(from, g);
    }
    if (call.drawn_class[j] < 0) return;
    TRUEMAX_UNROLL
    for (int e = 0; e < kWide; ++e) square[e] += (of_w * g[e]) * (of_w * g[e]);
  }

  // The place of each row among those whose labels the ring takes.
  TRUEMAX_KERNEL void number_labels(const Thread& t) const {
    auto* const counts = reinterpret_cast<std::int32_t*>(t.shared);
    const std::uint64_t each = (call.rows + t.threads() - 1) / t.threads();
    const std::uint64_t first = smaller(t.number() * each, call.rows);
    const std::uint64_t end = smaller(first + each, call.rows);
    std::int32_t mine = 0;
    for (std::uint64_t i = first; i < end; ++i) mine += call.share[i] != 0 ? 1 : 0;
    counts[t.number()] = mine;
    t.sync();
    for (std::uint32_t far = 1; far < t.threads(); far *= 2) {
      const std::int32_t other = t.number() >= far ? counts[t.number() - far] : 0;
      t.sync();
      counts[t.number()] += other;
      t.sync();
    }
    std::int32_t before = counts[t.number()] - mine;
    const std::int32_t all = counts[t.threads() - 1];
    for (std::uint64_t i = first; i < end; ++i) call.rank[i] = call.share[i] != 0 ? before++ : -1;
    if (t.number() == 0) call.scalars->active = all;
    t.sync();
  }

  TRUEMAX_KERNEL static double total(const Thread& t, double mine) {
    auto* const sums = reinterpret_cast<double*>(t.shared);
    const Group<32> group = t.template group<32>();
    mine = group.sum(mine);
    t.sync();
    if (group.lane() == 0) sums[t.number() / 32] = mine;
    t.sync();
    double all = 0;
    for (std::uint32_t w = 0; w < t.threads() / 32; ++w) all += sums[w];
    return all;
  }

  // By one block: find_direction and weigh_columns of layer/pass.cpp.
  TRUEMAX_KERNEL void finish(const Thread& t) const {
    constexpr float kMostSquare = 1e30F;
    const std::uint64_t d = call.features;
    double of_mean = 0, of_square = 0;
    for (std::uint64_t c = t.number(); c < d; c += t.threads()) {
      float& mean = call.columns[c];
      mean += static_cast<float>(1 - kLayerKeepMean) * (fresh(call.column_sums + c) - mean);
      float& square = call.columns[d + c];
      square += static_cast<float>(1 - kLayerKeep) *
                (smaller(fresh(call.column_sums + d + c), kMostSquare) - square);
      of_mean += static_cast<double>(mean) * static_cast<double>(mean);
      of_square += static_cast<double>(square) / static_cast<double>(d);
      call.column_sums[c] = 0, call.column_sums[d + c] = 0;
    }
    of_mean = total(t, of_mean);
    of_square = total(t, of_square);
    const double scale = of_mean > 0 && of_mean < 1e300 ? 1 / sqrt(of_mean) : 0;
    for (std::uint64_t c = t.number(); c < d; c += t.threads()) {
      call.direction[c] = static_cast<float>(scale * static_cast<double>(call.columns[c]));
      const auto of_column = static_cast<double>(call.columns[d + c]);
      call.direction[d + c] = static_cast<float>(
          of_column > 0 ? clamped(sqrt(of_square / of_column), 1 / kLayerMostOfColumn, kLayerMostOfColumn)
                        : 1.0);
    }
    if (t.number() != 0) return;
    call.scalars->columned = 0;
    call.scalars->steps = call.counters[0];
    call.scalars->seen = call.counters[1];
    call.scalars->weight = static_cast<float>(-expm1(static_cast<double>(call.counters[0] + 1) * kLogKeep));
  }
};

// W: type of the weights; C: of the copies; X: of dx. 32 threads take a slot; kHeld packs in registers, or 0.
// The first blocks take what rows have besides.
template <class W, class C, class X, int kWide, int kHeld>
struct Move {
  LayerCall call;
  std::uint32_t row_blocks;
  static constexpr std::uint32_t kMostThreads = 128, kLeastBlocks = kHeld == 0           ? 6
                                                                    : kWide * kHeld > 16 ? 4
                                                                                         : 5;
  static constexpr int kRegisters = kHeld == 0 ? 1 : kHeld;

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    if (t.block() < row_blocks) {
      if (factors_of(call).moves) finish_rows(t);
      return;
    }
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32;
    const std::uint64_t stride = std::uint64_t{t.blocks() - row_blocks} * warps;
    for (std::uint64_t j = std::uint64_t{t.block() - row_blocks} * warps + t.number() / 32;
         j < call.slots + call.rows; j += stride) {
      if (j < call.slots)
        move_drawn(group, j);
      else
        move_row(group, j - call.slots);
    }
  }

 private:
  // Calls visit(c, pack) for this thread's packs of columns.
  template <class Visit>
  TRUEMAX_KERNEL void each(const Group<32>& group, const Visit& visit) const {
    const std::uint64_t d = call.features, lane = static_cast<std::uint64_t>(group.lane());
    if constexpr (kHeld > 0) {
      TRUEMAX_UNROLL
      for (int h = 0; h < kHeld; ++h)
        if (const std::uint64_t c = (static_cast<std::uint64_t>(h) * 32 + lane) * kWide; c < d) visit(c, h);
    } else {
      for (std::uint64_t c = lane * kWide; c < d; c += std::uint64_t{32} * kWide) visit(c, 0);
    }
  }

  TRUEMAX_KERNEL void move_drawn(const Group<32>& group, std::uint64_t j) const {
    const float* const from = call.gradient + j * call.features;
    const std::int32_t k = call.drawn_class[j];
    const float of_bias = call.column_p[j];
    Pack<float, kWide> g[kRegisters];
    if constexpr (kHeld > 0)
      each(group, [&](std::uint64_t c, int h) { g[h] = load_pack<float, kWide>(from + c); });
    const CallFactors factors = factors_of(call);
    if (k < 0 || !factors.moves) return;
    W* const w = class_row<W>(call, k);
    Pack<W, kWide> old[kRegisters];
    if constexpr (kHeld == 0) old[0] = {};
    if constexpr (kHeld > 0)
      each(group, [&](std::uint64_t c, int h) { old[h] = load_pack<W, kWide>(w + c); });
    const auto of_w = static_cast<float>(factors.of_w);
    follow_class(group, k, old, of_w * of_bias, [&](std::uint64_t c, int h, float* out) {
      if constexpr (kHeld == 0) g[h] = load_pack<float, kWide>(from + c);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) out[e] = of_w * g[h][e];
    });
  }

  // The rest of dx of a row, and the step of its label if no earlier row has it.
  TRUEMAX_KERNEL void move_row(const Group<32>& group, std::uint64_t i) const {
    const std::uint64_t d = call.features;
    X* const dx = static_cast<X*>(call.dx) + i * d;
    const C* const x = static_cast<const C*>(call.x_copy) + i * d;
    const std::int32_t place = call.place[i], label = call.label[i], others = call.rows_of[i];
    const float sum_p = call.sum_p[i], share = call.share[i];
    Pack<X, kWide> of_dx[kRegisters];
    Pack<C, kWide> of_x[kRegisters];
    if constexpr (kHeld > 0) {
      each(group, [&](std::uint64_t c, int h) { of_x[h] = read_pack<C, kWide>(x + c); });
      if (call.dx != nullptr)
        each(group, [&](std::uint64_t c, int h) { of_dx[h] = load_pack<X, kWide>(dx + c); });
    }
    const CallFactors factors = factors_of(call);
    const bool owns = place >= 0 && static_cast<std::uint64_t>(place) == call.slots + i;
    const float of_label = has_own_slot(call, place) ? sum_p : 0;
    W* const w = class_row<W>(call, owns ? label : 0);
    const C* const kept_w = static_cast<const C*>(call.label_w) + i * d;
    Pack<W, kWide> old[kRegisters];
    if constexpr (kHeld == 0) old[0] = {};
    if constexpr (kHeld > 0)
      if (owns) each(group, [&](std::uint64_t c, int h) { old[h] = load_pack<W, kWide>(w + c); });
    if (call.dx != nullptr) {
      const bool counts = place >= 0 && factors.moves && share != 0, from_kept = !owns || call.keeps != 0;
      const auto of_x_all = static_cast<float>(factors.of_x);
      const bool large = !(magnitude(of_x_all) < 1e10F);
      each(group, [&](std::uint64_t c, int h) {
        float out[kWide], of_w[kWide] = {};
        if constexpr (kHeld == 0) of_dx[h] = load_pack<X, kWide>(dx + c);
        widen(of_dx[h], out);
        if (of_label != 0) {
          if (from_kept)
            widen(read_pack<C, kWide>(kept_w + c), of_w);
          else if constexpr (kHeld > 0)
            widen(old[h], of_w);
          else
            widen(load_pack<W, kWide>(w + c), of_w);
        }
        TRUEMAX_UNROLL
        for (int e = 0; e < kWide; ++e) out[e] = counts ? of_x_all * (out[e] - of_label * of_w[e]) : 0;
        if (large) {
          TRUEMAX_UNROLL
          for (int e = 0; e < kWide; ++e) out[e] = clamped(out[e], -3.0e38F, 3.0e38F);
        }
        store_pack<X, kWide>(dx + c, narrowed<X, kWide>(out));
      });
    }
    const bool joined = owns && others > 0;
    float* const of_others = call.label_gradient + i * d;
    if (owns && factors.moves) {
      const auto of_w = static_cast<float>(factors.of_w);
      const float of_bias = of_w * ((joined ? call.label_bias[i] : 0) - sum_p);
      follow_class(group, label, old, of_bias, [&](std::uint64_t c, int h, float* out) {
        if constexpr (kHeld == 0) of_x[h] = read_pack<C, kWide>(x + c);
        widen(of_x[h], out);
        TRUEMAX_UNROLL
        for (int e = 0; e < kWide; ++e) out[e] *= -sum_p;
        if (joined) {
          const auto more = load_pack<float, kWide>(of_others + c);
          TRUEMAX_UNROLL
          for (int e = 0; e < kWide; ++e) out[e] += more[e];
        }
        TRUEMAX_UNROLL
        for (int e = 0; e < kWide; ++e) out[e] *= of_w;
      });
    }
    if (!joined) return;
    group.sync();  // for the next pass
    each(group,
         [&](std::uint64_t c, int /*h*/) { store_pack<float, kWide>(of_others + c, Pack<float, kWide>{}); });
    if (group.lane() == 0) call.label_bias[i] = 0;
  }

  // The step of class k; gradient(c, h, out) gives its numbers from column c on. `old`: its weights, if held.
  template <class Gradient>
  TRUEMAX_KERNEL void follow_class(const Group<32>& group, std::int32_t k, const Pack<W, kWide>* old,
                                   float of_bias, const Gradient& gradient) const {
    const std::uint64_t d = call.features;
    W* const w = class_row<W>(call, k);
    ClassMoments m = call.moments[k];
    float bias = call.bias == nullptr ? 0 : call.bias[k];
    float square = 0, along = 0;
    each(group, [&](std::uint64_t c, int h) {
      float g[kWide];
      const auto direction = read_pack<float, kWide>(call.direction + c);
      gradient(c, h, g);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) square += g[e] * g[e], along += g[e] * direction[e];
    });
    square = group.sum(square);
    along = group.sum(along);
    const Step step = follow(m, square, along, of_bias, bias);
    each(group, [&](std::uint64_t c, int h) {
      const auto direction = read_pack<float, kWide>(call.direction + c);
      const auto of_column = read_pack<float, kWide>(call.direction + d + c);
      const Bits bits = random_bits(k, c);
      float g[kWide], now[kWide];
      gradient(c, h, g);
      Pack<W, kWide> pack;
      if constexpr (kHeld > 0)
        pack = old[h];
      else
        pack = load_pack<W, kWide>(w + c);
      widen(pack, now);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e)
        pack.number[e] = narrow_at_random<W>(
            now[e] + step.of_weight * of_column[e] * (g[e] + step.smoothed * direction[e]), bits.at(e));
      store_pack<W, kWide>(w + c, pack);
    });
    if (group.lane() != 0) return;
    call.moments[k] = m;
    if (call.bias != nullptr) call.bias[k] = bias;
  }

  struct Step {
    float of_weight, smoothed;
  };

  // Moments and intercept of one class, and how its weights move.
  TRUEMAX_KERNEL Step follow(ClassMoments& m, float square, float along, float of_bias, float& bias) const {
    constexpr std::int64_t kTurn = std::int64_t{1} << 24;
    constexpr auto kNew = static_cast<float>(1 - kLayerKeep), kNewMean = static_cast<float>(1 - kLayerSmooth);
    constexpr float kTiny = 1e-8F;
    constexpr float kLogSmooth = -0.10536051565782628F;
    const std::int64_t steps = call.scalars->steps + 1, now = steps % kTurn;
    const auto rate = static_cast<float>(*call.step);
    const float weight = call.scalars->weight;
    const std::int64_t last =
        m.last >= 0 && m.last < static_cast<float>(kTurn) ? static_cast<std::int64_t>(m.last) : 0;
    const auto gap = static_cast<float>((now - last + kTurn) % kTurn);
    const float keep = gap == 1 ? static_cast<float>(kLayerKeep) : expf(gap * static_cast<float>(kLogKeep)),
                smooth = gap == 1 ? static_cast<float>(kLayerSmooth) : expf(gap * kLogSmooth);
    m.last = static_cast<float>(now);
    m.mean_weight = smooth * m.mean_weight + kNewMean;
    m.square = keep * m.square + kNew * (square / static_cast<float>(call.features));
    m.along = smooth * m.along + kNewMean * along;
    const Step out{-rate / (sqrtf(m.square / weight) + kTiny), m.along / m.mean_weight - along};
    if (call.bias == nullptr) return out;
    m.bias_square = keep * m.bias_square + kNew * of_bias * of_bias;
    m.bias_mean = smooth * m.bias_mean + kNewMean * of_bias;
    bias -= rate * (m.bias_mean / m.mean_weight) / (sqrtf(m.bias_square / weight) + kTiny);
    return out;
  }

  // 16 random bits for each of eight numbers.
  struct Bits {
    std::uint64_t low, high;
    TRUEMAX_KERNEL std::uint32_t at(int e) const {
      return static_cast<std::uint32_t>((e < 4 ? low : high) >> (e % 4 * 16)) & 0xFFFFU;
    }
  };
  TRUEMAX_KERNEL Bits random_bits(std::int32_t k, std::uint64_t c) const {
    if constexpr (sizeof(W) == 4) {
      return {0, 0};
    } else {
      const auto r = r123::Philox4x32()({{static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(c),
                                          static_cast<std::uint32_t>(call.scalars->steps),
                                          static_cast<std::uint32_t>(call.scalars->steps >> 32)}},
                                        {{static_cast<std::uint32_t>(call.counters[2]),
                                          static_cast<std::uint32_t>(call.counters[2] >> 32)}});
      return {r[0] | (std::uint64_t{r[1]} << 32), r[2] | (std::uint64_t{r[3]} << 32)};
    }
  }

  TRUEMAX_KERNEL void finish_rows(const Thread& t) const {
    const std::uint64_t stride = std::uint64_t{row_blocks} * t.threads();
    const std::uint64_t first = std::uint64_t{t.block()} * t.threads() + t.number();
    const auto seen = static_cast<std::uint64_t>(call.scalars->seen);
    const bool rings = call.recent_size > 0;
    const std::uint64_t held = smaller(seen, call.recent_size);
    for (std::uint64_t i = first; i < call.rows; i += stride) {
      if (call.share[i] == 0) continue;
      if (call.index != nullptr && call.u != nullptr) call.u[call.index[i]] = call.new_u[i];
      if (!rings) continue;
      // Only the last of more labels than the ring has room for.
      const auto rank = static_cast<std::uint64_t>(call.rank[i]);
      if (static_cast<std::uint64_t>(call.scalars->active) - rank > call.recent_size) continue;
      const std::uint64_t at = (seen + rank) % call.recent_size;
      const std::int32_t old = call.recent[at];
      if (at < held && old >= 0 && static_cast<std::uint64_t>(old) < call.classes)
        fetch_add(call.recent_count + old, -1);
      call.recent[at] = call.label[i];
      fetch_add(call.recent_count + call.label[i], 1);
    }
    if (first != 0) return;
    call.counters[0] = call.scalars->steps + 1;
    if (rings) call.counters[1] = static_cast<std::int64_t>(seen) + call.scalars->active;
  }
};

template <class C>
struct KeepLabels {
  LayerCall call;

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32;
    for (std::uint64_t i = std::uint64_t{t.block()} * warps + t.number() / 32; i < call.rows;
         i += std::uint64_t{t.blocks()} * warps)
      if (has_own_slot(call, call.place[i])) keep_label<C>(call, group, i, call.label[i]);
  }
};

}  // namespace truemax::cuda
