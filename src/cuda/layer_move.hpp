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
    return kMostThreads / 32 * 2 * sizeof(double) + (kHeld == 0 ? 0 : 2 * call.features * sizeof(float));
  }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32;
    const std::uint32_t stride = t.blocks() * warps, end = static_cast<std::uint32_t>(call.slots + call.rows);
    std::uint32_t j = t.block() * warps + t.number() / 32;
    std::uint32_t item = item_at(group, j);
    const Common common(factors_of(call));
    if (common.moves) {
      find_direction(t, common.of_w);
      finish_rows(t);
    }
    while (j < end) {
      const std::uint32_t next = item_at(group, j + stride);
      move(t, group, j, item_with(group, item), common);
      item = next, j += stride;
    }
    if (common.moves) keep_columns(t, common.of_w);
  }

 private:
  // Of a drawn class only its number, and the sum of p.
  struct Item {
    std::int32_t label, place, others;
    float sum_p, share;
  };
  // What all slots share.
  struct Common {
    float of_x, of_w;
    bool moves;
    TRUEMAX_KERNEL explicit Common(const CallFactors& factors)
        : of_x(static_cast<float>(factors.of_x)),
          of_w(static_cast<float>(factors.of_w)),
          moves(factors.moves) {}
  };
  // [2][D]: the direction of the mean of x, and how far columns go.
  TRUEMAX_KERNEL float* direction(const Thread& t) const {
    if constexpr (kHeld == 0) return call.direction;  // each block writes the same
    return reinterpret_cast<float*>(t.shared + t.threads() / 32 * 2 * sizeof(double));
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

  // Running means of a column after this step.
  struct Means {
    float of_x, of_square;
  };
  TRUEMAX_KERNEL Means means_of(std::uint64_t c, float of_w) const {
    constexpr float kMostSquare = 1e30F;
    const std::uint64_t d = call.features;
    Means old{call.columns[c], call.columns[d + c]};
    float of_x = fresh(call.column_sums + c), of_square = fresh(call.column_sums + d + c);
    if (call.reduction != CallReduction::none) {
      const float all = magnitude(of_w * static_cast<float>(call.rows));
      of_x += all * call.row_sums[c], of_square += all * all * call.row_sums[d + c];
    }
    old.of_x += static_cast<float>(1 - kLayerKeepMean) * (of_x - old.of_x);
    old.of_square +=
        static_cast<float>(1 - kLayerKeep) * (clamped(of_square, 0.0F, kMostSquare) - old.of_square);
    return old;
  }

  // By every block for itself, so that none waits for another: find_direction and weigh_columns of
  // layer/pass.cpp. The last block to end keeps the means.
  TRUEMAX_KERNEL void find_direction(const Thread& t, float of_w) const {
    const std::uint64_t d = call.features;
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32;
    auto* const sums = reinterpret_cast<double*>(t.shared);
    float* const to = direction(t);
    double of_mean = 0, of_square = 0;
    for (std::uint64_t c = t.number(); c < d; c += t.threads()) {
      const Means means = means_of(c, of_w);
      of_mean += static_cast<double>(means.of_x) * static_cast<double>(means.of_x);
      of_square += static_cast<double>(means.of_square);
      if constexpr (kHeld > 0) to[c] = means.of_x, to[d + c] = means.of_square;
    }
    of_mean = group.sum(of_mean), of_square = group.sum(of_square);
    if (group.lane() == 0) sums[t.number() / 32] = of_mean, sums[warps + t.number() / 32] = of_square;
    t.sync();
    of_mean = of_square = 0;
    for (std::uint32_t w = 0; w < warps; ++w) of_mean += sums[w], of_square += sums[warps + w];
    of_square /= static_cast<double>(d);
    const double scale = of_mean > 0 && of_mean < 1e300 ? 1 / sqrt(of_mean) : 0;
    for (std::uint64_t c = t.number(); c < d; c += t.threads()) {
      const Means means = kHeld > 0 ? Means{to[c], to[d + c]} : means_of(c, of_w);
      const auto of_column = static_cast<double>(means.of_square);
      to[c] = static_cast<float>(scale * static_cast<double>(means.of_x));
      to[d + c] = static_cast<float>(
          of_column > 0 ? clamped(sqrt(of_square / of_column), 1 / kLayerMostOfColumn, kLayerMostOfColumn)
                        : 1.0);
    }
    t.sync();
  }

  TRUEMAX_KERNEL void keep_columns(const Thread& t, float of_w) const {
    auto* const last = reinterpret_cast<std::int32_t*>(t.shared);
    fence();
    t.sync();
    if (t.number() == 0)
      *last = fetch_add(&call.scalars->moved, 1) + 1 == static_cast<std::int32_t>(t.blocks()) ? 1 : 0;
    t.sync();
    if (*last == 0) return;
    const std::uint64_t d = call.features;
    for (std::uint64_t c = t.number(); c < d; c += t.threads()) {
      const Means means = means_of(c, of_w);
      call.columns[c] = means.of_x, call.columns[d + c] = means.of_square;
      call.column_sums[c] = 0, call.column_sums[d + c] = 0;
    }
    if (t.number() == 0) call.scalars->moved = 0;
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
    float* const of_drawn = call.gradient + j * d;
    float* const of_others = call.label_gradient + i * d;
    W* const w = class_row<W>(call, owns ? item.label : 0);
    const float state = owns ? state_at(group, item.label) : 0;
    Pack<W, kWide> old[kRegisters] = {};
    Pack<float, kWide> g[kRegisters];  // without the factor of_w
    if constexpr (kHeld > 0)
      if (owns) each(group, [&](std::uint32_t c, std::uint32_t h) { old[h] = load_pack<W, kWide>(w + c); });
    const auto of_row = [&](const Pack<C, kWide>& of_x, std::uint32_t c, std::uint32_t h) {
      float out[kWide];
      widen(of_x, out);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) g[h].number[e] = -item.sum_p * out[e];
      if (joined) {
        const auto more = load_pack<float, kWide>(of_others + c);
        TRUEMAX_UNROLL
        for (int e = 0; e < kWide; ++e) g[h].number[e] += more[e];
      }
    };
    if constexpr (kHeld > 0) {
      if (drawn) {
        each(group, [&](std::uint32_t c, std::uint32_t h) { g[h] = load_pack<float, kWide>(of_drawn + c); });
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
      follow_class(t, group, item.label, old, state, common.of_w * of_class,
                   [&](std::uint32_t c, std::uint32_t h, float* out) {
                     if constexpr (kHeld == 0) {
                       if (drawn)
                         g[h] = load_pack<float, kWide>(of_drawn + c);
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
                                   const Pack<W, kWide>* old, float of_state, float of_bias,
                                   const Gradient& gradient) const {
    const std::uint64_t d = call.features;
    const float *const along_mean = direction(t), *const of_columns = along_mean + d;
    W* const w = class_row<W>(call, k);
    float square = 0, along = 0;
    each(group, [&](std::uint32_t c, std::uint32_t h) {
      float g[kWide];
      const auto direction = load_pack<float, kWide>(along_mean + c);
      gradient(c, h, g);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) square += g[e] * g[e], along += g[e] * direction[e];
    });
    square = group.sum(square);
    along = group.sum(along);
    ClassState state = item_with(group, of_state);
    const Step step = follow(state, square, along, of_bias);
    each(group, [&](std::uint32_t c, std::uint32_t h) {
      const auto direction = load_pack<float, kWide>(along_mean + c);
      const auto of_column = load_pack<float, kWide>(of_columns + c);
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
    call.moments[k] = state.moments;
    if (call.bias != nullptr) call.bias[k] = state.bias;
  }

  struct Step {
    float of_weight, smoothed;
  };

  // Moments and intercept of one class, and how its weights move.
  TRUEMAX_KERNEL Step follow(ClassState& state, float square, float along, float of_bias) const {
    constexpr std::int32_t kTurn = 1 << 24;
    constexpr auto kNew = static_cast<float>(1 - kLayerKeep), kNewMean = static_cast<float>(1 - kLayerSmooth);
    constexpr float kTiny = 1e-8F;
    constexpr float kLogSmooth = -0.10536051565782628F;
    ClassMoments& m = state.moments;
    const auto now = static_cast<std::int32_t>((call.scalars->steps + 1) % kTurn);
    const auto rate = static_cast<float>(*call.step);
    const float weight = call.scalars->weight;
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
  TRUEMAX_KERNEL Bits random_bits(std::int32_t k, std::uint32_t c) const {
    if constexpr (sizeof(W) == 4) {
      return {0, 0};
    } else {
      const auto r = r123::Philox4x32()(
          {{static_cast<std::uint32_t>(k), c, static_cast<std::uint32_t>(call.scalars->steps),
            static_cast<std::uint32_t>(call.scalars->steps >> 32)}},
          {{static_cast<std::uint32_t>(call.counters[2]),
            static_cast<std::uint32_t>(call.counters[2] >> 32)}});
      return {r[0] | (std::uint64_t{r[1]} << 32), r[2] | (std::uint64_t{r[3]} << 32)};
    }
  }

  // What rows have besides. The last blocks first: they have fewer slots.
  TRUEMAX_KERNEL void finish_rows(const Thread& t) const {
    const std::uint64_t stride = std::uint64_t{t.blocks()} * t.threads();
    const std::uint64_t first = std::uint64_t{t.blocks() - 1 - t.block()} * t.threads() + t.number();
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
