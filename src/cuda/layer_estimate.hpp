// Estimate: the slot of each label; u, losses and p of each row. What layer/pass.cpp does in
// score.
#pragma once

#include "cuda/layer_rows.hpp"

namespace truemax::cuda {

// S: type of the scores; P: of p and of the copies. kHeld: a thread keeps that many packs of its row in
// registers, or 0: it reads them again.
template <class S, class P, int kHeld>
struct Estimate : EstimatedRows<P> {
  using Base = EstimatedRows<P>;
  using Base::call;
  static constexpr int kWide = 8;
  static constexpr std::uint64_t kMostHeld = std::uint64_t{32} * kWide * kHeld;  // slots
  static constexpr int kRegisters = kHeld == 0 ? 1 : kHeld;
  static constexpr std::uint32_t kMostThreads = 512, kLeastBlocks = 1;  // of a processor
  static constexpr int kSums = kHeld * kWide;                           // of a thread
  // p of 8 bits is exp2 of scores in its unit; of 24 bits, exp.
  static constexpr bool kQuick = sizeof(P) == 2;
  static constexpr float kUnit = kQuick ? 1.4426950408889634F : 1.0F;

  static std::size_t shared_bytes(std::uint32_t threads) {
    return larger(kOfNumbering * threads, threads / 32 * 2 * sizeof(double) +
                                              (kMostHeld + std::size_t{threads} * kSums) * sizeof(float));
  }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint32_t blocks = t.blocks() - (Base::numbers_labels(call) ? 1 : 0);
    if (t.block() == blocks) {
      this->number(t);
      return;
    }
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32, warp = t.number() / 32;
    auto* const loss = reinterpret_cast<double*>(t.shared);
    auto* const counts = reinterpret_cast<std::int32_t*>(loss + warps);
    auto* const offset = reinterpret_cast<float*>(loss + 2 * warps);
    float* const parts = offset + kMostHeld;
    const std::uint32_t stride = blocks * warps, begin = t.block() * warps + warp;
    if constexpr (kHeld > 0)
      for (std::uint32_t j = t.number(); j < slots(); j += t.threads())
        offset[offset_place(j)] = in_units(call.offset[j]);
    Row mine = this->state_of(begin + static_cast<std::uint32_t>(group.lane()) * stride);
    t.sync();
    float sums[kRegisters * kWide] = {};
    Scores scores = scores_of(group, begin);
    TRUEMAX_NO_UNROLL
    for (std::uint32_t turn = 0; turn < 32 && begin + turn * stride < rows(); ++turn) {
      const std::uint32_t i = begin + turn * stride;
      const Scores now = scores;
      const auto go_on = [&] { scores = scores_of(group, i + stride); };
      const Row row = mine.of(group, static_cast<int>(turn));
      const Row found = row.label < 0 ? skip(group, i, go_on) : take(group, i, row, now, offset, sums, go_on);
      if (group.lane() == static_cast<int>(turn)) mine.u = found.u, mine.sum_p = found.sum_p;
    }
    put_down(t, parts, sums);
    const std::uint32_t row = begin + static_cast<std::uint32_t>(group.lane()) * stride;
    this->put_row(row, mine);
    give(group, row, mine);
    double total = group.sum(mine.label >= 0 ? static_cast<double>(mine.u) : 0.0);
    std::int32_t count = group.sum(mine.label >= 0 ? 1 : 0);
    if (group.lane() == 0) loss[warp] = total, counts[warp] = count;
    t.sync();
    if constexpr (kHeld > 0) add_slots(t, parts);
    if (t.number() != t.threads() - 32) return;  // its warp has no slots to add
    total = 0, count = 0;
    for (std::uint32_t w = 0; w < warps; ++w) total += loss[w], count += counts[w];
    this->add_losses(total, count, blocks);
  }

 private:
  using Base::rows, Base::slots;
  using Row = EstimatedRow;  // a thread has those of one row; a warp takes its 32 rows in turn
  struct Scores {
    Pack<S, kWide> packs[kRegisters];
  };

  // What rows give to an earlier one with the same label. Each thread has a row, or one beyond all.
  TRUEMAX_KERNEL void give(const Group<32>& group, std::uint32_t i, const Row& mine) const {
    std::uint32_t giving = group.ballot(this->gives(i, mine));
    while (giving != 0) {
      const int lane = lowest_bit(giving);
      giving &= giving - 1;
      const std::uint32_t row = group.from(i, lane);
      this->keep(group, row, group.from(mine.label, lane));
      this->join(group, row, group.from(mine.slot, lane), group.from(mine.sum_p, lane));
    }
  }

  TRUEMAX_KERNEL Scores scores_of(const Group<32>& group, std::uint32_t i) const {
    Scores out{};
    if (i >= rows()) return out;
    if constexpr (kHeld > 0) {
      const S* const z = static_cast<const S*>(call.scores) + std::uint64_t{i} * call.slots;
      TRUEMAX_UNROLL
      for (int h = 0; h < kHeld; ++h)
        if (place(group, h) < slots()) out.packs[h] = load_pack<S, kWide>(z + place(group, h));
    }
    return out;
  }

