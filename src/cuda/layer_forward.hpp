// Forward of a layer on the GPU: what layer/pass.cpp does in take_rows, score and losses, and the draws of
// layer/layer.cpp.
//
//   TakeRows   draws classes (its first block), and for each row: checks, copies, the score of its label
//   TakeDrawn  copies the weights of the drawn classes; finds the slot of each label
//   a product  scores = x_copy drawn_w^T
//   Estimate   u, losses and p of each row
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

// The larger size; infinity from the first NaN on.
TRUEMAX_HOST_DEVICE inline float worse(float most, float x) {
  const float size = x < 0 ? -x : x;
  return size <= most ? most : finite(x) ? size : float_of(0x7F800000U);
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
    if (call.draw == CallDraw::all) return;
    if (call.draw == CallDraw::uniform)
      separate(t, stamp);
    else
      join(t);
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

// X: type of x; W: of the weights; C: of the copies; kWide numbers at a time.
template <class X, class W, class C, int kWide>
struct TakeRows {
  LayerCall call;

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    if (t.block() == 0) return DrawClasses{call}(t);
    const Group<32> group = t.template group<32>();
    const std::uint64_t warps = t.threads() / 32;
    for (std::uint64_t i = (t.block() - 1) * warps + t.number() / 32; i < call.rows;
         i += (t.blocks() - 1) * warps)
      take(group, i);
  }

 private:
  TRUEMAX_KERNEL void take(const Group<32>& group, std::uint64_t i) const {
    const std::int64_t y = call.target[i];
    const int lane = group.lane();
    bool counts = y != call.ignore_index;
    if (counts && (y < 0 || static_cast<std::uint64_t>(y) >= call.classes)) {
      counts = false;
      if (lane == 0) report(call, Fault::target, static_cast<std::int64_t>(i), y, 0);
    }
    if (counts && call.index != nullptr) {
      const std::int64_t at = call.index[i];
      if (at < 0 || static_cast<std::uint64_t>(at) >= call.u_rows) {
        counts = false;
        if (lane == 0) report(call, Fault::index, static_cast<std::int64_t>(i), at, 0);
      }
    }
    const std::uint64_t d = call.features;
    const X* const x = static_cast<const X*>(call.x) + static_cast<std::int64_t>(i) * call.x_stride;
    C* const x_copy = static_cast<C*>(call.x_copy) + i * d;
    C* const w_copy = static_cast<C*>(call.label_w) + i * d;
    float score = 0, most_x = 0, most_w = 0;
    if (counts) {
      const W* const w = class_row<W>(call, y);
      for (std::uint64_t c = static_cast<std::uint64_t>(lane) * kWide; c < d; c += 32 * kWide) {
        const auto of_x = read_pack<X, kWide>(x + c);
        const auto of_w = read_pack<W, kWide>(w + c);
        Pack<C, kWide> to_x, to_w;
        TRUEMAX_UNROLL
        for (int e = 0; e < kWide; ++e) {
          const float a = of_x[e], b = of_w[e];
          score += a * b;
          most_x = worse(most_x, a), most_w = worse(most_w, b);
          to_x.number[e] = narrow<C>(a), to_w.number[e] = narrow<C>(b);
        }
        store_pack<C, kWide>(x_copy + c, to_x);
        store_pack<C, kWide>(w_copy + c, to_w);
      }
      const float bias = call.bias == nullptr ? 0 : call.bias[y];
      score = group.sum(score) + bias;
      most_x = group.highest(most_x);
      most_w = group.highest(worse(most_w, bias));
      const double limit = smaller(kLayerLargest, kLayerLargestGradient / (1 + 1 / call.rho));
      if (!(static_cast<double>(most_x) <= limit)) {
        counts = false;
        if (lane == 0) report(call, Fault::x, static_cast<std::int64_t>(i), 0, static_cast<double>(most_x));
      } else if (!(static_cast<double>(most_w) <= kLayerLargest)) {
        counts = false;
        if (lane == 0) report(call, Fault::weights, static_cast<std::int64_t>(i), y, static_cast<double>(most_w));
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
};

template <class W, class C, int kWide>
struct TakeDrawn {
  LayerCall call;
  std::uint32_t gather_blocks;  // of the drawn classes; the others take rows

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    if (t.block() == 0 && t.number() == 0) ++call.scalars->stamp;
    if (t.block() >= gather_blocks) return find_slots(t);
    const Group<32> group = t.template group<32>();
    const std::uint64_t warps = t.threads() / 32;
    for (std::uint64_t j = t.block() * warps + t.number() / 32; j < call.slots; j += gather_blocks * warps)
      gather(group, j);
  }

 private:
  TRUEMAX_KERNEL void gather(const Group<32>& group, std::uint64_t j) const {
    const std::uint64_t d = call.features;
    const int lane = group.lane();
    const std::int32_t k = call.drawn_class[j];
    C* const to = static_cast<C*>(call.drawn_w) + j * d;
    bool counts = k >= 0;
    float most = 0;
    if (counts) {
      const W* const w = class_row<W>(call, k);
      for (std::uint64_t c = static_cast<std::uint64_t>(lane) * kWide; c < d; c += 32 * kWide) {
        const auto of_w = read_pack<W, kWide>(w + c);
        Pack<C, kWide> to_w;
        TRUEMAX_UNROLL
        for (int e = 0; e < kWide; ++e) {
          most = worse(most, of_w[e]);
          to_w.number[e] = narrow<C>(of_w[e]);
        }
        store_pack<C, kWide>(to + c, to_w);
      }
      const float bias = call.bias == nullptr ? 0 : call.bias[k];
      most = group.highest(worse(most, bias));
      if (!(static_cast<double>(most) <= kLayerLargest)) {
        counts = false;
        if (lane == 0) report(call, Fault::weights, -1, k, static_cast<double>(most));
      }
      if (lane == 0 && counts) call.offset[j] += bias;
    }
    if (!counts)
      for (std::uint64_t c = static_cast<std::uint64_t>(lane) * kWide; c < d; c += 32 * kWide)
        store_pack<C, kWide>(to + c, Pack<C, kWide>{});
    if (lane != 0) return;
    call.column_p[j] = 0;
    if (counts) return;
    call.offset[j] = kEmptySlot;
    call.drawn_class[j] = -1;
  }

  TRUEMAX_KERNEL void find_slots(const Thread& t) const {
    const Group<32> group = t.template group<32>();
    const std::uint64_t each = std::uint64_t{t.blocks() - gather_blocks} * t.threads();
    // Whole warps, so that all threads of one meet.
    for (std::uint64_t first = (t.block() - gather_blocks) * std::uint64_t{t.threads()}; first < call.rows;
         first += each) {
      const std::uint64_t i = first + t.number();
      const std::int32_t y = i < call.rows ? call.label[i] : -1;
      if (y >= 0) {
        const std::uint32_t slot = slot_in(call.slot_of[y]);
        call.place[i] = static_cast<std::int32_t>(slot);
        if (slot >= call.slots) fetch_add(call.rows_of + (slot - call.slots), 1);
      } else if (i < call.rows) {
        call.place[i] = -1;
      }
      const std::uint32_t all = group.ballot(y >= 0);
      std::int32_t count = 0;
      for (std::uint32_t rest = all; rest != 0; rest &= rest - 1) ++count;
      if (group.lane() == 0 && count > 0) fetch_add(&call.scalars->counted, count);
    }
  }
};

// S: type of the scores; P: of p. kHeld: a thread keeps that many packs of its row in registers, or 0: it
// reads them again.
template <class S, class P, int kHeld>
struct Estimate {
  LayerCall call;
  static constexpr int kWide = 8;
  static constexpr std::uint64_t kMostHeld = std::uint64_t{32} * kWide * kHeld;  // slots
  static constexpr int kRegisters = kHeld == 0 ? 1 : kHeld;

  static std::size_t shared_bytes(std::uint32_t threads, std::uint64_t slots) {
    return threads / 32 * sizeof(double) + (kHeld == 0 ? 0 : slots * sizeof(float));
  }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32, warp = t.number() / 32;
    auto* const loss = reinterpret_cast<double*>(t.shared);
    auto* const column = reinterpret_cast<float*>(loss + warps);
    float sums[kRegisters * kWide] = {};
    double total = 0;
    for (std::uint64_t i = std::uint64_t{t.block()} * warps + warp; i < call.rows;
         i += std::uint64_t{t.blocks()} * warps)
      total += take(group, i, sums);
    if constexpr (kHeld > 0) {
      for (std::uint64_t j = t.number(); j < call.slots; j += t.threads()) column[j] = 0;
      t.sync();
      for (int h = 0; h < kHeld; ++h)
        for (int e = 0; e < kWide; ++e)
          if (const std::uint64_t j = place(group, h) + static_cast<std::uint64_t>(e); j < call.slots)
            add(column + j, sums[h * kWide + e]);
    }
    if (group.lane() == 0) loss[warp] = total;
    t.sync();
    if constexpr (kHeld > 0)
      for (std::uint64_t j = t.number(); j < call.slots; j += t.threads())
        if (column[j] != 0) add(call.column_p + j, column[j]);
    if (t.number() != 0) return;
    for (std::uint32_t w = 1; w < warps; ++w) total += loss[w];
    if (total != 0) add(&call.scalars->loss, total);
    fence();
    if (fetch_add(&call.scalars->scored, 1) + 1 == static_cast<std::int32_t>(t.blocks())) finish();
  }

 private:
  TRUEMAX_KERNEL static std::uint64_t place(const Group<32>& group, int pack) {
    return (static_cast<std::uint64_t>(pack) * 32 + static_cast<std::uint64_t>(group.lane())) * kWide;
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
  }

  // z + offset - label's score of one pack; kEmptySlot where nothing counts.
  TRUEMAX_KERNEL void relative(const S* z, std::uint64_t j, float of_label, std::uint64_t own,
                               float* out) const {
    const auto scores = load_pack<S, kWide>(z + j);
    const auto offset = load_pack<float, kWide>(call.offset + j);
    TRUEMAX_UNROLL
    for (int e = 0; e < kWide; ++e) {
      const bool counts = offset[e] > kEmptySlot / 2 && j + static_cast<std::uint64_t>(e) != own;
      out[e] = counts ? scores[e] + offset[e] - of_label : kEmptySlot;
    }
  }

  // Returns the loss of the row.
  TRUEMAX_KERNEL double take(const Group<32>& group, std::uint64_t i, float* sums) const {
    P* const p = static_cast<P*>(call.p) + i * call.slots;
    const std::int32_t own = call.place[i];
    if (own < 0) {
      for (std::uint64_t j = place(group, 0); j < call.slots; j += std::uint64_t{32} * kWide)
        store_pack<P, kWide>(p + j, Pack<P, kWide>{});
      if (group.lane() == 0) call.loss[i] = 0, call.sum_p[i] = 0, call.new_u[i] = 0;
      return 0;
    }
    const S* const z = static_cast<const S*>(call.scores) + i * call.slots;
    const float of_label = call.label_score[i];
    float held[kRegisters * kWide];
    float highest = kEmptySlot;
    const auto each = [&](auto&& visit) {
      if constexpr (kHeld > 0) {
        TRUEMAX_UNROLL
        for (int h = 0; h < kHeld; ++h)
          if (place(group, h) < call.slots) visit(place(group, h), held + h * kWide, h);
      } else {
        for (std::uint64_t j = place(group, 0); j < call.slots; j += std::uint64_t{32} * kWide) {
          relative(z, j, of_label, static_cast<std::uint64_t>(own), held);
          visit(j, held, 0);
        }
      }
    };
    if constexpr (kHeld > 0) {
      TRUEMAX_UNROLL
      for (int h = 0; h < kHeld; ++h)
        if (place(group, h) < call.slots)
          relative(z, place(group, h), of_label, static_cast<std::uint64_t>(own), held + h * kWide);
    }
    each([&](std::uint64_t /*j*/, const float* t, int /*h*/) {
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) highest = larger(highest, t[e]);
    });
    highest = group.highest(highest);
    const bool any = highest > kEmptySlot / 2;
    float sum = 0;
    each([&](std::uint64_t /*j*/, float* t, int /*h*/) {
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) {
        t[e] = t[e] > kEmptySlot / 2 ? FloatMath::exp(t[e] - highest) : 0;
        sum += t[e];
      }
    });
    sum = group.sum(sum);
    const double log_sum = any ? static_cast<double>(highest) + log(static_cast<double>(sum))
                               : -std::numeric_limits<double>::infinity();
    const double u = new_u(i, log_sum);
    const auto factor = static_cast<float>(any ? exp(static_cast<double>(highest) - u) : 0.0);
    float all = 0;
    each([&](std::uint64_t j, const float* t, int h) {
      Pack<P, kWide> out;
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) {
        float value = t[e];
        if constexpr (kHeld == 0)
          value = value > kEmptySlot / 2 ? FloatMath::exp(value - highest) : 0;
        out.number[e] = narrow<P>(value * factor);
        all += out[e];
        if constexpr (kHeld > 0) sums[h * kWide + e] += out[e];
      }
      store_pack<P, kWide>(p + j, out);
    });
    // What the label loses is the sum of what was rounded: the coefficients of a row sum to 0.
    all = group.sum(all);
    if (group.lane() == 0) {
      call.loss[i] = static_cast<float>(u);
      call.new_u[i] = static_cast<float>(u);
      call.sum_p[i] = all;
    }
    return static_cast<double>(static_cast<float>(u));
  }

  TRUEMAX_KERNEL double new_u(std::uint64_t i, double log_sum) const {
    double old = -1;
    if (call.index != nullptr && call.u_rows > 0)
      if (const float kept = call.u[call.index[i]]; finite(kept))
        old = larger(static_cast<double>(kept), 0.0);
    const bool forgets = call.draw == CallDraw::all || !(call.rho < 1e300);
    if (forgets || old < 0) return softplus(log_sum);
    return larger(Mirror(old, call.rho).from_log_sum(log_sum), 0.0);
  }
};

}  // namespace truemax::cuda
