#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/largest.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>

#include "weights/largest.hpp"
#include "weights/weights.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using LargestFloats = hn::CappedTag<float, kLanes>;
using LargestInts = hn::RebindToSigned<LargestFloats>;
constexpr std::size_t kLargestWidth = hn::MaxLanes(LargestFloats());

std::size_t count_at_least(const std::int32_t* keys, std::size_t n, std::int32_t least) {
  const LargestInts i;
  const auto bound = hn::Set(i, least);
  auto below = hn::Zero(i);
  std::size_t at = 0;
  for (; at + kLargestWidth <= n; at += kLargestWidth)
    below = hn::Sub(below, hn::VecFromMask(i, hn::Lt(hn::LoadU(i, keys + at), bound)));
  auto count = static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(i, below)));
  for (; at < n; ++at) count += keys[at] < least ? 1 : 0;
  return n - count;
}

// Of each `part` numbers, a multiple of the width.
void part_maxima(const float* HWY_RESTRICT z, std::size_t n, std::size_t part, float* HWY_RESTRICT out) {
  const LargestFloats d;
  for (std::size_t first = 0; first < n; first += part) {
    float most = -std::numeric_limits<float>::infinity();
    std::size_t at = first;
    if (first + part <= n) {
      auto here = hn::LoadU(d, z + at);
      for (at += kLargestWidth; at < first + part; at += kLargestWidth)
        here = hn::Max(here, hn::LoadU(d, z + at));
      most = hn::GetLane(hn::MaxOfLanes(d, here));
    }
    for (; at < std::min(n, first + part); ++at) most = std::max(most, z[at]);
    out[first / part] = most;
  }
}

void places_at_least(const float* HWY_RESTRICT z, std::size_t first, std::size_t end, float least,
                     std::vector<std::uint32_t>& out) {
  const LargestFloats d;
  const auto bound = hn::Set(d, least);
  std::size_t at = first;
  for (; at + kLargestWidth <= end; at += kLargestWidth) {
    const auto hit = hn::Ge(hn::LoadU(d, z + at), bound);
    if (HWY_LIKELY(hn::AllFalse(d, hit))) continue;
    std::uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hit, bits);
    std::uint32_t left = 0;
    std::memcpy(&left, bits, sizeof left);
    for (; left != 0; left &= left - 1)
      out.push_back(static_cast<std::uint32_t>(at + static_cast<std::size_t>(std::countr_zero(left))));
  }
  for (; at < end; ++at)
    if (z[at] >= least) out.push_back(static_cast<std::uint32_t>(at));
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(count_at_least);
HWY_EXPORT(part_maxima);
HWY_EXPORT(places_at_least);

namespace {

// As integers in the order of the numbers, by bisection.
float kth_by_bisection(const float* z, std::size_t n, std::size_t k) {
  thread_local std::vector<std::int32_t> memory;
  memory.resize(n);
  std::int32_t* const keys = memory.data();
  constexpr std::int32_t kFlip = 0x7fffffff;
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::int32_t>(z[i] + 0.0F);  // -0 as 0
    keys[i] = bits < 0 ? bits ^ kFlip : bits;
  }
  std::int64_t low = std::numeric_limits<std::int32_t>::min(),
               high = std::numeric_limits<std::int32_t>::max();
  while (low < high) {  // the largest bound that k numbers reach
    const std::int64_t middle = low + (high - low + 1) / 2;
    const std::size_t count =
        HWY_DYNAMIC_DISPATCH(count_at_least)(keys, n, static_cast<std::int32_t>(middle));
    if (count == k) {  // the smallest of these
      constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
      const auto bound = static_cast<std::int32_t>(middle);
      std::int32_t least = kMost;
      for (std::size_t i = 0; i < n; ++i) least = std::min(least, keys[i] >= bound ? keys[i] : kMost);
      low = high = least;
    } else if (count > k) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const auto key = static_cast<std::int32_t>(low);
  return std::bit_cast<float>(key < 0 ? key ^ kFlip : key);
}

void places_between(const float* z, std::size_t first, std::size_t end, float least,
                    std::vector<std::uint32_t>& out) {
  HWY_DYNAMIC_DISPATCH(places_at_least)(z, first, end, least, out);
}

}  // namespace

float places_of_largest(const float* z, std::size_t n, std::size_t k, std::vector<std::uint32_t>& out) {
  constexpr std::size_t kPart = 64;
  const std::size_t parts = (n + kPart - 1) / kPart;
  if (k > parts / 4) {
    const float kth = kth_by_bisection(z, n, k);
    places_between(z, 0, n, kth, out);
    return kth;
  }
  // k places have a number that is at least the k-th of these maxima; few others do.
  thread_local std::vector<float> maxima, found;
  thread_local std::vector<std::uint32_t> places;
  maxima.resize(parts), found.clear(), places.clear();
  HWY_DYNAMIC_DISPATCH(part_maxima)(z, n, kPart, maxima.data());
  const float least = kth_by_bisection(maxima.data(), parts, k);
  for (std::size_t part = 0; part < parts; ++part)
    if (maxima[part] >= least)
      places_between(z, part * kPart, std::min(n, (part + 1) * kPart), least, places);
  for (const std::uint32_t at : places) found.push_back(z[at]);
  const auto nth = found.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(found.begin(), nth, found.end(), std::greater<>());
  const float kth = *nth;
  for (const std::uint32_t at : places)
    if (z[at] >= kth) out.push_back(at);
  return kth;
}

}  // namespace truemax
#endif
