// Forward of a layer on the GPU: what layer/pass.cpp does in take_rows, score and losses, and the draws of
// layer/layer.cpp.
//
//   TakeRows   draws classes (its first block) and copies their weights (its last blocks); for each row:
//              checks, copies, the score of its label, and what u keeps
//   a product  scores = x_copy drawn_w^T
//   Estimate   the slot of each label; u, losses and p of each row
//
// Rows that cannot be used are left out, and the first of them is reported: a kernel cannot throw, and
// nothing may wait for it.
#pragma once

#include <limits>

#include "core/random.hpp"
#include "cuda/layer_call.hpp"
#include "cuda/numbers.hpp"
#include "solve/mirror.hpp"
#include "solve/scalar_math.hpp"

namespace truemax::cuda {

inline constexpr float kEmptySlot = -3.0e38F;  // offset of an empty slot

TRUEMAX_KERNEL inline void report(const LayerCall& call, Fault kind, std::int64_t row, std::int64_t number,
                                  double value) {
  if (!claim(&call.scalars->faulty)) return;
  call.fault->row = row, call.fault->number = number, call.fault->value = value;
  fence_for_host();
  call.fault->kind = static_cast<std::int64_t>(kind);
}

// The bits of a number's size: they are ordered as the sizes are, with infinity and NaN above all others.
TRUEMAX_HOST_DEVICE inline std::uint32_t size_bits(float x) {
  return bits_of(x) & 0x7FFFFFFFU;
}
// Infinity for NaN.
TRUEMAX_HOST_DEVICE inline float size_of(std::uint32_t bits) {
  return float_of(smaller(bits, 0x7F800000U));
}

template <class W>
TRUEMAX_HOST_DEVICE inline W* class_row(const LayerCall& call, std::int64_t k) {
  return static_cast<W*>(call.weight) + k * call.weight_stride;
}

// The classes of a step, by one block of threads: a function of the steps so far.
struct DrawClasses {
  LayerCall call;

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint64_t stamp = call.scalars->stamp + 1;
    for (std::uint64_t j = t.number(); j < call.slots; j += t.threads()) {
      call.drawn_class[j] = j < call.drawn ? candidate(j) : -1;
      call.offset[j] = 0;
      if (call.drawn_class[j] >= 0)
        raise(call.slot_of + call.drawn_class[j], slot_key(stamp, j));
    }
    t.sync();
    if (call.draw == CallDraw::uniform)
      separate(t, stamp);
    else if (call.draw != CallDraw::all)
      join(t);
    fence();
    t.sync();
    if (t.number() != 0) return;
    *call.shared = 0;
    call.scalars->drawn = stamp;
  }

 private:
  TRUEMAX_KERNEL std::uint64_t word(std::uint64_t at, std::uint64_t words) const {
    const CounterRandom random(static_cast<std::uint64_t>(call.counters[2]), Stream::draw, 0);
    const CounterRandom::Block b =
        random.at(static_cast<std::uint64_t>(call.counters[0]) * ((words + 3) / 4) + at / 4);
    return at % 4 == 0 ? b.first : at % 4 == 1 ? b.second : at % 4 == 2 ? b.third : b.fourth;
  }
  TRUEMAX_KERNEL std::uint64_t held() const {
    const auto seen = static_cast<std::uint64_t>(call.counters[1]);
    return seen < call.recent_size ? seen : call.recent_size;
  }
  TRUEMAX_KERNEL double uniform_share() const { return held() == 0 ? 1 : kLayerUniformShare; }

  // The class of draw j; of uniform draws before they are made distinct.
  TRUEMAX_KERNEL std::int32_t candidate(std::uint64_t j) const {
    if (call.draw == CallDraw::all) return static_cast<std::int32_t>(j);
    if (call.draw == CallDraw::uniform)
      return static_cast<std::int32_t>(uniform_below(word(j, call.drawn), last(j) + 1));
    if (call.draw == CallDraw::counts)
      return static_cast<std::int32_t>(AliasTable::pick(call.cells, call.classes, word(j, call.drawn)));
    const std::uint64_t place = word(2 * j + 1, 2 * call.drawn);
    if (uniform_unit(word(2 * j, 2 * call.drawn)) < uniform_share())
      return static_cast<std::int32_t>(uniform_below(place, call.classes));
    const std::int32_t k = call.recent[uniform_below(place, held())];
    if (k >= 0 && static_cast<std::uint64_t>(k) < call.classes && call.recent_count[k] >= 1) return k;
    report(call, Fault::ring, 0, k, 0);
    return -1;
  }

