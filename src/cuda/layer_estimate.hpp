// Estimate: the slot of each label; u, losses and p of each row. What layer/pass.cpp does in losses.
#pragma once

#include "cuda/layer_parts.hpp"

namespace truemax::cuda {

// S: type of the scores; P: of p and of the copies. kHeld: a thread keeps that many packs of its row in
// registers, or 0: it reads them again.
template <class S, class P, int kHeld>
struct Estimate {
  LayerCall call;
  float shift;           // log(rho / (1 + rho))
  std::uint32_t packed;  // rows of the copies and of W begin at multiples of eight numbers
  static constexpr int kWide = 8;
  static constexpr std::uint64_t kMostHeld = std::uint64_t{32} * kWide * kHeld;  // slots
  static constexpr int kRegisters = kHeld == 0 ? 1 : kHeld;
  static constexpr std::uint32_t kMostThreads = 512, kLeastBlocks = 1;  // of a processor
  static constexpr int kOfSlots = kHeld * kWide, kOfRows = 32;          // sums of a thread
  static constexpr int kSums = kOfSlots > kOfRows ? kOfSlots : kOfRows;
  // p of 8 bits is exp2 of scores in its unit; of 24 bits, exp.
  static constexpr bool kQuick = sizeof(P) == 2;
  static constexpr float kUnit = kQuick ? 1.4426950408889634F : 1.0F;

  static std::size_t shared_bytes(std::uint32_t threads) {
    return threads / 32 * 2 * sizeof(double) + (kMostHeld + std::size_t{threads} * kSums) * sizeof(float);
  }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32, warp = t.number() / 32;
    auto* const loss = reinterpret_cast<double*>(t.shared);
    auto* const counts = reinterpret_cast<std::int32_t*>(loss + warps);
    auto* const offset = reinterpret_cast<float*>(loss + 2 * warps);
    float* const parts = offset + kMostHeld;
    const std::uint32_t stride = t.blocks() * warps, begin = t.block() * warps + warp;
    Row row{};
    std::int32_t ahead = label_of(begin + stride);
    if (begin < rows()) fetch(group, begin, label_of(begin), row);
    if constexpr (kHeld > 0) {
      for (std::uint32_t j = t.number(); j < slots(); j += t.threads())
        offset[offset_place(j)] = in_units(call.offset[j]);
      t.sync();
    }
    float sums[kRegisters * kWide] = {};
    double total = 0;
    std::int32_t count = 0;
    for (std::uint32_t i = begin; i < rows(); i += stride) {
      Row next{};
      const bool counted = row.label >= 0;
      const std::int32_t after = label_of(i + 2 * stride);
      const auto go_on = [&] {
        if (i + stride < rows()) fetch(group, i + stride, ahead, next);
      };
      total += counted ? take(group, i, row, offset, sums, go_on) : skip(group, i, go_on);
      count += counted ? 1 : 0;
      row = next, ahead = after;
    }
    if (group.lane() == 0) loss[warp] = total, counts[warp] = count;
    if constexpr (kHeld > 0) put_down<kOfSlots>(t, parts, sums);
    group.sync();  // what lane 0 has written of the rows
    if (packed != 0)
      add_rows<kWide>(t, begin, stride, parts);
    else
      add_rows<1>(t, begin, stride, parts);
    if (t.number() != 0) return;
    for (std::uint32_t w = 1; w < warps; ++w) total += loss[w], count += counts[w];
    if (total != 0) add(&call.scalars->loss, total);
    if (count != 0) fetch_add(&call.scalars->counted, count);
    fence();
    if (fetch_add(&call.scalars->scored, 1) + 1 == static_cast<std::int32_t>(t.blocks())) finish();
  }

 private:
  TRUEMAX_KERNEL std::uint32_t slots() const { return static_cast<std::uint32_t>(call.slots); }
  TRUEMAX_KERNEL std::uint32_t rows() const { return static_cast<std::uint32_t>(call.rows); }

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
  // Of the offset of slot j in shared memory: threads that are neighbours read neighbours, four at a time.
  TRUEMAX_KERNEL static std::uint32_t offset_place(std::uint32_t j) {
    return j / (32 * kWide) * (32 * kWide) + j % kWide / 4 * 128 + j / kWide % 32 * 4 + j % 4;
  }

