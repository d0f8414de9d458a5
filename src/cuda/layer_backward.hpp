// Backward of a layer on the GPU: what layer/pass.cpp does in differentiate and move.
//
//   ScaleRows  only if rows differ in the gradient of their loss: p times that, relative to the largest
//   products   dx = p drawn_w;  gradient = p^T x_copy
//   AddLabels  the label's part of dx and of the gradients; sums over columns
//   Columns    sums over columns of the other gradients; its last block: direction, and how far columns move
//   Move       moments, W, b; u, the ring of labels and the counters
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
      const auto factor =
          static_cast<float>(top > 0 ? static_cast<double>(call.gradient_in[i]) / top : 0.0);
      if (factor == 1) continue;
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
    }
  }
};

// Sums of p over rows, where Estimate has not made them or ScaleRows has changed p. A thread has two columns.
template <class P>
struct SumColumns {
  LayerCall call;
  static constexpr std::uint64_t kRows = 256;  // of a block, with 32 columns per group of threads

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint64_t strips = (call.slots + t.threads() - 1) / t.threads();
    const std::uint64_t parts = (call.rows + kRows - 1) / kRows;
    for (std::uint64_t at = t.block(); at < strips * parts; at += t.blocks()) {
      const std::uint64_t j = at % strips * t.threads() + t.number(), first = at / strips * kRows;
      if (j >= call.slots) continue;
      float sum = 0;
      for (std::uint64_t i = first; i < smaller(first + kRows, call.rows); ++i)
        sum += wide(static_cast<const P*>(call.p)[i * call.slots + j]);
      if (sum != 0) add(call.column_p + j, sum);
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

// C: type of the copies; X: of dx. of_row threads take a row, kWide columns each, and a block of threads some
// rows of a strip of of_row * kWide columns.
template <class C, class X, int kWide>
struct AddLabels {
  LayerCall call;
  std::uint32_t of_row;  // threads that take a row: a divisor of the threads of a block

  static std::size_t shared_bytes(std::uint32_t of_row) { return 2 * kWide * of_row * sizeof(float); }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint64_t width = std::uint64_t{kWide} * of_row;
    const std::uint64_t d = call.features, strips = (d + width - 1) / width;
    const std::uint64_t strip = t.block() % strips, of_strip = (t.blocks() - strip + strips - 1) / strips;
    const std::uint64_t groups = t.threads() / of_row, lane = t.number() % of_row;
    const std::uint64_t c = strip * width + lane * kWide;
    const CallFactors factors = factors_of(call);
    if (t.block() == 0 && t.number() == 0 && call.reduction != CallReduction::none &&
        !finite(*call.gradient_in))
      report(call, Fault::gradient, -1, 0, 0);
    float mean[kWide] = {}, square[kWide] = {};
    for (std::uint64_t i = t.block() / strips * groups + t.number() / of_row; i < call.rows;
         i += of_strip * groups)
      if (c < d) take(i, c, factors, strip == 0 && lane == 0, mean, square);
    auto* const means = reinterpret_cast<float*>(t.shared);
    auto* const squares = means + width;
    for (std::uint64_t j = t.number(); j < 2 * width; j += t.threads()) means[j] = 0;
    t.sync();
    if (factors.moves && c < d)
      for (int e = 0; e < kWide; ++e) {
        add(means + lane * kWide + e, mean[e]);
        add(squares + lane * kWide + e, square[e]);
      }
    t.sync();
    if (!factors.moves) return;
    for (std::uint64_t j = t.number(); j < width && strip * width + j < d; j += t.threads()) {
      add(call.column_sums + strip * width + j, means[j]);
      add(call.column_sums + d + strip * width + j, squares[j]);
    }
  }

 private:
  TRUEMAX_KERNEL void take(std::uint64_t i, std::uint64_t c, const CallFactors& factors, bool first,
                           float* mean, float* square) const {
    const std::uint64_t d = call.features;
    X* const dx = call.dx == nullptr ? nullptr : static_cast<X*>(call.dx) + i * d + c;
    const std::int32_t place = call.place[i];
    const float share = call.share[i];
    if (place < 0 || !factors.moves || share == 0) {
      if (dx != nullptr) store_pack<X, kWide>(dx, Pack<X, kWide>{});
      return;
    }
    const float of_label = call.sum_p[i];
    const auto x = load_pack<C, kWide>(static_cast<const C*>(call.x_copy) + i * d + c);
    if (dx != nullptr) {
      const auto w = load_pack<C, kWide>(static_cast<const C*>(call.label_w) + i * d + c);
      auto out = load_pack<X, kWide>(dx);
      const auto of_x = static_cast<float>(factors.of_x);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) out.number[e] = narrow<X>(kept(of_x * (out[e] - of_label * w[e])));
      store_pack<X, kWide>(dx, out);
    }
    const float weight = static_cast<float>(factors.of_w) * share, of_w = static_cast<float>(factors.of_w);
    const auto slot = static_cast<std::uint64_t>(place);
    const bool single = slot == call.slots + i && call.rows_of[i] == 1;
    float* const to = slot < call.slots ? call.gradient + slot * d + c
                                        : call.label_gradient + (slot - call.slots) * d + c;
    TRUEMAX_UNROLL
    for (int e = 0; e < kWide; ++e) {
      mean[e] += (weight < 0 ? -weight : weight) * x[e];
      const float g = -of_label * x[e];
      if (single)
        square[e] += (of_w * g) * (of_w * g);
      else
        add(to + e, g);
    }
    if (!first || single || call.bias == nullptr) return;
    add(slot < call.slots ? call.column_p + slot : call.label_bias + (slot - call.slots), -of_label);
  }

