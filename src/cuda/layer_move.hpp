// Move: the step of all touched classes, the label's part of dx, and what lasts from step to step. What
// layer/pass.cpp does in move. Gradients of W are kept without a common factor, `of_w`, which is applied when
// they are read.
#pragma once

#include "core/random.hpp"
#include "cuda/layer_parts.hpp"

namespace truemax::cuda {

// W: type of the weights; C: of the copies; X: of dx. 32 threads take a slot; kHeld packs in registers, or 0.
// kFull: a row fills all packs.
template <class W, class C, class X, int kWide, int kHeld, bool kFull>
struct Move {
  LayerCall call;
  static constexpr std::uint32_t kMostThreads = 256, kLeastBlocks = kWide * kHeld > 16 ? 2 : 3;
  static constexpr int kRegisters = kHeld == 0 ? 1 : kHeld;

  static std::size_t shared_bytes(const LayerCall& call) {
    constexpr std::uint32_t kRows = 2 + 2 * (kMostThreads / 32);  // direction, and the sums of each warp
    return kHead + (kHeld == 0 ? 0 : kRows * call.features * sizeof(float));
  }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32;
    const std::uint32_t stride = t.blocks() * warps, end = static_cast<std::uint32_t>(call.slots + call.rows);
    std::uint32_t j = t.block() * warps + t.number() / 32;
    std::uint32_t item = item_at(group, j);
    const Common common(factors_of(call), call.counters[0]);
    if (common.moves) {
      fetch_direction(t);
      finish_rows(t);
    } else if (t.block() == 0 && t.number() == 0 && call.reduction != CallReduction::none &&
               !finite(*call.gradient_in)) {
      report(call, Fault::gradient, -1, 0, 0);
    }
    while (j < end) {
      const std::uint32_t next = item_at(group, j + stride);
      move(t, group, j, item_with(group, item), common);
      item = next, j += stride;
    }
    if (!common.moves) return;
    add_sums(t);
    keep(t, common);
  }

 private:
  static constexpr std::size_t kHead = 16;  // bytes before the arrays

  // Of a drawn class only its number, and the sum of p.
  struct Item {
    std::int32_t label, place, others;
    float sum_p, share;
  };
  // What all slots share.
  struct Common {
    float of_x, of_w;
    bool moves;
    float weight;        // of the running means of squares
    std::int64_t steps;  // before this one
    TRUEMAX_KERNEL Common(const CallFactors& factors, std::int64_t steps_so_far)
        : of_x(static_cast<float>(factors.of_x)),
          of_w(static_cast<float>(factors.of_w)),
          moves(factors.moves),
          weight(-expm1f(static_cast<float>(steps_so_far + 1) * static_cast<float>(kLogKeep))),
          steps(steps_so_far) {}
  };
  // [2][D]: the direction of the mean of x, and how far columns go.
  TRUEMAX_KERNEL float* direction(const Thread& t) const {
    if constexpr (kHeld == 0) return call.direction;
    return reinterpret_cast<float*>(t.shared + kHead);
  }
  // [2][D] of this warp: sums over its slots of x, and of squared gradients.
  TRUEMAX_KERNEL float* sums(const Thread& t) const {
    return direction(t) + (2 + t.number() / 32 * 2) * call.features;
  }
  TRUEMAX_KERNEL static void add_pack(float* to, const float* x) {
    auto pack = load_pack<float, kWide>(to);
    TRUEMAX_UNROLL
    for (int e = 0; e < kWide; ++e) pack.number[e] += x[e];
    store_pack<float, kWide>(to, pack);
  }

