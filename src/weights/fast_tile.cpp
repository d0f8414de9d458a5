// Sizeless vectors (SVE, RVV) cannot be stored in arrays; those machines use NEON or the scalar path here.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/fast_tile.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "weights/exp_vector.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "weights/fast_tile.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FastTag = hn::CappedTag<float, kLanes>;
using FastV = hn::Vec<FastTag>;
constexpr std::size_t kFastWidth = hn::MaxLanes(FastTag());
constexpr std::size_t kFastVectors = kLanes / kFastWidth;

// Prefetches later rows: dense rows against one block are read at memory speed.
HWY_INLINE void prefetch_numbers(CsrView rows, std::size_t begin, std::size_t end) {
  constexpr std::size_t kAhead = 1024;
  for (std::size_t j = begin; j < end; j += kLanes) {
    __builtin_prefetch(rows.index + j + kAhead, 0, 3);
    __builtin_prefetch(rows.value + j + kAhead, 0, 3);
  }
}

// Scores of a row, [kBlocks * kLanes].
template <std::size_t kBlocks, bool kAbsolute>
HWY_INLINE void fast_scores(CsrView rows, std::size_t row, const float* HWY_RESTRICT block,
                            std::size_t stride, const FastStart& start, float* HWY_RESTRICT z,
                            float* HWY_RESTRICT absolute) {
  const FastTag d;
  constexpr std::size_t kVectors = kBlocks * kFastVectors;
  constexpr std::size_t kChains = fast_chains(kBlocks);
  const FeatureId* HWY_RESTRICT index = rows.index;
  const float* HWY_RESTRICT values = rows.value;
  const std::size_t begin = rows.begin[row], end = rows.begin[row + 1];
  if (kBlocks == 1) prefetch_numbers(rows, begin, end);
  FastV sum[kChains][kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    sum[0][v] = start.scaled ? hn::Zero(d) : hn::Load(d, start.intercept.data() + v * kFastWidth);
    for (std::size_t c = 1; c < kChains; ++c) sum[c][v] = hn::Zero(d);
  }
  const hn::CappedTag<float, kChains> few;  // |x|_1 of as many numbers at once
  auto size = hn::Zero(few);
  float size_left = 0;
  const auto add = [&](std::size_t j, std::size_t c) HWY_ATTR {
    const FastV value = hn::Set(d, values[j]);
    const float* line = block + std::size_t{index[j]} * kLanes;
    for (std::size_t v = 0; v < kVectors; ++v) {
      const float* at = line + v / kFastVectors * stride + v % kFastVectors * kFastWidth;
      sum[c][v] = hn::MulAdd(value, hn::Load(d, at), sum[c][v]);
    }
  };
  std::size_t j = begin;
  for (; j + kChains <= end; j += kChains) {
    if (kAbsolute)
      for (std::size_t c = 0; c < kChains; c += hn::MaxLanes(few))
        size = hn::Add(size, hn::Abs(hn::LoadU(few, values + j + c)));
    for (std::size_t c = 0; c < kChains; ++c) add(j + c, c);
  }
  for (; j < end; ++j) {
    if (kAbsolute) size_left += std::abs(values[j]);
    add(j, 0);
  }
  for (std::size_t step = kChains / 2; step > 0; step /= 2)
    for (std::size_t c = 0; c < step; ++c)
      for (std::size_t v = 0; v < kVectors; ++v) sum[c][v] = hn::Add(sum[c][v], sum[c + step][v]);
  if (start.scaled)
    for (std::size_t v = 0; v < kVectors; ++v)
      sum[0][v] = hn::MulAdd(hn::Load(d, start.scale.data() + v * kFastWidth), sum[0][v],
                             hn::Load(d, start.intercept.data() + v * kFastWidth));
  for (std::size_t v = 0; v < kVectors; ++v) hn::Store(sum[0][v], d, z + v * kFastWidth);
  if (kAbsolute) *absolute = hn::GetLane(hn::SumOfLanes(few, size)) + size_left;
}