  // Floyd's method: if the number of draw j is there already, it is `last(j)` instead, which no draw before j
  // can have. It is there if an earlier draw has the same number, or if it is the `last` of an earlier draw
  // that was replaced.
  TRUEMAX_KERNEL std::uint64_t last(std::uint64_t j) const { return call.classes - call.drawn + j; }
  TRUEMAX_KERNEL bool replaced(std::uint64_t j) const {
    for (;;) {
      const auto number = static_cast<std::uint64_t>(call.drawn_class[j]);
      if (slot_in(fresh(call.slot_of + number)) < j) return true;
      if (number < last(0) || number - last(0) >= j) return false;
      j = number - last(0);
    }
  }
  TRUEMAX_KERNEL void separate(const Thread& t, std::uint64_t stamp) const {
    const auto weight = static_cast<float>(
        log(static_cast<double>(call.classes) / static_cast<double>(call.drawn)));
    for (std::uint64_t j = t.number(); j < call.drawn; j += t.threads())
      call.offset[j] = replaced(j) ? 1.0F : 0.0F;
    t.sync();
    for (std::uint64_t j = t.number(); j < call.drawn; j += t.threads()) {
      if (call.offset[j] != 0) {
        call.drawn_class[j] = static_cast<std::int32_t>(last(j));
        raise(call.slot_of + last(j), slot_key(stamp, j));
      }
      call.offset[j] = weight;
    }
  }

  // Draws of the same class become one, with weight times/(draws q).
  TRUEMAX_KERNEL void join(const Thread& t) const {
    for (std::uint64_t j = t.number(); j < call.drawn; j += t.threads())
      if (call.drawn_class[j] >= 0) add(call.offset + slot_in(fresh(call.slot_of + call.drawn_class[j])), 1.0F);
    t.sync();
    for (std::uint64_t j = t.number(); j < call.drawn; j += t.threads()) {
      const std::int32_t k = call.drawn_class[j];
      if (k < 0) continue;
      if (slot_in(fresh(call.slot_of + k)) != j) {
        call.drawn_class[j] = -1;
        continue;
      }
      double q = 0;
      if (call.draw == CallDraw::counts) {
        q = call.probability[k];
      } else {
        const double uniform = uniform_share();
        q = uniform / static_cast<double>(call.classes);
        if (held() > 0)
          q += (1 - uniform) * larger(call.recent_count[k], 0) / static_cast<double>(held());
      }
      call.offset[j] = static_cast<float>(
          log(static_cast<double>(fresh(call.offset + j)) / (static_cast<double>(call.drawn) * q)));
    }
  }
};