  // Inside float32.
  TRUEMAX_KERNEL static float kept(float x) { return clamped(x, -3.0e38F, 3.0e38F); }
};

// A thread has a column; blocks go through the drawn classes and the labels that several rows have.
struct Columns {
  LayerCall call;
  static constexpr std::uint64_t kSlots = 64;  // of a block at a time

  static std::size_t shared_bytes(std::uint32_t threads) { return (threads + 2) * sizeof(double); }

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const CallFactors factors = factors_of(call);
    if (!factors.moves) return;
    if (t.block() == 0) {
      if (call.recent_size > 0) number_labels(t);
    } else {
      square(t, static_cast<float>(factors.of_w));
    }
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
  TRUEMAX_KERNEL void square(const Thread& t, float of_w) const {
    const std::uint64_t d = call.features, strips = (d + t.threads() - 1) / t.threads();
    const std::uint64_t parts = (call.slots + call.rows + kSlots - 1) / kSlots;
    for (std::uint64_t at = t.block() - 1; at < strips * parts; at += t.blocks() - 1) {
      const std::uint64_t c = at % strips * t.threads() + t.number(), first = at / strips * kSlots;
      if (c >= d) continue;
      float sum = 0;
      for (std::uint64_t j = first; j < smaller(first + kSlots, call.slots + call.rows); ++j) {
        const float* from = nullptr;
        if (j < call.slots) {
          if (call.drawn_class[j] >= 0) from = call.gradient + j * d;
        } else if (call.rows_of[j - call.slots] > 1) {
          from = call.label_gradient + (j - call.slots) * d;
        }
        if (from == nullptr) continue;
        const float g = of_w * from[c];
        sum += g * g;
      }
      if (sum != 0) add(call.column_sums + d + c, sum);
    }
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
    std::int32_t before = 0, all = 0;
    for (std::uint32_t other = 0; other < t.threads(); ++other) {
      before += other < t.number() ? counts[other] : 0;
      all += counts[other];
    }
    for (std::uint64_t i = first; i < end; ++i)
      call.rank[i] = call.share[i] != 0 ? before++ : -1;
    if (t.number() == 0) call.scalars->active = all;
    t.sync();
  }

  TRUEMAX_KERNEL static double total(const Thread& t, double mine) {
    auto* const sums = reinterpret_cast<double*>(t.shared);
    t.sync();
    sums[t.number()] = mine;
    t.sync();
    for (std::uint32_t half = t.threads() / 2; half > 0; half /= 2) {
      if (t.number() < half) sums[t.number()] += sums[t.number() + half];
      t.sync();
    }
    return sums[0];
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
      square += static_cast<float>(1 - kLayerKeep) * (smaller(fresh(call.column_sums + d + c), kMostSquare) - square);
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
    call.scalars->weight =
        static_cast<float>(-expm1(static_cast<double>(call.counters[0] + 1) * kLogKeep));
  }
};