  TRUEMAX_KERNEL std::int32_t label_of(std::uint32_t i) const { return i < rows() ? call.label[i] : -1; }

  TRUEMAX_KERNEL void fetch(const Group<32>& group, std::uint32_t i, std::int32_t label, Row& row) const {
    row.label = label;
    row.slot = label < 0 ? 0 : call.slot_of[label];
    row.of_label = call.label_score[i];
    row.base = call.base[i];
    if constexpr (kHeld > 0) {
      const S* const z = static_cast<const S*>(call.scores) + i * call.slots;
      TRUEMAX_UNROLL
      for (int h = 0; h < kHeld; ++h)
        if (place(group, h) < slots()) row.scores[h] = load_pack<S, kWide>(z + place(group, h));
    }
  }

  // Numbers of each thread, where others find them after a sync.
  template <int kCount>
  TRUEMAX_KERNEL static void put_down(const Thread& t, float* parts, const float* mine) {
    float* const part = parts + t.number() / 32 * (32 * kCount) + t.number() % 32;
    TRUEMAX_UNROLL
    for (int e = 0; e < kCount; ++e) part[32 * e] = mine[e];
  }
  // Their sums over the warps: use(column, sum) has kAtOnce of them, where number e of lane l belongs to
  // column (e / kPack * 32 + l) * kPack + e % kPack. Neighbours have neighbouring columns.
  template <int kCount, int kPack, class Use>
  TRUEMAX_KERNEL static void pick_up(const Thread& t, const float* parts, const Use& use) {
    constexpr std::uint32_t kAtOnce = kPack == 1 ? 1 : 4, kOthers = kPack / kAtOnce;
    const std::uint32_t warps = t.threads() / 32, lane = t.number() % 32;
    for (std::uint32_t q = t.number() / 32; q < kCount / kAtOnce; q += warps) {
      const std::uint32_t l = (q % kOthers * 32 + lane) / kOthers;
      const std::uint32_t e = q / kOthers * kPack + lane % kOthers * kAtOnce;
      float sum[kAtOnce] = {};
      for (std::uint32_t w = 0; w < warps; ++w) {
        TRUEMAX_UNROLL
        for (std::uint32_t r = 0; r < kAtOnce; ++r) sum[r] += parts[(w * kCount + e + r) * 32 + l];
      }
      use((e / kPack * 32 + l) * kPack + e % kPack, sum);
    }
  }

  TRUEMAX_KERNEL void add_slots(const Thread& t, const float* parts) const {
    if constexpr (kHeld > 0)
      pick_up<kOfSlots, kWide>(t, parts, [&](std::uint32_t j, const float* sum) {
        if (j < slots()) add_numbers<4>(call.column_p + j, sum);
      });
  }

  // What the gradients of this warp's rows add to sums over columns, kPack columns at a time, now that sums
  // of p are known; and what rows give to an earlier one with the same label. Then, with all warps there, the
  // sums of slots.
  template <int kPack>
  TRUEMAX_KERNEL void add_rows(const Thread& t, std::uint32_t begin, std::uint32_t stride,
                               float* parts) const {
    constexpr int kPacks = kPack == 1 ? 4 : kOfRows / 2 / kPack, kHalf = kPack * kPacks;
    const Group<32> group = t.template group<32>();
    const std::uint64_t d = call.features;
    if (call.reduction == CallReduction::none) {  // ScaleRows does the rest
      for (std::uint32_t i = begin; i < rows(); i += stride)
        if (joins(i, call.place[i])) keep_label<P, kPack>(call, group, i, call.label[i]);
      t.sync();
      return add_slots(t, parts);
    }
    for (std::uint64_t first = 0; first < d; first += 32 * kHalf) {
      float sums[2 * kHalf] = {};
      for (std::uint32_t i = begin; i < rows(); i += kRowsAtOnce * stride)
        add_some<kPack, kPacks>(group, i, stride, first, sums);
      t.sync();
      if (first == 0) {
        add_slots(t, parts);
        t.sync();
      }
      put_down<2 * kHalf>(t, parts, sums);
      t.sync();
      pick_up<2 * kHalf, kPack>(t, parts, [&](std::uint32_t at, const float* sum) {
        const std::uint64_t c = first + at % (32 * kHalf);
        if (c < d) add_numbers<kPack == 1 ? 1 : 4>(call.row_sums + at / (32 * kHalf) * d + c, sum);
      });
    }
  }
  static constexpr int kRowsAtOnce = 2;

