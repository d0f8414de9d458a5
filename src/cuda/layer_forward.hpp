// Forward of a layer on the GPU: what layer/pass.cpp does in take_rows, score and losses, and the draws of
// layer/layer.cpp.
//
//   DrawClasses  only of very many draws
//   TakeRows   draws classes and copies their weights; for each row: checks, copies, the score of its label,
//              and what u keeps
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

// The classes of a step, a function of the steps so far. A block of threads finds them in memory that it
// shares; every block that needs some of them finds all, so that none waits for another.
struct Draws {
  const LayerCall& call;
  std::int32_t* number;  // [drawn]: as they were drawn
  std::uint32_t* times;  // [drawn]: how often, at the first draw of a class
  std::uint32_t* table;  // by hash: the first draw of each number
  std::uint32_t mask;

  static constexpr std::uint64_t kMostAtOnce = 2048;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  TRUEMAX_HOST_DEVICE static std::uint32_t table_size(std::uint64_t drawn) {
    std::uint32_t size = 32;
    while (size < 2 * drawn) size *= 2;
    return size;
  }
  TRUEMAX_HOST_DEVICE static std::size_t words(std::uint64_t drawn) { return 2 * drawn + table_size(drawn); }

  TRUEMAX_KERNEL Draws(const LayerCall& of, void* memory)
      : call(of),
        number(static_cast<std::int32_t*>(memory)),
        times(static_cast<std::uint32_t*>(memory) + of.drawn),
        table(times + of.drawn),
        mask(table_size(of.drawn) - 1) {}

  TRUEMAX_KERNEL void prepare(const Thread& t) const {
    for (std::uint32_t h = t.number(); h <= mask; h += t.threads()) table[h] = kNone;
    const bool pairs = call.draw == CallDraw::recent;
    const std::uint64_t needed = pairs ? 2 * call.drawn : call.drawn, blocks = (needed + 3) / 4;
    const CounterRandom random(static_cast<std::uint64_t>(call.counters[2]), Stream::draw, 0);
    const std::uint64_t begin = static_cast<std::uint64_t>(call.counters[0]) * blocks;
    for (std::uint64_t q = t.number(); q < blocks; q += t.threads()) {
      const CounterRandom::Block b = random.at(begin + q);
      if (pairs) {
        put(2 * q, recent(b.first, b.second));
        put(2 * q + 1, recent(b.third, b.fourth));
      } else {
        put(4 * q, single(4 * q, b.first)), put(4 * q + 1, single(4 * q + 1, b.second));
        put(4 * q + 2, single(4 * q + 2, b.third)), put(4 * q + 3, single(4 * q + 3, b.fourth));
      }
    }
    t.sync();
    for (std::uint64_t j = t.number(); j < call.drawn; j += t.threads())
      if (number[j] >= 0) insert(static_cast<std::uint32_t>(j));
    t.sync();
    if (call.draw == CallDraw::uniform) return;
    for (std::uint64_t j = t.number(); j < call.drawn; j += t.threads())
      if (number[j] >= 0) count(times + first_of(static_cast<std::uint64_t>(number[j])));
    t.sync();
  }

  // The class of slot j, or -1 if it is empty.
  TRUEMAX_KERNEL std::int32_t class_of(std::uint64_t j) const {
    if (call.draw == CallDraw::uniform) return replaced(j) ? static_cast<std::int32_t>(last(j)) : number[j];
    if (number[j] < 0 || first_of(static_cast<std::uint64_t>(number[j])) != j) return -1;
    return number[j];
  }
  // The log of its weight, times/(draws q).
  TRUEMAX_KERNEL float log_weight(std::uint64_t j, std::int32_t k) const {
    const auto draws = static_cast<double>(call.drawn), classes = static_cast<double>(call.classes);
    if (call.draw == CallDraw::uniform) return static_cast<float>(log(classes / draws));
    double q = 0;
    if (call.draw == CallDraw::counts) {
      q = call.probability[k];
    } else {
      const double uniform = uniform_share();
      q = uniform / classes;
      if (held() > 0) q += (1 - uniform) * larger(call.recent_count[k], 0) / static_cast<double>(held());
    }
    return static_cast<float>(log(static_cast<double>(read(times + j)) / (draws * q)));
  }

 private:
  template <class T>
  TRUEMAX_KERNEL static T read(const T* from) {  // after others have changed it
    return *static_cast<const volatile T*>(from);
  }
  TRUEMAX_KERNEL std::uint64_t held() const {
    const auto seen = static_cast<std::uint64_t>(call.counters[1]);
    return seen < call.recent_size ? seen : call.recent_size;
  }
  TRUEMAX_KERNEL double uniform_share() const { return held() == 0 ? 1 : kLayerUniformShare; }