  // What is read of a slot before its turn: a thread has one of the numbers of Item, to save registers.
  TRUEMAX_KERNEL std::uint32_t item_at(const Group<32>& group, std::uint32_t j) const {
    const int lane = group.lane();
    const auto row = static_cast<std::int64_t>(j) - static_cast<std::int64_t>(call.slots);
    const void* from = nullptr;
    if (row < 0) {
      if (lane == 0) from = call.drawn_class + j;
      if (lane == 3) from = call.column_p + j;
    } else if (static_cast<std::uint64_t>(row) < call.rows) {
      if (lane == 0) from = call.label + row;
      if (lane == 1) from = call.place + row;
      if (lane == 2) from = call.rows_of + row;
      if (lane == 3) from = call.sum_p + row;
      if (lane == 4) from = call.share + row;
    }
    std::uint32_t bits = 0;
    if (from != nullptr) memcpy(&bits, from, sizeof bits);
    return bits;
  }
  TRUEMAX_KERNEL static Item item_with(const Group<32>& group, std::uint32_t mine) {
    const auto number = [&](int lane) { return static_cast<std::int32_t>(group.from(mine, lane)); };
    return {number(0), number(1), number(2), float_of(group.from(mine, 3)), float_of(group.from(mine, 4))};
  }

  // Into the memory of this block: what TakeRows has found; and sums start at 0.
  TRUEMAX_KERNEL void fetch_direction(const Thread& t) const {
    if constexpr (kHeld == 0) return;
    constexpr std::uint32_t kAtOnce = 4;
    const auto of_warp = static_cast<std::uint32_t>(2 * call.features);
    const std::uint32_t end = of_warp * (1 + t.threads() / 32);
    float* const to = reinterpret_cast<float*>(t.shared + kHead);
    for (std::uint32_t c = t.number() * kAtOnce; c < end; c += t.threads() * kAtOnce)
      store_pack<float, kAtOnce>(
          to + c, c < of_warp ? load_pack<float, kAtOnce>(call.direction + c) : Pack<float, kAtOnce>{});
    t.sync();
  }

  // What this block's warps have added up.
  TRUEMAX_KERNEL void add_sums(const Thread& t) const {
    if constexpr (kHeld == 0) return;  // Columns has
    constexpr std::uint32_t kAtOnce = 4;
    const auto of_warp = static_cast<std::uint32_t>(2 * call.features);
    const float* const from = direction(t) + of_warp;
    t.sync();
    for (std::uint32_t c = t.number() * kAtOnce; c < of_warp; c += t.threads() * kAtOnce) {
      float sum[kAtOnce] = {};
      for (std::uint32_t w = 0; w < t.threads() / 32; ++w) {
        const auto part = load_pack<float, kAtOnce>(from + w * of_warp + c);
        TRUEMAX_UNROLL
        for (std::uint32_t e = 0; e < kAtOnce; ++e) sum[e] += part.number[e];
      }
      add_numbers<kAtOnce>(call.column_sums + c, sum);
    }
  }

  // By the last block to end: keep_columns of layer/pass.cpp, and the counters.
  TRUEMAX_KERNEL void keep(const Thread& t, const Common& common) const {
    constexpr float kMostSquare = 1e30F;
    auto* const last = reinterpret_cast<std::int32_t*>(t.shared);
    fence();
    t.sync();
    if (t.number() == 0)
      *last = fetch_add(&call.scalars->moved, 1) + 1 == static_cast<std::int32_t>(t.blocks()) ? 1 : 0;
    t.sync();
    if (*last == 0) return;
    const std::uint64_t d = call.features;
    for (std::uint64_t c = t.number(); c < 2 * d; c += t.threads()) {
      const float sum = fresh(call.column_sums + c);
      call.column_sums[c] = 0;
      const bool of_x = c < d;
      const auto new_part = static_cast<float>(1 - (of_x ? kLayerKeepMean : kLayerKeep));
      call.columns[c] += new_part * ((of_x ? sum : clamped(sum, 0.0F, kMostSquare)) - call.columns[c]);
    }
    if (t.number() != 0) return;
    call.scalars->moved = 0;
    call.counters[0] = common.steps + 1;
    if (call.recent_size > 0) call.counters[1] += *call.counted;
  }