// Adds the scores z of row r of a tile to its running sum, and the row to the hits if it is one.
template <std::size_t kBlocks>
HWY_INLINE void fast_sum(const float* HWY_RESTRICT z, std::size_t r, float& highest, double& sum,
                         float threshold, FastHits& hits) {
  const FastTag d;
  constexpr std::size_t kVectors = kBlocks * kFastVectors;
  FastV most = hn::Load(d, z);
  for (std::size_t v = 1; v < kVectors; ++v) most = hn::Max(most, hn::Load(d, z + v * kFastWidth));
  const FastV above = hn::Set(d, threshold);
  if (!hn::AllFalse(d, hn::Gt(most, above))) {
    const float top = hn::GetLane(hn::MaxOfLanes(d, most));
    if (top > highest) {
      if (sum > 0) sum *= std::exp(static_cast<double>(highest) - static_cast<double>(top));
      highest = top;
    }
    if (hits.row != nullptr) {
      std::uint64_t lanes = 0;
      for (std::size_t v = 0; v < kVectors; ++v) {
        std::uint8_t bits[8] = {};
        hn::StoreMaskBits(d, hn::Gt(hn::Load(d, z + v * kFastWidth), above), bits);
        std::uint64_t part = 0;
        std::memcpy(&part, bits, sizeof part);
        lanes |= part << (v * kFastWidth);
      }
      hits.lanes[hits.count] = lanes;
      hits.row[hits.count++] = static_cast<std::uint32_t>(r);
    }
  }
  const FastV base = hn::Set(d, highest);
  FastV total = exp_of_falling(d, hn::Sub(hn::Load(d, z), base));
  for (std::size_t v = 1; v < kVectors; ++v)
    total = hn::Add(total, exp_of_falling(d, hn::Sub(hn::Load(d, z + v * kFastWidth), base)));
  sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, total)));
}

// The exps of a row are computed between the loads of the next rows, so that loads are always under way. They
// lag two rows behind, because reading scores that were just written would stall.
template <std::size_t kBlocks, bool kAbsolute>
void fast_tile_of(CsrView rows, std::size_t first, std::size_t count, const float* block,
                  std::size_t features, const FastStart& start, float* z, float* absolute, float* highest,
                  double* sum, const float* threshold, FastHits& hits) {
  constexpr std::size_t kBehind = 2;
  const std::size_t stride = features * kLanes;
  for (std::size_t r = 0; r < count + kBehind; ++r) {
    if (r < count) {
      fast_scores<kBlocks, kAbsolute>(rows, first + r, block, stride, start, z + r * kBlocks * kLanes,
                                      absolute + r);
    }
    if (r >= kBehind) {
      const std::size_t at = r - kBehind;
      fast_sum<kBlocks>(z + at * kBlocks * kLanes, at, highest[at], sum[at], threshold[at], hits);
    }
  }
}

template <std::size_t kBlocks>
HWY_INLINE void fast_tile_of(CsrView rows, std::size_t first, std::size_t count, const float* block,
                             std::size_t features, const FastStart& start, float* z, float* absolute,
                             float* highest, double* sum, const float* threshold, FastHits& hits) {
  if (absolute != nullptr)
    fast_tile_of<kBlocks, true>(rows, first, count, block, features, start, z, absolute, highest, sum,
                                threshold, hits);
  else
    fast_tile_of<kBlocks, false>(rows, first, count, block, features, start, z, absolute, highest, sum,
                                 threshold, hits);
}