  TRUEMAX_KERNEL void put(std::uint64_t j, std::int32_t k) const {
    if (j < call.drawn) number[j] = k, times[j] = 0;
  }
  TRUEMAX_KERNEL std::int32_t single(std::uint64_t j, std::uint64_t word) const {
    if (call.draw == CallDraw::uniform) return static_cast<std::int32_t>(uniform_below(word, last(j) + 1));
    return static_cast<std::int32_t>(AliasTable::pick(call.cells, call.classes, word));
  }
  TRUEMAX_KERNEL std::int32_t recent(std::uint64_t kind, std::uint64_t place) const {
    if (uniform_unit(kind) < uniform_share())
      return static_cast<std::int32_t>(uniform_below(place, call.classes));
    const std::int32_t k = call.recent[uniform_below(place, held())];
    if (k >= 0 && static_cast<std::uint64_t>(k) < call.classes && call.recent_count[k] >= 1) return k;
    report(call, Fault::ring, 0, k, 0);
    return -1;
  }

  TRUEMAX_KERNEL std::uint32_t hash(std::uint64_t k) const {
    return (static_cast<std::uint32_t>(k) * 0x9E3779B1U >> 8U) & mask;
  }
  TRUEMAX_KERNEL void insert(std::uint32_t j) const {
    for (std::uint32_t h = hash(static_cast<std::uint64_t>(number[j]));; h = (h + 1) & mask) {
      const std::uint32_t there = put_if(table + h, kNone, j);
      if (there == kNone) return;
      if (number[there] != number[j]) continue;
      lower(table + h, j);
      return;
    }
  }
  // kNone: nobody drew it.
  TRUEMAX_KERNEL std::uint32_t first_of(std::uint64_t k) const {
    for (std::uint32_t h = hash(k);; h = (h + 1) & mask) {
      const std::uint32_t there = read(table + h);
      if (there == kNone || number[there] == static_cast<std::int32_t>(k)) return there;
    }
  }

  // Floyd's method: if the number of draw j is there already, it is `last(j)` instead, which no draw before j
  // can have. It is there if an earlier draw has the same number, or if it is the `last` of an earlier draw
  // that was replaced.
  TRUEMAX_KERNEL std::uint64_t last(std::uint64_t j) const { return call.classes - call.drawn + j; }
  TRUEMAX_KERNEL bool replaced(std::uint64_t j) const {
    for (;;) {
      const auto k = static_cast<std::uint64_t>(number[j]);
      if (first_of(k) < j) return true;
      if (k < last(0) || k - last(0) >= j) return false;
      j = k - last(0);
    }
  }
};

// More draws than shared memory holds, by one block of threads.
struct DrawClasses {
  LayerCall call;

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Draws draws(call, call.draws);
    draws.prepare(t);
    for (std::uint64_t j = t.number(); j < call.drawn; j += t.threads()) {
      const std::int32_t k = draws.class_of(j);
      call.drawn_class[j] = k;
      call.offset[j] = k < 0 ? 0 : draws.log_weight(j, k);
    }
  }
};

// X: type of x; W: of the weights; C: of the copies; kWide numbers at a time. Blocks: those of drawn classes,
// of rows, and of u.
template <class X, class W, class C, int kWide>
struct TakeRows {
  LayerCall call;
  std::uint32_t drawn_blocks, row_blocks;
  static constexpr std::uint32_t kMostThreads = 256, kLeastBlocks = 4;  // of a processor
  static constexpr int kAtOnce = kWide == 1 ? 4 : 16 / kWide;           // packs of a thread

  static std::size_t shared_bytes(const LayerCall& call) {
    return draws_here(call) ? Draws::words(call.drawn) * sizeof(std::uint32_t) : 0;
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
    if (block < row_blocks) {
      for (std::uint64_t i = block * warps + warp; i < call.rows; i += row_blocks * warps)
        take(group, i, stamp);
      return;
    }
    block -= row_blocks;
    const std::uint64_t u_blocks = t.blocks() - drawn_blocks - row_blocks;
    keep(block * t.threads() + t.number(), u_blocks * std::uint64_t{t.threads()});
  }

