// What is known of each row once the scores of the drawn classes are: u, the loss, the sum of p, and what
// rows give to the row that has their label's slot. Of Estimate (cuda/layer_estimate.hpp) and of the kernel
// that computes the scores itself (cuda/layer_scores.cu).
#pragma once

#include "cuda/layer_parts.hpp"

namespace truemax::cuda {

struct EstimatedRow {
  std::int32_t label;  // -1: the row does not count
  std::uint32_t slot;
  float score, base;  // of the label; what u keeps
  float u, sum_p;

  TRUEMAX_KERNEL EstimatedRow of(const Group<32>& group, int lane) const {
    return {group.from(label, lane),
            group.from(slot, lane),
            group.from(score, lane),
            group.from(base, lane),
            0,
            0};
  }
};

struct RowScale {
  float u, factor;
};

// P: type of p and of the copies. kPacked: rows of the copies and of W always begin at multiples of eight
// numbers.
template <class P, bool kPacked = false>
struct EstimatedRows {
  LayerCall call;
  float shift;           // log(rho / (1 + rho))
  std::uint32_t packed;  // they do here

  // By one more block. With factors that may be 0, NumberLabels does.
  TRUEMAX_HOST_DEVICE static bool numbers_labels(const LayerCall& call) {
    return call.recent_size > 0 && call.reduction != CallReduction::none;
  }
  TRUEMAX_KERNEL void number(const Thread& t) const {
    number_labels(call, t, [this](std::uint64_t i) { return call.label[i] >= 0; });
  }
  TRUEMAX_KERNEL std::uint32_t slots() const { return static_cast<std::uint32_t>(call.slots); }
  TRUEMAX_KERNEL std::uint32_t rows() const { return static_cast<std::uint32_t>(call.rows); }

  TRUEMAX_KERNEL EstimatedRow state_of(std::uint32_t i) const {
    EstimatedRow row{-1, 0, 0, -1, 0, 0};
    if (i >= rows()) return row;
    row.label = call.label[i];
    if (row.label < 0) return row;
    row.slot = slot_in(call.slot_of[row.label]);
    row.score = call.label_score[i];
    row.base = call.base[i];
    return row;
  }

  // The label has the slot of an earlier row.
  TRUEMAX_KERNEL bool gives(std::uint32_t i, const EstimatedRow& row) const {
    return row.label >= 0 && row.slot >= slots() && row.slot - slots() != i;
  }
  // Of a row that gives: its label's weights, before steps change them.
  TRUEMAX_KERNEL void keep(const Group<32>& group, std::uint32_t i, std::int32_t label) const {
    if (kPacked || packed != 0)
      keep_label<P, 8>(call, group, i, label);
    else
      keep_label<P, 1>(call, group, i, label);
  }
  // And what it gives, once the sum of p is there.
  TRUEMAX_KERNEL void join(const Group<32>& group, std::uint32_t i, std::uint32_t slot, float sum_p) const {
    if (call.reduction == CallReduction::none) return;  // ScaleRows does it, with factors
    if (kPacked || packed != 0)
      join_label<P, 8>(call, group, i, slot - slots(), sum_p);
    else
      join_label<P, 1>(call, group, i, slot - slots(), sum_p);
  }
  // What a thread has found of its row.
  TRUEMAX_KERNEL void put_row(std::uint32_t i, const EstimatedRow& mine) const {
    const bool counts = mine.label >= 0;
    if (i < rows()) {
      call.loss[i] = mine.u, call.new_u[i] = mine.u, call.sum_p[i] = mine.sum_p;
      call.place[i] = counts ? static_cast<std::int32_t>(mine.slot) : -1;
      if (gives(i, mine)) {
        fetch_add(call.rows_of + (mine.slot - slots()), 1);
      } else if (counts) {  // for Move
        prefetch_one(call.moments + mine.label);
        if (call.bias != nullptr) prefetch_one(call.bias + mine.label);
      }
    }
  }
  // u after the mirror step (solve/mirror.hpp), softplus(log_sum) if nothing is kept; and exp(highest - u),
  // without the difference of two large numbers.
  TRUEMAX_KERNEL RowScale scale_of(float highest, float sum, float base) const {
    const bool forgets = base < 0;
    const float kept = forgets ? 0 : base;
    if (!(highest > kEmptySlot / 2)) return {kept, 0};
    const float part = (forgets ? 0 : shift) + logf(sum), t = highest + part;
    const float rest = log1pf(expf(t < 0 ? t : -t));
    const float u = kept + (larger(t, 0.0F) + rest);
    return {u, t > 0 ? expf(-(kept + part + rest)) : expf(highest - u)};
  }

  // By each of `parts` parts of the rows, with the sum of its losses and its rows that count. The last one
  // leaves the sums of all.
  TRUEMAX_KERNEL void add_losses(double loss, std::int32_t counted, std::uint32_t parts) const {
    if (loss != 0) add(&call.scalars->loss, loss);
    if (counted != 0) fetch_add(&call.scalars->counted, counted);
    fence();
    if (fetch_add(&call.scalars->scored, 1) + 1 == static_cast<std::int32_t>(parts)) finish();
  }

 private:
  TRUEMAX_KERNEL void finish() const {
    fence();
    const std::int32_t n = fresh(&call.scalars->counted);
    const double sum = fresh(&call.scalars->loss);
    *call.counted = n;
    *call.total_loss = static_cast<float>(call.reduction == CallReduction::mean ? sum / larger(n, 1) : sum);
    call.scalars->counted = 0, call.scalars->scored = 0, call.scalars->loss = 0;
    ++call.scalars->stamp;
  }
};

}  // namespace truemax::cuda