// W: type of the weights; C: of the copies. 32 threads take a class; kHeld packs in registers, or 0.
template <class W, class C, int kWide, int kHeld>
struct Move {
  LayerCall call;
  std::uint32_t class_blocks;  // the others take rows
  static constexpr int kRegisters = kHeld == 0 ? 1 : kHeld;

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const CallFactors factors = factors_of(call);
    if (!factors.moves) return;
    if (t.block() >= class_blocks) return finish_rows(t);
    const Group<32> group = t.template group<32>();
    const std::uint32_t warps = t.threads() / 32;
    for (std::uint64_t j = std::uint64_t{t.block()} * warps + t.number() / 32; j < call.slots + call.rows;
         j += std::uint64_t{class_blocks} * warps)
      take(group, j, static_cast<float>(factors.of_w));
  }

 private:
  // Where the gradient of a class is: factor * (wide or copied)[c].
  struct Source {
    const float* wide;
    const C* copied;
    float factor;
  };

  TRUEMAX_KERNEL static void read(const Source& from, std::uint64_t c, float* g) {
    if (from.copied != nullptr) {
      const auto pack = load_pack<C, kWide>(from.copied + c);
      for (int e = 0; e < kWide; ++e) g[e] = from.factor * pack[e];
    } else {
      const auto pack = load_pack<float, kWide>(from.wide + c);
      for (int e = 0; e < kWide; ++e) g[e] = from.factor * pack[e];
    }
  }

  TRUEMAX_KERNEL void take(const Group<32>& group, std::uint64_t j, float of_w) const {
    const std::uint64_t d = call.features;
    std::int32_t k = -1;
    Source from{nullptr, nullptr, of_w};
    float of_bias = 0;
    bool shared = false;
    if (j < call.slots) {
      k = call.drawn_class[j];
      from.wide = call.gradient + j * d;
      of_bias = call.column_p[j];
    } else if (const std::uint64_t i = j - call.slots; call.place[i] == static_cast<std::int32_t>(j)) {
      k = call.label[i];
      shared = call.rows_of[i] > 1;
      if (shared) {
        from.wide = call.label_gradient + i * d;
        of_bias = call.label_bias[i];
      } else {
        from.copied = static_cast<const C*>(call.x_copy) + i * d;
        from.factor = -of_w * call.sum_p[i];
        of_bias = -call.sum_p[i];
      }
    }
    if (k < 0) return;
    W* const w = class_row<W>(call, k);
    const std::uint64_t lane = static_cast<std::uint64_t>(group.lane());
    float g[kRegisters * kWide];
    Pack<W, kWide> old[kRegisters];
    ClassMoments m = call.moments[k];
    float bias = call.bias == nullptr ? 0 : call.bias[k];
    float square = 0, along = 0;
    const auto add_pack = [&](const float* part, std::uint64_t c) {
      const auto direction = load_pack<float, kWide>(call.direction + c);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) square += part[e] * part[e], along += part[e] * direction[e];
    };
    if constexpr (kHeld > 0) {
      TRUEMAX_UNROLL
      for (int h = 0; h < kHeld; ++h)
        if (const std::uint64_t c = (static_cast<std::uint64_t>(h) * 32 + lane) * kWide; c < d) {
          read(from, c, g + h * kWide);
          old[h] = load_pack<W, kWide>(w + c);
        }
      TRUEMAX_UNROLL
      for (int h = 0; h < kHeld; ++h)
        if (const std::uint64_t c = (static_cast<std::uint64_t>(h) * 32 + lane) * kWide; c < d)
          add_pack(g + h * kWide, c);
    } else {
      for (std::uint64_t c = lane * kWide; c < d; c += std::uint64_t{32} * kWide) {
        read(from, c, g);
        add_pack(g, c);
      }
    }
    square = group.sum(square);
    along = group.sum(along);
    const Step step = follow(m, square, along, of_w * of_bias, bias);
    const auto write = [&](const float* part, Pack<W, kWide> pack, std::uint64_t c) {
      const auto direction = load_pack<float, kWide>(call.direction + c);
      const auto of_column = load_pack<float, kWide>(call.direction + d + c);
      const Bits bits = random_bits(k, c);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e)
        pack.number[e] = narrow_at_random<W>(
            pack[e] + step.of_weight * of_column[e] * (part[e] + step.smoothed * direction[e]), bits.at(e));
      store_pack<W, kWide>(w + c, pack);
    };
    if constexpr (kHeld > 0) {
      TRUEMAX_UNROLL
      for (int h = 0; h < kHeld; ++h)
        if (const std::uint64_t c = (static_cast<std::uint64_t>(h) * 32 + lane) * kWide; c < d)
          write(g + h * kWide, old[h], c);
    } else {
      for (std::uint64_t c = lane * kWide; c < d; c += std::uint64_t{32} * kWide) {
        read(from, c, g);
        write(g, load_pack<W, kWide>(w + c), c);
      }
    }
    if (shared) {  // for the next call
      group.sync();
      for (std::uint64_t c = lane; c < d; c += 32) call.label_gradient[(j - call.slots) * d + c] = 0;
    }
    if (lane != 0) return;
    if (shared) call.label_bias[j - call.slots] = 0;
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
    constexpr double kLogSmooth = -0.10536051565782628;
    const std::int64_t steps = call.scalars->steps + 1, now = steps % kTurn;
    const auto rate = static_cast<float>(*call.step);
    const float weight = call.scalars->weight;
    const std::int64_t last =
        m.last >= 0 && m.last < static_cast<float>(kTurn) ? static_cast<std::int64_t>(m.last) : 0;
    const auto gap = static_cast<double>((now - last + kTurn) % kTurn);
    const auto keep = static_cast<float>(gap == 1 ? kLayerKeep : exp(gap * kLogKeep)),
               smooth = static_cast<float>(gap == 1 ? kLayerSmooth : exp(gap * kLogSmooth));
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
      const auto r = r123::Philox4x32()(
          {{static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(c),
            static_cast<std::uint32_t>(call.scalars->steps), static_cast<std::uint32_t>(call.scalars->steps >> 32)}},
          {{static_cast<std::uint32_t>(call.counters[2]), static_cast<std::uint32_t>(call.counters[2] >> 32)}});
      return {r[0] | (std::uint64_t{r[1]} << 32), r[2] | (std::uint64_t{r[3]} << 32)};
    }
  }

  TRUEMAX_KERNEL void finish_rows(const Thread& t) const {
    const std::uint64_t stride = std::uint64_t{t.blocks() - class_blocks} * t.threads();
    const std::uint64_t first = std::uint64_t{t.block() - class_blocks} * t.threads() + t.number();
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

}  // namespace truemax::cuda