 private:
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
  TRUEMAX_KERNEL void take(const Group<32>& group, std::uint64_t i, std::uint64_t stamp) const {
    const std::int64_t y = call.target[i], at = call.index == nullptr ? 0 : call.index[i];
    const int lane = group.lane();
    const std::uint64_t d = call.features;
    const X* const x = static_cast<const X*>(call.x) + static_cast<std::int64_t>(i) * call.x_stride;
    C* const x_copy = static_cast<C*>(call.x_copy) + i * d;
    bool counts = true;
    float score = 0, most_x = 0, most_w = 0, bias = 0;
    std::uint64_t first = static_cast<std::uint64_t>(lane) * kWide;
    do {
      Pack<X, kWide> of_x[kAtOnce];
      Pack<W, kWide> of_w[kAtOnce];
      TRUEMAX_UNROLL
      for (int r = 0; r < kAtOnce; ++r)
        if (const std::uint64_t c = first + static_cast<std::uint64_t>(r * 32 * kWide); c < d)
          of_x[r] = read_pack<X, kWide>(x + c);
      if (first < 32 * kWide) {
        counts = usable(i, y, at, lane == 0);
        if (counts && call.bias != nullptr) bias = call.bias[y];
      }
      if (!counts) break;
      const W* const w = class_row<W>(call, y);
      TRUEMAX_UNROLL
      for (int r = 0; r < kAtOnce; ++r)
        if (const std::uint64_t c = first + static_cast<std::uint64_t>(r * 32 * kWide); c < d)
          of_w[r] = read_pack<W, kWide>(w + c);
      TRUEMAX_UNROLL
      for (int r = 0; r < kAtOnce; ++r)
        if (const std::uint64_t c = first + static_cast<std::uint64_t>(r * 32 * kWide); c < d) {
          float a[kWide], b[kWide];
          widen(of_x[r], a), widen(of_w[r], b);
          TRUEMAX_UNROLL
          for (int e = 0; e < kWide; ++e) {
            score += a[e] * b[e];
            most_x = larger(most_x, magnitude(a[e])), most_w = larger(most_w, magnitude(b[e]));
          }
          store_pack<C, kWide>(x_copy + c, narrowed<C, kWide>(a));
        }
      first += std::uint64_t{32} * kWide * kAtOnce;
    } while (first < d);
    if (counts) {
      score = group.sum(score) + bias;
      most_x = group.highest(most_x);
      most_w = group.highest(larger(most_w, magnitude(bias)));
      const auto limit =
          static_cast<float>(smaller(kLayerLargest, kLayerLargestGradient / (1 + 1 / call.rho)));
      // NaN makes a score of NaN.
      if (!(most_x <= limit) || !(most_w <= static_cast<float>(kLayerLargest)) || !finite(score))
        counts = acceptable(group, i, x, y, bias);
    }
    if (!counts)
      for (std::uint64_t c = static_cast<std::uint64_t>(lane) * kWide; c < d; c += 32 * kWide)
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
            of_w[r] = read_pack<W, kWide>(w + c);
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

// put(c, get(c)) for all c below `count`, with several gets under way.
template <class Get, class Put>
TRUEMAX_KERNEL inline void in_strides(const Group<32>& group, std::uint64_t count, const Get& get,
                                      const Put& put) {
  constexpr int kAtOnce = 8;
  for (std::uint64_t first = static_cast<std::uint64_t>(group.lane()); first < count; first += 32 * kAtOnce) {
    float got[kAtOnce];
    TRUEMAX_UNROLL
    for (int r = 0; r < kAtOnce; ++r)
      if (const std::uint64_t c = first + static_cast<std::uint64_t>(32 * r); c < count) got[r] = get(c);
    TRUEMAX_UNROLL
    for (int r = 0; r < kAtOnce; ++r)
      if (const std::uint64_t c = first + static_cast<std::uint64_t>(32 * r); c < count) put(c, got[r]);
  }
}

// The weights of a row's label, before steps change them.
template <class C>
TRUEMAX_KERNEL inline void keep_label(const LayerCall& call, const Group<32>& group, std::uint64_t i,
                                      std::int32_t k) {
  C* const to = static_cast<C*>(call.label_w) + i * call.features;
  const auto copy = [&](const auto* from) {
    in_strides(
        group, call.features, [&](std::uint64_t c) { return wide(from[c]); },
        [&](std::uint64_t c, float w) { to[c] = narrow<C>(w); });
  };
  if (call.weight_type == NumberType::bfloat16)
    copy(class_row<Bfloat16>(call, k));
  else
    copy(class_row<float>(call, k));
}

// Adds the gradient of a label to that of the row which has its slot.
template <class C>
TRUEMAX_KERNEL inline void join_label(const LayerCall& call, const Group<32>& group, std::uint64_t i,
                                      std::uint64_t owner, float sum_p) {
  if (sum_p == 0) return;
  const C* const x = static_cast<const C*>(call.x_copy) + i * call.features;
  float* const to = call.label_gradient + owner * call.features;
  in_strides(
      group, call.features, [&](std::uint64_t c) { return wide(x[c]); },
      [&](std::uint64_t c, float of_x) { add(to + c, -sum_p * of_x); });
  if (group.lane() == 0) add(call.label_bias + owner, -sum_p);
}

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
  // p of 8 bits is exp2 of scores in its unit; of 24 bits, exp.
  static constexpr bool kQuick = sizeof(P) == 2;
  static constexpr float kUnit = kQuick ? 1.4426950408889634F : 1.0F;

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
      for (std::uint32_t j = t.number(); j < slots(); j += t.threads()) offset[j] = in_units(call.offset[j]);
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
      total +=
          counted ? take(group, i, i + stride, row, next, offset, sums) : skip(group, i, i + stride, next);
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
  TRUEMAX_KERNEL void add_sums(const Thread& t, const Group<32>& group, float* parts,
                               const float* sums) const {
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
    *call.total_loss = static_cast<float>(call.reduction == CallReduction::mean ? sum / larger(n, 1) : sum);
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

  TRUEMAX_KERNEL static float in_units(float offset) { return larger(kUnit * offset, kEmptySlot); }
  TRUEMAX_KERNEL static float exp_of(float t) {
    if constexpr (kQuick)
      return quick_exp2(t);
    else
      return FloatMath::exp(t);
  }

  // Scores with offsets, in units.
  TRUEMAX_KERNEL static void shifted(const Pack<S, kWide>& scores, const float* offset, float* out) {
    const auto add = load_pack<float, kWide>(offset);
    widen(scores, out);
    TRUEMAX_UNROLL
    for (int e = 0; e < kWide; ++e) out[e] = kQuick ? fmaf(out[e], kUnit, add[e]) : out[e] + add[e];
  }
  TRUEMAX_KERNEL static void shifted_here(const Pack<S, kWide>& scores, const float* offset, float* out) {
    float units[kWide];
    for (int e = 0; e < kWide; ++e) units[e] = in_units(offset[e]);
    shifted(scores, units, out);
  }

  // Returns the loss of the row, and reads the next one.
  TRUEMAX_KERNEL double take(const Group<32>& group, std::uint64_t i, std::uint64_t then, const Row& row,
                             Row& next, const float* offset, float* sums) const {
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
          shifted_here(load_pack<S, kWide>(z + j), call.offset + j, held);
          hide(j, held);
          visit(j, held, 0);
        }
      }
    };
    if constexpr (kHeld > 0) {
      TRUEMAX_UNROLL
      for (int h = 0; h < kHeld; ++h)
        if (place(group, h) < slots()) shifted(row.scores[h], offset + place(group, h), held + h * kWide);
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
        t[e] = exp_of(t[e] - highest);
        sum += t[e];
      }
    });
    sum = group.sum(sum);
    const Scale scale =
        scale_of(highest > kEmptySlot / 2 ? highest * (1 / kUnit) - row.of_label : kEmptySlot, sum, row.base);
    float all = 0;
    each([&](std::uint32_t j, const float* t, int h) {
      float value[kWide];
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) value[e] = (kHeld > 0 ? t[e] : exp_of(t[e] - highest)) * scale.factor;
      const auto out = narrowed<P, kWide>(value);
      store_pack<P, kWide>(p + j, out);
      widen(out, value);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) {
        all += value[e];
        if constexpr (kHeld > 0) sums[h * kWide + e] += value[e];
      }
    });
    // What the label loses is the sum of what was rounded: the coefficients of a row sum to 0.
    all = group.sum(all);
    if (own < slots()) give_label(group, p, own, all, sums);
    if (group.lane() == 0) {
      call.loss[i] = scale.u;
      call.new_u[i] = scale.u;
      call.sum_p[i] = all;
      call.place[i] = static_cast<std::int32_t>(slot);
    }
    if (slot >= call.slots && slot - call.slots != i) {  // an earlier row has this label too
      if (group.lane() == 0) fetch_add(call.rows_of + (slot - call.slots), 1);
      keep_label<P>(call, group, i, row.label);
      if (call.reduction != CallReduction::none) join_label<P>(call, group, i, slot - call.slots, all);
    }
    return static_cast<double>(scale.u);
  }

  // The label is one of the drawn classes: the products have its part too.
  TRUEMAX_KERNEL void give_label(const Group<32>& group, P* p, std::uint32_t own, float all,
                                 float* sums) const {
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
