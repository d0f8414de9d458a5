// What the kernels of a layer have in common (cuda/layer_run.hpp).
#pragma once

#include "cuda/layer_call.hpp"
#include "cuda/numbers.hpp"
#include "solve/scalar_math.hpp"

namespace truemax::cuda {

inline constexpr double kLogKeep = -0.0010005003335835344;  // log of kLayerKeep
inline constexpr float kEmptySlot = -3.0e38F;               // offset of an empty slot

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

// use(c, numbers) for the kWide numbers from column c on of a row of D, widened, with several loads under
// way.
template <int kWide, class T, class Use>
TRUEMAX_KERNEL inline void each_pack(const Group<32>& group, const T* row, std::uint64_t d, const Use& use) {
  constexpr int kAtOnce = kWide == 1 ? 8 : 2;
  constexpr std::uint64_t kApart = std::uint64_t{32} * kWide;
  TRUEMAX_NO_UNROLL
  for (std::uint64_t first = static_cast<std::uint64_t>(group.lane()) * kWide; first < d;
       first += kApart * kAtOnce) {
    Pack<T, kWide> got[kAtOnce];
    TRUEMAX_UNROLL
    for (int r = 0; r < kAtOnce; ++r)
      if (const std::uint64_t c = first + static_cast<std::uint64_t>(r) * kApart; c < d)
        got[r] = load_pack<T, kWide>(row + c);
    TRUEMAX_UNROLL
    for (int r = 0; r < kAtOnce; ++r)
      if (const std::uint64_t c = first + static_cast<std::uint64_t>(r) * kApart; c < d) {
        float numbers[kWide];
        widen(got[r], numbers);
        use(c, numbers);
      }
  }
}

// The gradient of drawn class j from column c on, without the factor of_w: the sum of its parts.
template <int kWide>
TRUEMAX_KERNEL inline Pack<float, kWide> drawn_gradient(const LayerCall& call, std::uint32_t j,
                                                        std::uint32_t c) {
  Pack<float, kWide> g;
  const auto add_up = [&]<class T>(const T* from) {
    const auto first = load_pack<T, kWide>(from);
    TRUEMAX_UNROLL
    for (int e = 0; e < kWide; ++e) g.number[e] = first[e];
    for (std::uint64_t s = 1; s < call.splits; ++s) {
      const auto more = load_pack<T, kWide>(from + s * call.slots * call.features);
      TRUEMAX_UNROLL
      for (int e = 0; e < kWide; ++e) g.number[e] += more[e];
    }
  };
  const std::uint64_t at = j * call.features + c;
  if (call.gradient_type == NumberType::bfloat16)
    add_up(static_cast<const Bfloat16*>(call.gradient) + at);
  else
    add_up(static_cast<const float*>(call.gradient) + at);
  return g;
}

// Its weights, of which all begin at multiples of 16 bytes.
TRUEMAX_KERNEL inline void prefetch_class(const LayerCall& call, std::int32_t k) {
  const std::uint64_t bytes = call.weight_type == NumberType::bfloat16 ? 2 : 4;
  prefetch(static_cast<const char*>(call.weight) +
               static_cast<std::uint64_t>(k) * static_cast<std::uint64_t>(call.weight_stride) * bytes,
           static_cast<std::uint32_t>(call.features * bytes));
}

// The weights of a row's label, before steps change them.
template <class C, int kWide>
TRUEMAX_KERNEL inline void keep_label(const LayerCall& call, const Group<32>& group, std::uint64_t i,
                                      std::int32_t k) {
  C* const to = static_cast<C*>(call.label_w) + i * call.features;
  const auto copy = [&]<class W>(const W* from) {
    each_pack<kWide>(group, from, call.features, [&](std::uint64_t c, const float* w) {
      store_pack<C, kWide>(to + c, narrowed<C, kWide>(w));
    });
  };
  if (call.weight_type == NumberType::bfloat16)
    copy(class_row<const Bfloat16>(call, k));
  else
    copy(class_row<const float>(call, k));
}

// Adds the gradient of a label to that of the row which has its slot.
template <class C, int kWide>
TRUEMAX_KERNEL inline void join_label(const LayerCall& call, const Group<32>& group, std::uint64_t i,
                                      std::uint64_t owner, float sum_p) {
  if (sum_p == 0) return;
  const C* const x = static_cast<const C*>(call.x_copy) + i * call.features;
  float* const to = call.label_gradient + owner * call.features;
  each_pack<kWide>(group, x, call.features, [&](std::uint64_t c, float* of_x) {
    TRUEMAX_UNROLL
    for (int e = 0; e < kWide; ++e) of_x[e] *= -sum_p;
    add_numbers<kWide>(to + c, of_x);
  });
  if (group.lane() == 0) add(call.label_bias + owner, -sum_p);
}

// rank: the place of each row among those whose labels the ring takes, by one block of threads; returns how
// many they are.
inline constexpr std::size_t kOfNumbering = sizeof(std::int32_t);  // bytes of shared memory for a thread
template <class Takes>
TRUEMAX_KERNEL inline std::int32_t number_labels(const LayerCall& call, const Thread& t, const Takes& takes) {
  auto* const counts = reinterpret_cast<std::int32_t*>(t.shared);
  const std::uint64_t each = (call.rows + t.threads() - 1) / t.threads();
  const std::uint64_t first = smaller(t.number() * each, call.rows);
  const std::uint64_t end = smaller(first + each, call.rows);
  std::int32_t mine = 0;
  for (std::uint64_t i = first; i < end; ++i) mine += takes(i) ? 1 : 0;
  counts[t.number()] = mine;
  t.sync();
  for (std::uint32_t far = 1; far < t.threads(); far *= 2) {
    const std::int32_t other = t.number() >= far ? counts[t.number() - far] : 0;
    t.sync();
    counts[t.number()] += other;
    t.sync();
  }
  std::int32_t before = counts[t.number()] - mine;
  for (std::uint64_t i = first; i < end; ++i) call.rank[i] = takes(i) ? before++ : -1;
  return counts[t.threads() - 1];
}

}  // namespace truemax::cuda