// X: type of x; W: of the weights; C: of the copies; kWide numbers at a time. Blocks: 1 that draws, then those
// of rows, of u, and of drawn classes, which wait for the first.
template <class X, class W, class C, int kWide>
struct TakeRows {
  LayerCall call;
  std::uint32_t row_blocks, u_blocks;
  static constexpr std::uint32_t kMostThreads = 256, kLeastBlocks = 4;  // of a processor
  static constexpr int kAtOnce = kWide == 1 ? 4 : 16 / kWide;  // packs of a thread

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    if (t.block() == 0) return DrawClasses{call}(t);
    const Group<32> group = t.template group<32>();
    const std::uint64_t warps = t.threads() / 32, warp = t.number() / 32;
    std::uint64_t block = t.block() - 1;
    if (block < row_blocks) {
      for (std::uint64_t i = block * warps + warp; i < call.rows; i += row_blocks * warps) take(group, i);
      return;
    }
    block -= row_blocks;
    if (block < u_blocks) return keep(block * t.threads() + t.number(), u_blocks * std::uint64_t{t.threads()});
    block -= u_blocks;
    if (t.number() == 0) wait_for(&call.scalars->drawn, call.scalars->stamp + 1);
    t.sync();
    const std::uint64_t blocks = t.blocks() - 1 - row_blocks - u_blocks;
    for (std::uint64_t j = block * warps + warp; j < call.slots; j += blocks * warps) gather(group, j);
  }

 private:
  TRUEMAX_KERNEL bool usable(std::uint64_t i, std::int64_t y, bool reports) const {
    if (y == call.ignore_index) return false;
    if (y < 0 || static_cast<std::uint64_t>(y) >= call.classes) {
      if (reports) report(call, Fault::target, static_cast<std::int64_t>(i), y, 0);
      return false;
    }
    if (call.index == nullptr) return true;
    const std::int64_t at = call.index[i];
    if (at >= 0 && static_cast<std::uint64_t>(at) < call.u_rows) return true;
    if (reports) report(call, Fault::index, static_cast<std::int64_t>(i), at, 0);
    return false;
  }

  // Loads are far ahead of what needs them: the time of this kernel is that of memory.
  TRUEMAX_KERNEL void take(const Group<32>& group, std::uint64_t i) const {
    const std::int64_t y = call.target[i];
    const int lane = group.lane();
    const std::uint64_t d = call.features;
    const X* const x = static_cast<const X*>(call.x) + static_cast<std::int64_t>(i) * call.x_stride;
    C* const x_copy = static_cast<C*>(call.x_copy) + i * d;
    C* const w_copy = static_cast<C*>(call.label_w) + i * d;
    bool counts = true;
    float score = 0;
    std::uint32_t most_x = 0, most_w = 0;
    std::uint64_t first = static_cast<std::uint64_t>(lane) * kWide;
    do {
      Pack<X, kWide> of_x[kAtOnce];
      Pack<W, kWide> of_w[kAtOnce];
      TRUEMAX_UNROLL
      for (int r = 0; r < kAtOnce; ++r)
        if (const std::uint64_t c = first + static_cast<std::uint64_t>(r * 32 * kWide); c < d)
          of_x[r] = read_pack<X, kWide>(x + c);
      if (first < 32 * kWide) counts = usable(i, y, lane == 0);
      if (!counts) break;
      const W* const w = class_row<W>(call, y);
      TRUEMAX_UNROLL
      for (int r = 0; r < kAtOnce; ++r)
        if (const std::uint64_t c = first + static_cast<std::uint64_t>(r * 32 * kWide); c < d)
          of_w[r] = read_pack<W, kWide>(w + c);
      TRUEMAX_UNROLL
      for (int r = 0; r < kAtOnce; ++r)
        if (const std::uint64_t c = first + static_cast<std::uint64_t>(r * 32 * kWide); c < d) {
          Pack<C, kWide> to_x, to_w;
          TRUEMAX_UNROLL
          for (int e = 0; e < kWide; ++e) {
            const float a = of_x[r][e], b = of_w[r][e];
            score += a * b;
            most_x = larger(most_x, size_bits(a)), most_w = larger(most_w, size_bits(b));
            to_x.number[e] = narrow<C>(a), to_w.number[e] = narrow<C>(b);
          }
          store_pack<C, kWide>(x_copy + c, to_x);
          store_pack<C, kWide>(w_copy + c, to_w);
        }
      first += std::uint64_t{32} * kWide * kAtOnce;
    } while (first < d);
    if (counts) {
      const float bias = call.bias == nullptr ? 0 : call.bias[y];
      score = group.sum(score) + bias;
      const auto size_x = static_cast<double>(size_of(group.highest(most_x)));
      const auto size_w = static_cast<double>(size_of(group.highest(larger(most_w, size_bits(bias)))));
      const double limit = smaller(kLayerLargest, kLayerLargestGradient / (1 + 1 / call.rho));
      if (!(size_x <= limit)) {
        counts = false;
        if (lane == 0) report(call, Fault::x, static_cast<std::int64_t>(i), 0, size_x);
      } else if (!(size_w <= kLayerLargest)) {
        counts = false;
        if (lane == 0) report(call, Fault::weights, static_cast<std::int64_t>(i), y, size_w);
      }
    }
    if (!counts)
      for (std::uint64_t c = static_cast<std::uint64_t>(lane) * kWide; c < d; c += 32 * kWide) {
        store_pack<C, kWide>(x_copy + c, Pack<C, kWide>{});
        store_pack<C, kWide>(w_copy + c, Pack<C, kWide>{});
      }
    if (lane != 0) return;
    call.label[i] = counts ? static_cast<std::int32_t>(y) : -1;
    call.label_score[i] = counts ? score : 0;
    call.share[i] = counts ? 1 : 0;
    call.rows_of[i] = 0;
    if (counts) raise(call.slot_of + y, slot_key(call.scalars->stamp + 1, call.slots + i));
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

  TRUEMAX_KERNEL void gather(const Group<32>& group, std::uint64_t j) const {
    const std::uint64_t d = call.features;
    const int lane = group.lane();
    const std::int32_t k = fresh(call.drawn_class + j);
    C* const to = static_cast<C*>(call.drawn_w) + j * d;
    bool counts = k >= 0;
    float offset = kEmptySlot;
    if (counts) {
      std::uint32_t most = 0;
      const W* const w = class_row<W>(call, k);
      for (std::uint64_t first = static_cast<std::uint64_t>(lane) * kWide; first < d;
           first += std::uint64_t{32} * kWide * kAtOnce) {
        Pack<W, kWide> of_w[kAtOnce];
        TRUEMAX_UNROLL
        for (int r = 0; r < kAtOnce; ++r)
          if (const std::uint64_t c = first + static_cast<std::uint64_t>(r * 32 * kWide); c < d)
            of_w[r] = read_pack<W, kWide>(w + c);
        TRUEMAX_UNROLL
        for (int r = 0; r < kAtOnce; ++r)
          if (const std::uint64_t c = first + static_cast<std::uint64_t>(r * 32 * kWide); c < d) {
            Pack<C, kWide> to_w;
            TRUEMAX_UNROLL
            for (int e = 0; e < kWide; ++e) {
              most = larger(most, size_bits(of_w[r][e]));
              to_w.number[e] = narrow<C>(of_w[r][e]);
            }
            store_pack<C, kWide>(to + c, to_w);
          }
      }
      const float bias = call.bias == nullptr ? 0 : call.bias[k];
      const auto size = static_cast<double>(size_of(group.highest(larger(most, size_bits(bias)))));
      if (size <= kLayerLargest) {
        offset = fresh(call.offset + j) + bias;
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
    call.column_p[j] = 0;
    call.offset[j] = offset;
    if (!counts) call.drawn_class[j] = -1;
  }
};

// S: type of the scores; P: of p. kHeld: a thread keeps that many packs of its row in registers, or 0: it
// reads them again.
template <class S, class P, int kHeld>
struct Estimate {
  LayerCall call;
  float shift;  // log(rho / (1 + rho))
  static constexpr int kWide = 8;
  static constexpr std::uint64_t kMostHeld = std::uint64_t{32} * kWide * kHeld;  // slots
  static constexpr int kRegisters = kHeld == 0 ? 1 : kHeld;
  static constexpr std::uint32_t kParts = 8;  // sums of p over the rows of some warps

  static std::size_t shared_bytes(std::uint32_t threads, std::uint64_t slots) {
    return threads / 32 * 2 * sizeof(double) + (kHeld == 0 ? 0 : (kParts + 1) * slots * sizeof(float));
  }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32, warp = t.number() / 32;
    auto* const loss = reinterpret_cast<double*>(t.shared);
    auto* const counts = reinterpret_cast<std::int32_t*>(loss + warps);
    auto* const offset = reinterpret_cast<float*>(loss + 2 * warps);
    if constexpr (kHeld > 0) {
      for (std::uint32_t j = t.number(); j < slots(); j += t.threads()) offset[j] = call.offset[j];
      t.sync();
    }
    float sums[kRegisters * kWide] = {};
    double total = 0;
    std::int32_t count = 0;
    Row row{};
    const std::uint64_t stride = std::uint64_t{t.blocks()} * warps;
    std::uint64_t i = std::uint64_t{t.block()} * warps + warp;
    if (i < call.rows) fetch(group, i, row);
    for (; i < call.rows; i += stride) {
      Row next{};
      const bool counted = row.label >= 0;
      total += counted ? take(group, i, i + stride, row, next, offset, sums) : skip(group, i, i + stride, next);
      count += counted ? 1 : 0;
      row = next;
    }
    if (group.lane() == 0) loss[warp] = total, counts[warp] = count;
    if constexpr (kHeld > 0)
      add_sums(t, group, offset + call.slots, sums);
    else
      t.sync();
    if (t.number() != 0) return;
    for (std::uint32_t w = 1; w < warps; ++w) total += loss[w], count += counts[w];
    if (total != 0) add(&call.scalars->loss, total);
    if (count != 0) fetch_add(&call.scalars->counted, count);
    fence();
    if (fetch_add(&call.scalars->scored, 1) + 1 == static_cast<std::int32_t>(t.blocks())) finish();
  }

 private:
  TRUEMAX_KERNEL std::uint32_t slots() const { return static_cast<std::uint32_t>(call.slots); }

  // What is read of a row before its turn.
  struct Row {
    std::int32_t label;
    float of_label, base;
    std::uint64_t slot;
    Pack<S, kWide> scores[kRegisters];
  };

  TRUEMAX_KERNEL static std::uint32_t place(const Group<32>& group, int pack) {
    return static_cast<std::uint32_t>((pack * 32 + group.lane()) * kWide);
  }

  TRUEMAX_KERNEL void fetch(const Group<32>& group, std::uint64_t i, Row& row) const {
    row.label = call.label[i];
    row.of_label = call.label_score[i];
    row.base = call.base[i];
    if constexpr (kHeld > 0) {
      const S* const z = static_cast<const S*>(call.scores) + i * call.slots;
      TRUEMAX_UNROLL
      for (int h = 0; h < kHeld; ++h)
        if (place(group, h) < slots()) row.scores[h] = load_pack<S, kWide>(z + place(group, h));
    }
    row.slot = row.label < 0 ? 0 : call.slot_of[row.label];
  }

  // Sums of p over the rows of this block.
  TRUEMAX_KERNEL void add_sums(const Thread& t, const Group<32>& group, float* parts, const float* sums) const {
    const std::uint32_t warps = t.threads() / 32, warp = t.number() / 32;
    float* const part = parts + warp % kParts * call.slots;
    for (std::uint32_t turn = (warps - 1) / kParts + 1; turn-- > 0;) {
      if (warp / kParts == turn) {
        const bool first = warp + kParts >= warps;
        TRUEMAX_UNROLL
        for (int h = 0; h < kHeld; ++h)
          if (place(group, h) < slots()) {
            TRUEMAX_UNROLL
            for (int e = 0; e < kWide; ++e) {
              float& to = part[place(group, h) + static_cast<std::uint32_t>(e)];
              to = sums[h * kWide + e] + (first ? 0 : to);
            }
          }
      }
      t.sync();
    }
    for (std::uint32_t j = t.number(); j < slots(); j += t.threads()) {
      float sum = 0;
      for (std::uint32_t of = 0; of < smaller(kParts, warps); ++of) sum += parts[of * call.slots + j];
      if (sum != 0) add(call.column_p + j, sum);
    }
  }

  // By the last block.
  TRUEMAX_KERNEL void finish() const {
    fence();
    const std::int32_t n = fresh(&call.scalars->counted);
    const double sum = fresh(&call.scalars->loss);
    *call.counted = n;
    *call.total_loss =
        static_cast<float>(call.reduction == CallReduction::mean ? sum / larger(n, 1) : sum);
    call.scalars->counted = 0, call.scalars->scored = 0, call.scalars->loss = 0;
    ++call.scalars->stamp;
  }

  // A row that does not count.
  TRUEMAX_KERNEL double skip(const Group<32>& group, std::uint64_t i, std::uint64_t then, Row& next) const {
    P* const p = static_cast<P*>(call.p) + i * call.slots;
    for (std::uint32_t j = place(group, 0); j < slots(); j += 32 * kWide)
      store_pack<P, kWide>(p + j, Pack<P, kWide>{});
    if (group.lane() == 0) call.loss[i] = 0, call.sum_p[i] = 0, call.new_u[i] = 0, call.place[i] = -1;
    if (then < call.rows) fetch(group, then, next);
    return 0;
  }

  // Scores relative to the label's, with offsets; far below all where a slot is empty or the label's.
  TRUEMAX_KERNEL static void relative(const Pack<S, kWide>& scores, const float* offset, float of_label,
                                      float* out) {
    const auto add = load_pack<float, kWide>(offset);
    TRUEMAX_UNROLL
    for (int e = 0; e < kWide; ++e) out[e] = scores[e] + add[e] - of_label;
  }

  // Returns the loss of the row, and reads the next one.
  TRUEMAX_KERNEL double take(const Group<32>& group, std::uint64_t i, std::uint64_t then, const Row& row, Row& next,
                             const float* offset, float* sums) const {
    P* const p = static_cast<P*>(call.p) + i * call.slots;
    const S* const z = static_cast<const S*>(call.scores) + i * call.slots;
    const std::uint32_t slot = slot_in(row.slot);
    const std::uint32_t own = slot < slots() ? slot : ~0U;
    float held[kRegisters * kWide];
    const auto hide = [&](std::uint32_t j, float* t) {
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e)
        if (j + static_cast<std::uint32_t>(e) == own) t[e] = kEmptySlot;
    };
    const auto each = [&](auto&& visit) {
      if constexpr (kHeld > 0) {
        TRUEMAX_UNROLL
        for (int h = 0; h < kHeld; ++h)
          if (place(group, h) < slots()) visit(place(group, h), held + h * kWide, h);
      } else {
        for (std::uint32_t j = place(group, 0); j < slots(); j += 32 * kWide) {
          relative(load_pack<S, kWide>(z + j), call.offset + j, row.of_label, held);
          hide(j, held);
          visit(j, held, 0);
        }
      }
    };
    if constexpr (kHeld > 0) {
      TRUEMAX_UNROLL
      for (int h = 0; h < kHeld; ++h)
        if (place(group, h) < slots())
          relative(row.scores[h], offset + place(group, h), row.of_label, held + h * kWide);
      if (own < slots()) each([&](std::uint32_t j, float* t, int /*h*/) { hide(j, t); });
    }
    if (then < call.rows) fetch(group, then, next);
    float highest = kEmptySlot;
    each([&](std::uint32_t /*j*/, const float* t, int /*h*/) {
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) highest = larger(highest, t[e]);
    });
    highest = group.highest(highest);
    float sum = 0;
    each([&](std::uint32_t /*j*/, float* t, int /*h*/) {
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) {
        t[e] = FloatMath::exp(t[e] - highest);
        sum += t[e];
      }
    });
    sum = group.sum(sum);
    const Scale scale = scale_of(highest, sum, row.base);
    float all = 0;
    each([&](std::uint32_t j, const float* t, int h) {
      Pack<P, kWide> out;
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) {
        const float value = kHeld > 0 ? t[e] : FloatMath::exp(t[e] - highest);
        out.number[e] = narrow<P>(value * scale.factor);
        all += out[e];
        if constexpr (kHeld > 0) sums[h * kWide + e] += out[e];
      }
      store_pack<P, kWide>(p + j, out);
    });
    // What the label loses is the sum of what was rounded: the coefficients of a row sum to 0.
    all = group.sum(all);
    if (own < slots()) give_label(group, p, own, all, sums);
    if (group.lane() == 0) {
      call.loss[i] = scale.u;
      call.new_u[i] = scale.u;
      call.sum_p[i] = all;
      call.place[i] = static_cast<std::int32_t>(slot);
      // Labels that several rows have.
      if (slot >= call.slots && slot - call.slots != i)
        if (fetch_add(call.rows_of + (slot - call.slots), 1) == 0)
          call.shared_rows[fetch_add(call.shared, 1)] = static_cast<std::int32_t>(slot - call.slots);
    }
    return static_cast<double>(scale.u);
  }

  // The label is one of the drawn classes: the products have its part too.
  TRUEMAX_KERNEL void give_label(const Group<32>& group, P* p, std::uint32_t own, float all, float* sums) const {
    const P value = narrow<P>(-all);
    if (own / kWide % 32 == static_cast<std::uint32_t>(group.lane())) p[own] = value;
    if constexpr (kHeld > 0) {
      TRUEMAX_UNROLL
      for (int h = 0; h < kHeld; ++h) {
        TRUEMAX_UNROLL
        for (int e = 0; e < kWide; ++e)
          if (place(group, h) + static_cast<std::uint32_t>(e) == own) sums[h * kWide + e] += wide(value);
      }
    }
  }

  struct Scale {
    float u, factor;
  };

  // u after the mirror step (solve/mirror.hpp), softplus(log_sum) if nothing is kept; and exp(highest - u),
  // without the difference of two large numbers.
  TRUEMAX_KERNEL Scale scale_of(float highest, float sum, float base) const {
    const bool forgets = base < 0;
    const float kept = forgets ? 0 : base;
    if (!(highest > kEmptySlot / 2)) return {kept, 0};
    const float part = (forgets ? 0 : shift) + logf(sum), t = highest + part;
    const float rest = log1pf(expf(t < 0 ? t : -t));
    const float u = kept + (larger(t, 0.0F) + rest);
    return {u, t > 0 ? expf(-(kept + part + rest)) : expf(highest - u)};
  }
};

}  // namespace truemax::cuda