// Vector lanes are rows here: nothing is added or compared across a vector.
void fast_few_here(CsrView rows, std::size_t first, std::size_t count, const float* block,
                   std::size_t features, const FastStart& start, std::size_t classes, std::size_t top,
                   FastFew& few) {
  const FastTag d;
  const hn::RebindToSigned<FastTag> i;
  for (std::size_t r = 0; r < count; ++r)
    fast_scores<1, true>(rows, first + r, block, features * kLanes, start, &few.z[r * kLanes],
                         &few.absolute[r]);
  alignas(64) float by_class[kLanes * kFastFewRows];
  for (std::size_t r = 0; r < count; ++r)
    for (std::size_t k = 0; k < classes; ++k) by_class[k * kFastFewRows + r] = few.z[r * kLanes + k];
  for (std::size_t k = 0; k < classes; ++k)
    for (std::size_t r = count; r < kFastFewRows; ++r) by_class[k * kFastFewRows + r] = 0;

  const auto places = hn::Set(i, static_cast<std::int32_t>(kLanes - 1));
  const auto flip = hn::Set(i, 0x7fffffff);
  for (std::size_t r = 0; r < count; r += kFastWidth) {
    // Scores as integers in the same order; the last four bits hold the class.
    hn::Vec<decltype(i)> best[kFastFewTop + 1];
    for (auto& b : best) b = hn::Set(i, std::numeric_limits<std::int32_t>::min());
    FastV most = hn::Load(d, by_class + r);
    for (std::size_t k = 0; k < classes; ++k) {
      const FastV z = hn::Load(d, by_class + k * kFastFewRows + r);
      most = hn::Max(most, z);
      const auto bits = hn::BitCast(i, z);
      auto key = hn::Xor(bits, hn::And(hn::ShiftRight<31>(bits), flip));
      key = hn::Or(hn::AndNot(places, key), hn::Set(i, static_cast<std::int32_t>(kLanes - 1 - k)));
      for (auto& b : best) {
        const auto higher = hn::Max(b, key);
        key = hn::Min(b, key);
        b = higher;
      }
    }
    FastV even = hn::Zero(d), odd = hn::Zero(d);
    for (std::size_t k = 0; k < classes; k += 2) {
      even = hn::Add(even, exp_of_falling(d, hn::Sub(hn::Load(d, by_class + k * kFastFewRows + r), most)));
      if (k + 1 == classes) break;
      odd =
          hn::Add(odd, exp_of_falling(d, hn::Sub(hn::Load(d, by_class + (k + 1) * kFastFewRows + r), most)));
    }
    hn::Store(hn::Add(even, odd), d, few.sum.data() + r);
    const auto score_of = [&](const auto& key) HWY_ATTR {
      const auto cut = hn::AndNot(places, key);
      return hn::BitCast(d, hn::Xor(cut, hn::And(hn::ShiftRight<31>(cut), flip)));
    };
    FastV gap = hn::Set(d, std::numeric_limits<float>::max());
    for (std::size_t t = 0; t < kFastFewTop; ++t) {
      hn::Store(hn::Sub(places, hn::And(best[t], places)), i, &few.best[t * kFastFewRows + r]);
      if (t < top && t + 1 < classes) gap = hn::Min(gap, hn::Sub(score_of(best[t]), score_of(best[t + 1])));
    }
    hn::Store(gap, d, few.gap.data() + r);
  }
}

void fast_tile_here(CsrView rows, std::size_t first, std::size_t count, const float* block,
                    std::size_t blocks, std::size_t features, const FastStart& start, float* z,
                    float* absolute, float* highest, double* sum, const float* threshold, FastHits& hits) {
  if (blocks == kFastBlocks)
    fast_tile_of<kFastBlocks>(rows, first, count, block, features, start, z, absolute, highest, sum,
                              threshold, hits);
  else if (blocks == 2)
    fast_tile_of<2>(rows, first, count, block, features, start, z, absolute, highest, sum, threshold, hits);
  else
    fast_tile_of<1>(rows, first, count, block, features, start, z, absolute, highest, sum, threshold, hits);
}