  TRUEMAX_KERNEL bool joins(std::uint32_t i, std::int32_t place) const {
    return has_own_slot(call, place) && static_cast<std::uint64_t>(place) != call.slots + i;
  }

  template <int kPack, int kPacks>
  TRUEMAX_KERNEL void add_some(const Group<32>& group, std::uint32_t i, std::uint32_t stride,
                               std::uint64_t first, float* sums) const {
    const std::uint64_t d = call.features;
    const float of_row = 1 / static_cast<float>(call.rows);
    const auto column = [&](int h) {
      return first + static_cast<std::uint64_t>((h * 32 + group.lane()) * kPack);
    };
    Pack<P, kPack> x[kRowsAtOnce][kPacks];
    std::int32_t place[kRowsAtOnce];
    float sum_p[kRowsAtOnce];
    TRUEMAX_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const std::uint32_t row = i + static_cast<std::uint32_t>(r) * stride;
      place[r] = -1;
      if (row >= rows()) continue;
      TRUEMAX_UNROLL
      for (int h = 0; h < kPacks; ++h)
        if (column(h) < d)
          x[r][h] = load_pack<P, kPack>(static_cast<const P*>(call.x_copy) + row * d + column(h));
      place[r] = call.place[row], sum_p[r] = call.sum_p[row];
    }
    TRUEMAX_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (place[r] < 0) continue;
      const std::uint32_t row = i + static_cast<std::uint32_t>(r) * stride;
      const bool gives = joins(row, place[r]);
      const float of_label = has_own_slot(call, place[r]) && !gives ? of_row * sum_p[r] : 0;
      const std::uint64_t owner = gives ? static_cast<std::uint64_t>(place[r]) - call.slots : 0;
      TRUEMAX_UNROLL
      for (int h = 0; h < kPacks; ++h) {
        if (column(h) >= d) continue;
        float of_x[kPack];
        widen(x[r][h], of_x);
        TRUEMAX_UNROLL
        for (int e = 0; e < kPack; ++e) {
          sums[h * kPack + e] += of_row * of_x[e];
          const float g = of_label * of_x[e];
          sums[(kPacks + h) * kPack + e] += g * g;
          of_x[e] *= -sum_p[r];
        }
        if (gives) add_numbers<kPack>(call.label_gradient + owner * d + column(h), of_x);
      }
      if (!gives || first > 0) continue;
      if (group.lane() == 0) add(call.label_bias + owner, -sum_p[r]);
      keep_label<P, kPack>(call, group, row, call.label[row]);
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
  template <class GoOn>
  TRUEMAX_KERNEL double skip(const Group<32>& group, std::uint32_t i, const GoOn& go_on) const {
    P* const p = static_cast<P*>(call.p) + i * call.slots;
    for (std::uint32_t j = place(group, 0); j < slots(); j += 32 * kWide)
      store_pack<P, kWide>(p + j, Pack<P, kWide>{});
    if (group.lane() == 0) call.loss[i] = 0, call.sum_p[i] = 0, call.new_u[i] = 0, call.place[i] = -1;
    go_on();
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

  // Returns the loss of the row. go_on() reads the next one.
  template <class GoOn>
  TRUEMAX_KERNEL double take(const Group<32>& group, std::uint32_t i, const Row& row, const float* offset,
                             float* sums, const GoOn& go_on) const {
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
        if (place(group, h) < slots()) {
          const float* const from = offset + offset_place(place(group, h));
          shifted(row.scores[h], load_pack<float, 4>(from), load_pack<float, 4>(from + 128),
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
    if (slot >= call.slots && slot - call.slots != i && group.lane() == 0) {  // an earlier row has this label
      fetch_add(call.rows_of + (slot - call.slots), 1);
      if (packed != 0) prefetch_class(call, row.label);  // for keep_label
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