  TRUEMAX_KERNEL static std::uint32_t place(const Group<32>& group, int pack) {
    return static_cast<std::uint32_t>((pack * 32 + group.lane()) * kWide);
  }
  // Of the offset of slot j in shared memory: threads that are neighbours read neighbours, four at a time.
  TRUEMAX_KERNEL static std::uint32_t offset_place(std::uint32_t j) {
    return j / (32 * kWide) * (32 * kWide) + j % kWide / 4 * 128 + j / kWide % 32 * 4 + j % 4;
  }

  // Sums of each thread, where others find them after a sync.
  TRUEMAX_KERNEL static void put_down(const Thread& t, float* parts, const float* mine) {
    float* const part = parts + t.number() / 32 * (32 * kSums) + t.number() % 32;
    TRUEMAX_UNROLL
    for (int e = 0; e < kSums; ++e) part[32 * e] = mine[e];
  }
  // Their sums over the warps, four slots at a time; neighbours have neighbouring slots. Number e of lane l
  // belongs to slot (e / kWide * 32 + l) * kWide + e % kWide.
  TRUEMAX_KERNEL void add_slots(const Thread& t, const float* parts) const {
    constexpr std::uint32_t kAtOnce = 4, kOthers = kWide / kAtOnce;
    const std::uint32_t warps = t.threads() / 32, lane = t.number() % 32;
    for (std::uint32_t q = t.number() / 32; q < kSums / kAtOnce; q += warps) {
      const std::uint32_t l = (q % kOthers * 32 + lane) / kOthers;
      const std::uint32_t e = q / kOthers * kWide + lane % kOthers * kAtOnce;
      float sum[kAtOnce] = {};
      for (std::uint32_t w = 0; w < warps; ++w) {
        TRUEMAX_UNROLL
        for (std::uint32_t r = 0; r < kAtOnce; ++r) sum[r] += parts[(w * kSums + e + r) * 32 + l];
      }
      const std::uint32_t j = (e / kWide * 32 + l) * kWide + e % kWide;
      if (j < slots()) add_numbers<kAtOnce>(call.column_p + j, sum);
    }
  }

  // A row that does not count.
  template <class GoOn>
  TRUEMAX_KERNEL Row skip(const Group<32>& group, std::uint32_t i, const GoOn& go_on) const {
    P* const p = static_cast<P*>(call.p) + i * call.slots;
    for (std::uint32_t j = place(group, 0); j < slots(); j += 32 * kWide)
      store_pack<P, kWide>(p + j, Pack<P, kWide>{});
    go_on();
    return {};
  }

  TRUEMAX_KERNEL static float in_units(float offset) { return larger(kUnit * offset, kEmptySlot); }
  TRUEMAX_KERNEL static float exp_of(float t) {
    if constexpr (kQuick)
      return quick_exp2(t);
    else
      return FloatMath::exp(t);
  }

  // Scores with offsets, in units.
  TRUEMAX_KERNEL static void shifted(const Pack<S, kWide>& scores, const Pack<float, 4>& low,
                                     const Pack<float, 4>& high, float* out) {
    widen(scores, out);
    TRUEMAX_UNROLL
    for (int e = 0; e < kWide; ++e) {
      const float add = e < 4 ? low[e % 4] : high[e % 4];
      out[e] = kQuick ? fmaf(out[e], kUnit, add) : out[e] + add;
    }
  }
  TRUEMAX_KERNEL static void shifted_here(const Pack<S, kWide>& scores, const float* offset, float* out) {
    Pack<float, 4> low, high;
    for (int e = 0; e < 4; ++e) low.number[e] = in_units(offset[e]), high.number[e] = in_units(offset[4 + e]);
    shifted(scores, low, high, out);
  }

  // u of the row, and the sum of its p. go_on() reads the next row's scores.
  template <class GoOn>
  TRUEMAX_KERNEL Row take(const Group<32>& group, std::uint32_t i, const Row& row, const Scores& scores,
                          const float* offset, float* sums, const GoOn& go_on) const {
    P* const p = static_cast<P*>(call.p) + i * call.slots;
    const S* const z = static_cast<const S*>(call.scores) + i * call.slots;
    const std::uint32_t own = row.slot < slots() ? row.slot : ~0U;
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
        if (place(group, h) < slots()) {
          const float* const from = offset + offset_place(place(group, h));
          shifted(scores.packs[h], load_pack<float, 4>(from), load_pack<float, 4>(from + 128),
                  held + h * kWide);
        }
      if (own < slots()) each([&](std::uint32_t j, float* t, int /*h*/) { hide(j, t); });
    }
    go_on();
    float highest = kEmptySlot;
    each([&](std::uint32_t /*j*/, const float* t, int /*h*/) {
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) highest = larger(highest, t[e]);
    });
    highest = group.highest_number(highest);
    float sum = 0;
    each([&](std::uint32_t /*j*/, float* t, int /*h*/) {
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) {
        t[e] = exp_of(t[e] - highest);
        sum += t[e];
      }
    });
    sum = group.sum(sum);
    const RowScale scale = this->scale_of(
        highest > kEmptySlot / 2 ? highest * (1 / kUnit) - row.score : kEmptySlot, sum, row.base);
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
    return {row.label, row.slot, row.score, row.base, scale.u, all};
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
};

}  // namespace truemax::cuda