// The place of a lane is the number of lanes with a higher score, without branches on the scores. Equal
// scores share a place; then the sum of 2^place is not all ones.
void order_lanes_here(const float* HWY_RESTRICT score, std::size_t real, std::uint8_t* HWY_RESTRICT lanes) {
  const FastTag d;
  const hn::RebindToSigned<FastTag> i;
  alignas(64) std::int32_t place[kLanes];
  auto bits = hn::Zero(i);
  for (std::size_t v = 0; v < kFastVectors; ++v) {
    const auto mine = hn::LoadU(d, score + v * kFastWidth);
    auto even = hn::Zero(i), odd = hn::Zero(i);
    for (std::size_t other = 0; other < kLanes; other += 2) {
      const auto higher = hn::Gt(hn::Set(d, score[other]), mine);
      const auto next = hn::Gt(hn::Set(d, score[other + 1]), mine);
      even = hn::Sub(even, hn::VecFromMask(i, hn::RebindMask(i, higher)));
      odd = hn::Sub(odd, hn::VecFromMask(i, hn::RebindMask(i, next)));
    }
    const auto before = hn::Add(even, odd);
    hn::Store(before, i, place + v * kFastWidth);
    const auto counts = hn::Lt(hn::Iota(i, static_cast<std::int32_t>(v * kFastWidth)),
                               hn::Set(i, static_cast<std::int32_t>(real)));
    bits = hn::Add(bits, hn::IfThenElseZero(counts, hn::Shl(hn::Set(i, 1), before)));
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[place[lane]] = static_cast<std::uint8_t>(lane);
  if (HWY_LIKELY(hn::GetLane(hn::SumOfLanes(i, bits)) == (1 << real) - 1)) return;
  for (std::size_t lane = 0; lane < real; ++lane) lanes[lane] = static_cast<std::uint8_t>(lane);
  for (std::size_t k = 1; k < real; ++k)
    for (std::size_t at = k; at > 0 && score[lanes[at - 1]] < score[lanes[at]]; --at)
      std::swap(lanes[at - 1], lanes[at]);
}

float largest_absolute_here(const float* HWY_RESTRICT numbers, std::size_t count) {
  const FastTag d;
  const hn::RebindToUnsigned<FastTag> u;
  // As unsigned integers, absolute floats keep their order, with infinities and NaN at the end.
  const auto sign = hn::Set(u, 0x80000000U);
  auto most = hn::Zero(u), most2 = hn::Zero(u);
  std::size_t i = 0;
  for (; i + 2 * kFastWidth <= count; i += 2 * kFastWidth) {
    most = hn::Max(most, hn::AndNot(sign, hn::BitCast(u, hn::LoadU(d, numbers + i))));
    most2 = hn::Max(most2, hn::AndNot(sign, hn::BitCast(u, hn::LoadU(d, numbers + i + kFastWidth))));
  }
  alignas(64) float lanes[kFastWidth];
  hn::Store(hn::BitCast(d, hn::Max(most, most2)), d, lanes);
  float out = 0;
  const auto look = [&](float v) {
    if (!(std::abs(v) <= std::numeric_limits<float>::max())) v = std::numeric_limits<float>::infinity();
    if (std::abs(v) > out) out = std::abs(v);
  };
  for (const float v : lanes) look(v);
  for (; i < count; ++i) look(numbers[i]);
  return out;
}

void fast_exp_here(const float* HWY_RESTRICT x, std::size_t count, float* HWY_RESTRICT out) {
  const FastTag d;
  alignas(64) float in[kFastWidth], result[kFastWidth];
  for (std::size_t i = 0; i < count; i += kFastWidth) {
    for (std::size_t k = 0; k < kFastWidth; ++k) in[k] = i + k < count ? x[i + k] : 0.0F;
    hn::Store(exp_of_falling(FastTag(), hn::Load(d, in)), d, result);
    for (std::size_t k = 0; k < kFastWidth && i + k < count; ++k) out[i + k] = result[k];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(fast_tile_here);
HWY_EXPORT(fast_few_here);
HWY_EXPORT(order_lanes_here);
HWY_EXPORT(largest_absolute_here);
HWY_EXPORT(fast_exp_here);

FastStart::FastStart(const Weights& w, std::size_t first_block, std::size_t blocks) : scaled(w.scaled()) {
  for (std::size_t i = 0; i < blocks * kLanes; ++i) {
    const std::size_t k = first_block * kLanes + i;
    const bool real = k < w.classes();
    intercept[i] = !real               ? -std::numeric_limits<float>::infinity()
                   : w.has_intercept() ? w.intercept()[k]
                                       : 0.0F;
    scale[i] = real ? static_cast<float>(w.scale(static_cast<ClassId>(k))) : 1.0F;
  }
}

void fast_tile(CsrView rows, std::size_t first, std::size_t count, const float* block, std::size_t blocks,
               std::size_t features, const FastStart& start, float* z, float* absolute, float* highest,
               double* sum, const float* threshold, FastHits& hits) {
  HWY_DYNAMIC_DISPATCH(fast_tile_here)
  (rows, first, count, block, blocks, features, start, z, absolute, highest, sum, threshold, hits);
}

void fast_few(CsrView rows, std::size_t first, std::size_t count, const float* block, std::size_t features,
              const FastStart& start, std::size_t classes, std::size_t top, FastFew& few) {
  HWY_DYNAMIC_DISPATCH(fast_few_here)(rows, first, count, block, features, start, classes, top, few);
}

void order_lanes(const float* score, std::size_t real, std::uint8_t* lanes) {
  HWY_DYNAMIC_DISPATCH(order_lanes_here)(score, real, lanes);
}

float largest_absolute(const float* numbers, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(largest_absolute_here)(numbers, count);
}

void fast_exp(const float* x, std::size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(fast_exp_here)(x, count, out);
}

}  // namespace truemax
#endif  // HWY_ONCE