  // Calls visit(c, pack) for this thread's packs of columns.
  template <class Visit>
  TRUEMAX_KERNEL void each(const Group<32>& group, const Visit& visit) const {
    const auto d = static_cast<std::uint32_t>(call.features), lane = static_cast<std::uint32_t>(group.lane());
    if constexpr (kHeld > 0) {
      TRUEMAX_UNROLL
      for (std::uint32_t h = 0; h < kHeld; ++h)
        if (const std::uint32_t c = (h * 32 + lane) * kWide; kFull || c < d) visit(c, h);
    } else {
      for (std::uint32_t c = lane * kWide; c < d; c += 32 * kWide) visit(c, 0);
    }
  }

  // Moments and intercept of one class.
  struct ClassState {
    ClassMoments moments;
    float bias;
  };
  // As of Item: a thread has one of its numbers.
  TRUEMAX_KERNEL float state_at(const Group<32>& group, std::int32_t k) const {
    constexpr int kNumbers = sizeof(ClassMoments) / sizeof(float);
    static_assert(kNumbers == 6);
    const int lane = group.lane();
    if (lane < kNumbers) return reinterpret_cast<const float*>(call.moments + k)[lane];
    return lane == kNumbers && call.bias != nullptr ? call.bias[k] : 0;
  }
  TRUEMAX_KERNEL static ClassState item_with(const Group<32>& group, float mine) {
    const auto number = [&](int lane) { return group.from(mine, lane); };
    return {{number(0), number(1), number(2), number(3), number(4), number(5)}, number(6)};
  }

  // The step of a drawn class; or the rest of dx of a row, and the step of its label if no earlier row has
  // it.
  TRUEMAX_KERNEL void move(const Thread& t, const Group<32>& group, std::uint32_t j, const Item& item,
                           const Common& common) const {
    const std::uint64_t d = call.features;
    const bool drawn = j < call.slots;
    const bool owns =
        drawn ? item.label >= 0 : item.place >= 0 && static_cast<std::uint32_t>(item.place) == j;
    const bool joined = !drawn && owns && item.others > 0;
    const std::uint64_t i = drawn ? 0 : j - call.slots;
    const C* const x = static_cast<const C*>(call.x_copy) + i * d;
    float* const of_others = call.label_gradient + i * d;
    W* const w = class_row<W>(call, owns ? item.label : 0);
    const float state = owns ? state_at(group, item.label) : 0;
    Pack<W, kWide> old[kRegisters] = {};
    Pack<float, kWide> g[kRegisters];  // without the factor of_w
    if constexpr (kHeld > 0)
      if (owns) each(group, [&](std::uint32_t c, std::uint32_t h) { old[h] = load_pack<W, kWide>(w + c); });
    const float of_mean = item.place >= 0 && common.moves ? magnitude(common.of_w * item.share) : 0;
    const auto of_row = [&](const Pack<C, kWide>& of_x, std::uint32_t c, std::uint32_t h) {
      float out[kWide];
      widen(of_x, out);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) {
        g[h].number[e] = -item.sum_p * out[e];
        out[e] *= of_mean;
      }
      if constexpr (kHeld > 0)
        if (of_mean != 0) add_pack(sums(t) + c, out);
      if (joined) {
        const auto more = load_pack<float, kWide>(of_others + c);
        TRUEMAX_UNROLL
        for (int e = 0; e < kWide; ++e) g[h].number[e] += more[e];
      }
    };
    if constexpr (kHeld > 0) {
      if (drawn) {
        each(group, [&](std::uint32_t c, std::uint32_t h) { g[h] = drawn_gradient<kWide>(call, j, c); });
      } else {
        Pack<C, kWide> of_x[kRegisters];
        each(group, [&](std::uint32_t c, std::uint32_t h) { of_x[h] = read_pack<C, kWide>(x + c); });
        if (call.dx != nullptr) finish_dx(group, i, item, owns, old, common);
        each(group, [&](std::uint32_t c, std::uint32_t h) { of_row(of_x[h], c, h); });
      }
    } else if (!drawn && call.dx != nullptr) {
      finish_dx(group, i, item, owns, old, common);
    }
    if (owns && common.moves) {
      const float of_class = drawn ? item.sum_p : (joined ? call.label_bias[i] : 0) - item.sum_p;
      follow_class(t, group, item.label, old, state, common, common.of_w * of_class,
                   [&](std::uint32_t c, std::uint32_t h, float* out) {
                     if constexpr (kHeld == 0) {
                       if (drawn)
                         g[h] = drawn_gradient<kWide>(call, j, c);
                       else
                         of_row(read_pack<C, kWide>(x + c), c, h);
                     }
                     TRUEMAX_UNROLL
                     for (int e = 0; e < kWide; ++e) out[e] = common.of_w * g[h][e];
                   });
    }
    if (!joined) return;
    group.sync();  // for the next pass
    each(group, [&](std::uint32_t c, std::uint32_t /*h*/) {
      store_pack<float, kWide>(of_others + c, Pack<float, kWide>{});
    });
    if (group.lane() == 0) call.label_bias[i] = 0;
  }

  // The label's part of dx, and its factor.
  TRUEMAX_KERNEL void finish_dx(const Group<32>& group, std::uint64_t i, const Item& item, bool owns,
                                const Pack<W, kWide>* old, const Common& common) const {
    const std::uint64_t d = call.features;
    X* const dx = static_cast<X*>(call.dx) + i * d;
    const C* const kept_w = static_cast<const C*>(call.label_w) + i * d;
    const float of_label = has_own_slot(call, item.place) ? item.sum_p : 0;
    const bool counts = item.place >= 0 && common.moves && item.share != 0;
    const bool from_kept = !owns || call.keeps != 0;
    const bool large = !(magnitude(common.of_x) < 1e10F);
    Pack<X, kWide> of_dx[kRegisters];
    if constexpr (kHeld > 0)
      each(group, [&](std::uint32_t c, std::uint32_t h) { of_dx[h] = load_pack<X, kWide>(dx + c); });
    each(group, [&](std::uint32_t c, std::uint32_t h) {
      float out[kWide], of_w[kWide] = {};
      if constexpr (kHeld == 0) of_dx[h] = load_pack<X, kWide>(dx + c);
      widen(of_dx[h], out);
      if (of_label != 0) {
        if (from_kept)
          widen(read_pack<C, kWide>(kept_w + c), of_w);
        else if constexpr (kHeld > 0)
          widen(old[h], of_w);
        else
          widen(load_pack<W, kWide>(class_row<W>(call, item.label) + c), of_w);
      }
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) out[e] = counts ? common.of_x * (out[e] - of_label * of_w[e]) : 0;
      if (large) {
        TRUEMAX_UNROLL
        for (int e = 0; e < kWide; ++e) out[e] = clamped(out[e], -3.0e38F, 3.0e38F);
      }
      store_pack<X, kWide>(dx + c, narrowed<X, kWide>(out));
    });
  }

  // The step of class k; gradient(c, h, out) gives its numbers from column c on. `old`: its weights, if held.
  template <class Gradient>
  TRUEMAX_KERNEL void follow_class(const Thread& t, const Group<32>& group, std::int32_t k,
                                   const Pack<W, kWide>* old, float of_state, const Common& common,
                                   float of_bias, const Gradient& gradient) const {
    const std::uint64_t d = call.features;
    const float *const along_mean = direction(t), *const of_columns = along_mean + d;
    W* const w = class_row<W>(call, k);
    float square = 0, along = 0;
    each(group, [&](std::uint32_t c, std::uint32_t h) {
      float g[kWide];
      const auto direction = load_pack<float, kWide>(along_mean + c);
      gradient(c, h, g);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) {
        along += g[e] * direction[e];
        g[e] *= g[e];
        square += g[e];
      }
      if constexpr (kHeld > 0) add_pack(sums(t) + d + c, g);
    });
    square = group.sum(square);
    along = group.sum(along);
    ClassState state = item_with(group, of_state);
    const Step step = follow(state, square, along, of_bias, common);
    each(group, [&](std::uint32_t c, std::uint32_t h) {
      const auto direction = load_pack<float, kWide>(along_mean + c);
      const auto of_column = load_pack<float, kWide>(of_columns + c);
      const Bits bits = random_bits(k, c, common.steps);
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
    call.moments[k] = state.moments;
    if (call.bias != nullptr) call.bias[k] = state.bias;
  }

  struct Step {
    float of_weight, smoothed;
  };

  // Moments and intercept of one class, and how its weights move.
  TRUEMAX_KERNEL Step follow(ClassState& state, float square, float along, float of_bias,
                             const Common& common) const {
    constexpr std::int32_t kTurn = 1 << 24;
    constexpr auto kNew = static_cast<float>(1 - kLayerKeep), kNewMean = static_cast<float>(1 - kLayerSmooth);
    constexpr float kTiny = 1e-8F;
    constexpr float kLogSmooth = -0.10536051565782628F;
    ClassMoments& m = state.moments;
    const auto now = static_cast<std::int32_t>((common.steps + 1) % kTurn);
    const auto rate = static_cast<float>(*call.step);
    const float weight = common.weight;
    const std::int32_t last =
        m.last >= 0 && m.last < static_cast<float>(kTurn) ? static_cast<std::int32_t>(m.last) : 0;
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
    state.bias -= rate * (m.bias_mean / m.mean_weight) / (sqrtf(m.bias_square / weight) + kTiny);
    return out;
  }

  // 16 random bits for each of eight numbers.
  struct Bits {
    std::uint64_t low, high;
    TRUEMAX_KERNEL std::uint32_t at(int e) const {
      return static_cast<std::uint32_t>((e < 4 ? low : high) >> (e % 4 * 16)) & 0xFFFFU;
    }
  };
  TRUEMAX_KERNEL Bits random_bits(std::int32_t k, std::uint32_t c, std::int64_t steps) const {
    if constexpr (sizeof(W) == 4) {
      return {0, 0};
    } else {
      const auto r = r123::Philox4x32()({{static_cast<std::uint32_t>(k), c, static_cast<std::uint32_t>(steps),
                                          static_cast<std::uint32_t>(steps >> 32)}},
                                        {{static_cast<std::uint32_t>(call.counters[2]),
                                          static_cast<std::uint32_t>(call.counters[2] >> 32)}});
      return {r[0] | (std::uint64_t{r[1]} << 32), r[2] | (std::uint64_t{r[3]} << 32)};
    }
  }

  // What rows have besides. The last blocks first: they have fewer slots.
  TRUEMAX_KERNEL void finish_rows(const Thread& t) const {
    const std::uint64_t stride = std::uint64_t{t.blocks()} * t.threads();
    const std::uint64_t first = std::uint64_t{t.blocks() - 1 - t.block()} * t.threads() + t.number();
    const auto seen = static_cast<std::uint64_t>(call.counters[1]);
    const bool rings = call.recent_size > 0;
    const std::uint64_t held = smaller(seen, call.recent_size);
    for (std::uint64_t i = first; i < call.rows; i += stride) {
      if (call.share[i] == 0) continue;
      if (call.index != nullptr && call.u != nullptr) call.u[call.index[i]] = call.new_u[i];
      if (!rings) continue;
      // Only the last of more labels than the ring has room for.
      const auto rank = static_cast<std::uint64_t>(call.rank[i]);
      if (static_cast<std::uint64_t>(*call.counted) - rank > call.recent_size) continue;
      const std::uint64_t at = (seen + rank) % call.recent_size;
      const std::int32_t old = call.recent[at];
      if (at < held && old >= 0 && static_cast<std::uint64_t>(old) < call.classes)
        fetch_add(call.recent_count + old, -1);
      call.recent[at] = call.label[i];
      fetch_add(call.recent_count + call.label[i], 1);
    }
  }
};

template <class C, int kWide>
struct KeepLabels {
  LayerCall call;

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32;
    for (std::uint64_t i = std::uint64_t{t.block()} * warps + t.number() / 32; i < call.rows;
         i += std::uint64_t{t.blocks()} * warps)
      if (has_own_slot(call, call.place[i])) keep_label<C, kWide>(call, group, i, call.label[i]);
  }
};

}  // namespace truemax::cuda
