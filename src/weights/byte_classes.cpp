#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/byte_classes.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "weights/exp_vector.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "weights/byte_classes.hpp"
#include "weights/byte_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ByteFloats = hn::CappedTag<float, kLanes>;
using ByteInts = hn::RebindToSigned<ByteFloats>;
using ByteFloatV = hn::Vec<ByteFloats>;
using ByteIntV = hn::Vec<ByteInts>;
constexpr std::size_t kByteWidth = hn::MaxLanes(ByteFloats());
constexpr std::size_t kByteVectors = kLanes / kByteWidth;
constexpr std::size_t kLineBytes = kLanes * kByteGroup;

// sum + the products of 4 unsigned and 4 signed bytes in each 32 bits.
HWY_INLINE ByteIntV add_products(const std::uint8_t* HWY_RESTRICT codes, std::int32_t packed, ByteIntV sum) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  const ByteInts i;
  const hn::Repartition<std::int16_t, ByteInts> half;
  const hn::Repartition<std::uint16_t, ByteInts> unsigned_half;
  const auto line =
      hn::LoadU(unsigned_half, reinterpret_cast<const std::uint16_t*>(static_cast<const void*>(codes)));
  const auto q = hn::BitCast(half, hn::Set(i, packed));
  const auto even = hn::BitCast(half, hn::And(line, hn::Set(unsigned_half, 0xff)));
  const auto odd = hn::BitCast(half, hn::ShiftRight<8>(line));
  auto none = hn::Zero(i);
  sum = hn::ReorderWidenMulAccumulate(i, even, hn::ShiftRight<8>(hn::ShiftLeft<8>(q)), sum, none);
  return hn::ReorderWidenMulAccumulate(i, odd, hn::ShiftRight<8>(q), sum, none);
#else
  const ByteInts i;
  const auto line =
      hn::BitCast(i, hn::LoadU(hn::RebindToUnsigned<ByteInts>(),
                               reinterpret_cast<const std::uint32_t*>(static_cast<const void*>(codes))));
  const auto byte = hn::Set(i, 0xff);
  const auto at = [&](int b) { return hn::Set(i, static_cast<std::int8_t>(packed >> (8 * b))); };
  sum = hn::Add(sum, hn::Mul(hn::And(line, byte), at(0)));
  sum = hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<8>(line), byte), at(1)));
  sum = hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<16>(line), byte), at(2)));
  return hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<24>(line), byte), at(3)));
#endif
}

// scale_k scale (sum - 128 sum of q) + bias_k
HWY_INLINE ByteFloatV score_of_sums(ByteIntV sums, std::int32_t offset, float scale, const float* scales,
                                    const float* biases) {
  const ByteFloats d;
  const ByteInts i;
  const auto exact = hn::ConvertTo(d, hn::Sub(sums, hn::Set(i, offset)));
  return hn::Add(hn::Mul(exact, hn::Mul(hn::Set(d, scale), hn::LoadU(d, scales))), hn::LoadU(d, biases));
}

// kRows dense rows against one block.
template <std::size_t kRows>
HWY_INLINE void dense_scores(const ByteClasses& classes, std::size_t block, const ByteRows& x,
                             const std::uint32_t* rows, float* HWY_RESTRICT z) {
  const ByteFloats d;
  ByteIntV sum[kRows][kByteVectors];
  const std::int32_t* from[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    from[r] = x.packed.data() + x.begin[rows[r]];
    for (auto& s : sum[r]) s = hn::Zero(ByteInts());
  }
  const std::uint8_t* line = classes.block(block);
  for (std::size_t g = 0; g < x.groups; ++g, line += kLineBytes)
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t v = 0; v < kByteVectors; ++v)
        sum[r][v] = add_products(line + v * kByteWidth * kByteGroup, from[r][g], sum[r][v]);
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kByteVectors; ++v)
      hn::StoreU(score_of_sums(sum[r][v], x.sum[rows[r]], x.scale[rows[r]],
                               classes.scale(block) + v * kByteWidth, classes.bias(block) + v * kByteWidth),
                 d, z + r * kLanes + v * kByteWidth);
}

HWY_INLINE void sparse_scores(const ByteClasses& classes, std::size_t block, const ByteRows& x,
                              std::uint32_t row, float* HWY_RESTRICT z) {
  const ByteFloats d;
  constexpr std::size_t kChains = 2;
  ByteIntV sum[kChains][kByteVectors];
  for (auto& chain : sum)
    for (auto& s : chain) s = hn::Zero(ByteInts());
  const std::uint8_t* const lines = classes.block(block);
  const auto add = [&](std::uint64_t j, std::size_t c) HWY_ATTR {
    for (std::size_t v = 0; v < kByteVectors; ++v)
      sum[c][v] = add_products(lines + std::size_t{x.group[j]} * kLineBytes + v * kByteWidth * kByteGroup,
                               x.packed[j], sum[c][v]);
  };
  std::uint64_t j = x.begin[row];
  for (; j + kChains <= x.begin[row + 1]; j += kChains)
    for (std::size_t c = 0; c < kChains; ++c) add(j + c, c);
  for (; j < x.begin[row + 1]; ++j) add(j, 0);
  for (std::size_t v = 0; v < kByteVectors; ++v)
    hn::StoreU(score_of_sums(hn::Add(sum[0][v], sum[1][v]), x.sum[row], x.scale[row],
                             classes.scale(block) + v * kByteWidth, classes.bias(block) + v * kByteWidth),
               d, z + v * kByteWidth);
}

void vnni_scores(const ByteClasses& classes, std::size_t block, const ByteRows& x, const std::uint32_t* rows,
                 std::size_t count, float* z) {
  alignas(64) std::int32_t sums[kByteTile * kLanes];
  const std::int32_t* packed[kByteTile] = {};
  for (std::size_t r = 0; r < count; ++r) packed[r] = x.packed.data() + x.begin[rows[r]];
  if (x.dense)
    vnni_sums(classes.block(block), packed, count, nullptr, x.groups, sums);
  else
    for (std::size_t r = 0; r < count; ++r)
      vnni_sums(classes.block(block), packed + r, 1, x.group.data() + x.begin[rows[r]],
                x.begin[rows[r] + 1] - x.begin[rows[r]], sums + r * kLanes);
  for (std::size_t r = 0; r < count; ++r)
    for (std::size_t v = 0; v < kLanes; v += kByteWidth)
      hn::StoreU(score_of_sums(hn::Load(ByteInts(), sums + r * kLanes + v), x.sum[rows[r]], x.scale[rows[r]],
                               classes.scale(block) + v, classes.bias(block) + v),
                 ByteFloats(), z + r * kLanes + v);
}

void byte_scores_here(const ByteClasses& classes, std::size_t block, const ByteRows& x,
                      const std::uint32_t* rows, std::size_t count, float* z) {
  if (has_byte_products()) return vnni_scores(classes, block, x, rows, count, z);
  std::size_t r = 0;
  if (x.dense) {
    // 32 registers hold the sums of eight rows of 16 classes, 16 those of two.
    if (kByteVectors == 1)
      for (; r + 8 <= count; r += 8) dense_scores<8>(classes, block, x, rows + r, z + r * kLanes);
    if (kByteVectors <= 2)
      for (; r + 4 <= count; r += 4) dense_scores<4>(classes, block, x, rows + r, z + r * kLanes);
    for (; r + 2 <= count; r += 2) dense_scores<2>(classes, block, x, rows + r, z + r * kLanes);
    for (; r < count; ++r) dense_scores<1>(classes, block, x, rows + r, z + r * kLanes);
  } else {
    for (; r < count; ++r) sparse_scores(classes, block, x, rows[r], z + r * kLanes);
  }
}

// Dense rows with VNNI: pointers to the rows are found once for all blocks, and what belongs to a block is
// read once for all rows.
void vnni_promises(const ByteClasses& classes, const ByteRows& x, const std::uint32_t* rows,
                   std::size_t count, const CellSpread& spread, float* HWY_RESTRICT z,
                   float* HWY_RESTRICT promise) {
  const ByteFloats d;
  const ByteInts i;
  const std::size_t stride = classes.blocks() * kLanes;
  alignas(64) std::int32_t sums[kByteTile * kLanes];
  const std::int32_t* packed[kByteTile] = {};
  float square[kByteTile] = {};
  for (std::size_t r = 0; r < count; ++r) {
    packed[r] = x.packed.data() + x.begin[rows[r]];
    square[r] = static_cast<float>(x.squared[rows[r]]);
  }
  for (std::size_t b = 0; b < classes.blocks(); ++b) {
    vnni_sums(classes.block(b), packed, count, nullptr, x.groups, sums);
    for (std::size_t v = 0; v < kLanes; v += kByteWidth) {
      const std::size_t at = b * kLanes + v;
      const auto scales = hn::LoadU(d, classes.scale(b) + v), biases = hn::LoadU(d, classes.bias(b) + v);
      const auto of_x = hn::LoadU(d, spread.of_x + at), of_b = hn::LoadU(d, spread.of_b + at);
      for (std::size_t r = 0; r < count; ++r) {
        const auto exact =
            hn::ConvertTo(d, hn::Sub(hn::Load(i, sums + r * kLanes + v), hn::Set(i, x.sum[rows[r]])));
        const auto score = hn::Add(hn::Mul(exact, hn::Mul(hn::Set(d, x.scale[rows[r]]), scales)), biases);
        hn::StoreU(score, d, z + r * stride + at);
        const auto variance = hn::Add(hn::Mul(hn::Set(d, square[r]), of_x), of_b);
        hn::StoreU(hn::Add(score, hn::Sqrt(variance)), d, promise + r * stride + at);
      }
    }
  }
}

void byte_promises_here(const ByteClasses& classes, const ByteRows& x, const std::uint32_t* rows,
                        std::size_t count, const CellSpread& spread, float* z, float* promise) {
  if (has_byte_products() && x.dense) return vnni_promises(classes, x, rows, count, spread, z, promise);
  const ByteFloats d;
  const std::size_t stride = classes.blocks() * kLanes;
  alignas(64) float tile[kByteTile * kLanes];
  for (std::size_t b = 0; b < classes.blocks(); ++b) {
    byte_scores_here(classes, b, x, rows, count, tile);
    for (std::size_t r = 0; r < count; ++r) {
      const auto square = hn::Set(d, static_cast<float>(x.squared[rows[r]]));
      for (std::size_t v = 0; v < kLanes; v += kByteWidth) {
        const std::size_t at = b * kLanes + v;
        const auto score = hn::LoadU(d, tile + r * kLanes + v);
        const auto variance =
            hn::Add(hn::Mul(square, hn::LoadU(d, spread.of_x + at)), hn::LoadU(d, spread.of_b + at));
        hn::StoreU(score, d, z + r * stride + at);
        hn::StoreU(hn::Add(score, hn::Sqrt(variance)), d, promise + r * stride + at);
      }
    }
  }
}

HWY_INLINE ByteFloatV highest_of(const float* z) {
  const ByteFloats d;
  ByteFloatV most = hn::LoadU(d, z);
  for (std::size_t v = 1; v < kByteVectors; ++v) most = hn::Max(most, hn::LoadU(d, z + v * kByteWidth));
  return most;
}

HWY_INLINE double sum_of_exps(const float* z, float highest) {
  const ByteFloats d;
  const auto base = hn::Set(d, highest);
  ByteFloatV total = hn::Zero(d);
  for (std::size_t v = 0; v < kByteVectors; ++v)
    total = hn::Add(total, exp_of_falling(d, hn::Sub(hn::LoadU(d, z + v * kByteWidth), base)));
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, total)));
}

// Adds 16 scores of a row.
HWY_INLINE void add_scores(const float* z, std::size_t row, std::size_t block, ByteScan& scan) {
  const ByteFloats d;
  constexpr float kNegligible = 40;  // exp(-40) of a score beside the highest
  const auto most = highest_of(z);
  float& highest = scan.highest()[row];
  const auto least = hn::Set(d, scan.threshold()[row]);
  if (!hn::AllFalse(d, hn::Ge(most, least))) {
    const float top = hn::GetLane(hn::MaxOfLanes(d, most));
    if (top > highest) {
      double& sum = scan.sum()[row];
      if (sum > 0) sum *= std::exp(static_cast<double>(highest) - static_cast<double>(top));
      highest = top;
    }
    std::uint32_t hits = 0;
    for (std::size_t v = 0; v < kByteVectors; ++v) {
      std::uint8_t bits[8] = {};
      hn::StoreMaskBits(d, hn::Ge(hn::LoadU(d, z + v * kByteWidth), least), bits);
      std::uint32_t part = 0;
      std::memcpy(&part, bits, sizeof part);
      hits |= part << (v * kByteWidth);
    }
    scan.offer(row, block, hits, z);
  } else if (hn::AllFalse(d, hn::Gt(most, hn::Set(d, highest - kNegligible)))) {
    return;
  }
  scan.sum()[row] += sum_of_exps(z, highest);
}

void scan_blocks_here(const ByteClasses& classes, std::size_t first, std::size_t blocks, const ByteRows& x,
                      std::span<const std::uint32_t> rows, ByteScan& scan) {
  alignas(64) float z[kByteTile * kLanes];
  for (std::size_t r = 0; r < rows.size(); r += kByteTile) {
    const std::size_t count = std::min(kByteTile, rows.size() - r);
    for (std::size_t b = first; b < first + blocks; ++b) {
      byte_scores_here(classes, b, x, rows.data() + r, count, z);
      for (std::size_t i = 0; i < count; ++i) add_scores(z + i * kLanes, rows[r + i], b, scan);
    }
  }
}

BlockSum sum_of_block_here(const ByteClasses& classes, std::size_t block, const ByteRows& x,
                           std::uint32_t row) {
  alignas(64) float z[kLanes];
  byte_scores_here(classes, block, x, &row, 1, z);
  const float highest = hn::GetLane(hn::MaxOfLanes(ByteFloats(), highest_of(z)));
  return {highest, sum_of_exps(z, highest)};
}

void best_places_here(const ByteClasses& classes, const ByteRows& x, std::uint32_t* HWY_RESTRICT out) {
  const ByteFloats d;
  const ByteInts i;
  constexpr std::size_t kRows = 64;  // while a block is in the nearest cache
  alignas(64) float z[kByteTile * kLanes];
  std::vector<float> best(kRows * kLanes);
  std::vector<std::int32_t> where(kRows * kLanes);
  std::uint32_t rows[kRows];
  for (std::size_t first = 0; first < x.rows(); first += kRows) {
    const std::size_t count = std::min(kRows, x.rows() - first);
    for (std::size_t r = 0; r < count; ++r) rows[r] = static_cast<std::uint32_t>(first + r);
    std::fill(best.begin(), best.end(), -std::numeric_limits<float>::infinity());
    for (std::size_t b = 0; b < classes.blocks(); ++b) {
      const auto block = hn::Set(i, static_cast<std::int32_t>(b));
      for (std::size_t r = 0; r < count; r += kByteTile) {
        const std::size_t tile = std::min(kByteTile, count - r);
        byte_scores_here(classes, b, x, rows + r, tile, z);
        for (std::size_t at = 0; at < tile * kLanes; at += kByteWidth) {
          float* const most = best.data() + r * kLanes + at;
          std::int32_t* const place = where.data() + r * kLanes + at;
          const auto here = hn::LoadU(d, z + at), old = hn::LoadU(d, most);
          const auto higher = hn::Gt(here, old);
          hn::StoreU(hn::IfThenElse(higher, here, old), d, most);
          hn::StoreU(hn::IfThenElse(hn::RebindMask(i, higher), block, hn::LoadU(i, place)), i, place);
        }
      }
    }
    for (std::size_t r = 0; r < count; ++r) {
      float most = -std::numeric_limits<float>::infinity();
      std::uint32_t place = 0;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const auto at =
            static_cast<std::uint32_t>(static_cast<std::size_t>(where[r * kLanes + lane]) * kLanes + lane);
        const float here = best[r * kLanes + lane];
        if (here > most || (here == most && at < place)) most = here, place = at;
      }
      out[first + r] = place;
    }
  }
}

void cell_shares_here(const CellScores& s, float square, float least, float base, float* HWY_RESTRICT share,
                      double* HWY_RESTRICT parts) {
  const ByteFloats d;
  const auto factor = hn::Set(d, square), half = hn::Set(d, 0.5F), two = hn::Set(d, 2.0F);
  const auto per_unit = hn::Set(d, 12102203.0F),
             of_one = hn::Set(d, 1064986816.0F);  // 2^23/log 2, 2^23 126.96
  const auto from = hn::Set(d, base), bound = hn::Set(d, least), smallest = hn::Set(d, kLeastShare);
  for (std::size_t first = 0; first < s.cells; first += kSharePart) {
    const std::size_t end = std::min(s.cells, first + kSharePart);
    auto total = hn::Zero(d);
    double sum = 0;
    std::size_t c = first;
    for (; c + kByteWidth <= end; c += kByteWidth) {
      const auto z = hn::LoadU(d, s.z + c), promise = hn::LoadU(d, s.promise + c);
      const auto log_n = hn::LoadU(d, s.log_n + c);
      const auto v = hn::Add(hn::Mul(factor, hn::LoadU(d, s.of_x + c)), hn::LoadU(d, s.of_b + c));
      const auto normal = hn::Add(hn::Add(z, log_n), hn::Mul(v, half));
      const auto log_share = hn::IfThenElse(hn::Lt(v, hn::Mul(two, log_n)), normal, promise);
      // exp to 6%, from the bits of a number in base 2: draws are divided by their own probabilities. Below
      // -83 it is less than kLeastShare.
      const auto t = hn::Max(hn::Min(hn::Sub(log_share, from), hn::Zero(d)), hn::Set(d, -83.0F));
      const auto bits = hn::ConvertTo(ByteInts(), hn::MulAdd(t, per_unit, of_one));
      const auto e = hn::Max(hn::BitCast(d, bits), smallest);
      const auto left = hn::IfThenZeroElse(hn::Ge(promise, bound), e);
      hn::StoreU(left, d, share + c);
      total = hn::Add(total, left);
    }
    sum = static_cast<double>(hn::GetLane(hn::SumOfLanes(d, total)));
    for (; c < end; ++c) {
      const float v = square * s.of_x[c] + s.of_b[c];
      const float log_share = v < 2 * s.log_n[c] ? s.z[c] + s.log_n[c] + v / 2 : s.promise[c];
      share[c] =
          s.promise[c] >= least ? 0.0F : std::max(std::exp(std::min(log_share - base, 0.0F)), kLeastShare);
      sum += static_cast<double>(share[c]);
    }
    parts[first / kSharePart] = sum;
  }
}

std::size_t place_of_largest_here(const float* HWY_RESTRICT z, const float* HWY_RESTRICT less,
                                  std::size_t n) {
  const ByteFloats d;
  const ByteInts i;
  auto most = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto where = hn::Zero(i);
  std::size_t at = 0;
  for (; at + kByteWidth <= n; at += kByteWidth) {
    const auto here = hn::Sub(hn::LoadU(d, z + at), hn::LoadU(d, less + at));
    const auto higher = hn::Gt(here, most);
    most = hn::IfThenElse(higher, here, most);
    where = hn::IfThenElse(hn::RebindMask(i, higher), hn::Set(i, static_cast<std::int32_t>(at)), where);
  }
  alignas(64) float value[kByteWidth];
  alignas(64) std::int32_t first[kByteWidth];
  hn::Store(most, d, value);
  hn::Store(where, i, first);
  float best = -std::numeric_limits<float>::infinity();
  std::size_t place = 0;
  for (std::size_t lane = 0; lane < kByteWidth && at > 0; ++lane) {
    const std::size_t here = static_cast<std::size_t>(first[lane]) + lane;
    if (value[lane] > best || (value[lane] == best && here < place)) best = value[lane], place = here;
  }
  for (; at < n; ++at)
    if (z[at] - less[at] > best) best = z[at] - less[at], place = at;
  return place;
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace truemax {

HWY_EXPORT(byte_scores_here);
HWY_EXPORT(byte_promises_here);
HWY_EXPORT(scan_blocks_here);
HWY_EXPORT(sum_of_block_here);
HWY_EXPORT(place_of_largest_here);
HWY_EXPORT(cell_shares_here);
HWY_EXPORT(best_places_here);

ByteClasses::ByteClasses(std::size_t blocks, std::size_t features)
    : blocks_(blocks), features_(features), groups_((features + kByteGroup - 1) / kByteGroup) {
  constexpr std::uint8_t kZero = 128;
  codes_.assign(blocks * groups_ * kLanes * kByteGroup, kZero);
  scale_.assign(blocks * kLanes, 0.0F);
  bias_.assign(blocks * kLanes, kPaddingScore);
}

namespace {

// The scale of numbers whose largest is this: a normal number, so that dividing by it is safe.
float byte_scale(float largest) {
  constexpr float kMost = 127;
  return std::max(largest / kMost, std::numeric_limits<float>::min());
}

std::int32_t byte_of(float value, float scale) {
  const double q = std::nearbyint(static_cast<double>(value) / static_cast<double>(scale));
  return static_cast<std::int32_t>(std::clamp(q, -127.0, 127.0));
}

std::int32_t with_byte(std::int32_t packed, std::size_t at, std::int32_t byte) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(packed) |
                                   (static_cast<std::uint32_t>(byte) & 0xffU) << (8 * at));
}

}  // namespace

void ByteClasses::set(std::size_t at, std::span<const float> w, float bias) {
  float largest = 0;
  for (const float v : w) largest = std::max(largest, std::abs(v));
  bias_[at] = bias;
  if (largest == 0) return;
  const float scale = scale_[at] = byte_scale(largest);
  std::uint8_t* const to =
      codes_.data() + at / kLanes * groups_ * kLanes * kByteGroup + at % kLanes * kByteGroup;
  for (std::size_t f = 0; f < w.size(); ++f)
    to[f / kByteGroup * kLanes * kByteGroup + f % kByteGroup] =
        static_cast<std::uint8_t>(byte_of(w[f], scale) + 128);
}

ByteRows::ByteRows(CsrView rows_of, std::size_t features)
    : groups((features + kByteGroup - 1) / kByteGroup), begin{0} {
  const std::size_t count = rows_of.rows();
  for (std::size_t r = 0; r < count; ++r) dense = dense && 2 * rows_of.row(r).index.size() >= features;
  scale.reserve(count), sum.reserve(count), squared.reserve(count), begin.reserve(count + 1);
  for (std::size_t r = 0; r < count; ++r) {
    const RowView x = rows_of.row(r);
    float largest = 0;
    double square = 0;
    for (const float v : x.value) {
      largest = std::max(largest, std::abs(v));
      square += static_cast<double>(v) * static_cast<double>(v);
    }
    const float step = largest > 0 ? byte_scale(largest) : 0.0F;
    std::int64_t total = 0;
    if (dense) packed.resize(packed.size() + groups);
    for (std::size_t j = 0; j < x.index.size(); ++j) {
      const std::size_t g = x.index[j] / kByteGroup;
      if (!dense && (packed.size() == begin.back() || group.back() != g)) {
        group.push_back(static_cast<std::uint32_t>(g));
        packed.push_back(0);
      }
      std::int32_t& four = dense ? packed[begin.back() + g] : packed.back();
      const std::int32_t byte = byte_of(x.value[j], step);
      four = with_byte(four, x.index[j] % kByteGroup, byte);
      total += byte;
    }
    begin.push_back(packed.size());
    scale.push_back(step);
    sum.push_back(static_cast<std::int32_t>(128 * total));
    squared.push_back(square);
  }
}

double error_of_bytes(double squared_x, double scale_x, double squared_w, double scale_w) {
  constexpr double kUniform = 1.0 / 12;  // the variance of a rounding
  return std::sqrt(kUniform * (squared_x * scale_w * scale_w + squared_w * scale_x * scale_x));
}

void byte_scores(const ByteClasses& classes, std::size_t block, const ByteRows& x, const std::uint32_t* rows,
                 std::size_t count, float* z) {
  HWY_DYNAMIC_DISPATCH(byte_scores_here)(classes, block, x, rows, count, z);
}

void byte_promises(const ByteClasses& classes, const ByteRows& x, const std::uint32_t* rows,
                   std::size_t count, const CellSpread& spread, float* z, float* promise) {
  HWY_DYNAMIC_DISPATCH(byte_promises_here)(classes, x, rows, count, spread, z, promise);
}

void scan_blocks(const ByteClasses& classes, std::size_t first, std::size_t blocks, const ByteRows& x,
                 std::span<const std::uint32_t> rows, ByteScan& scan) {
  HWY_DYNAMIC_DISPATCH(scan_blocks_here)(classes, first, blocks, x, rows, scan);
}

BlockSum sum_of_block(const ByteClasses& classes, std::size_t block, const ByteRows& x, std::uint32_t row) {
  return HWY_DYNAMIC_DISPATCH(sum_of_block_here)(classes, block, x, row);
}

std::size_t place_of_largest(const float* z, const float* less, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(place_of_largest_here)(z, less, n);
}

void best_places(const ByteClasses& classes, const ByteRows& x, std::uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(best_places_here)(classes, x, out);
}

void cell_shares(const CellScores& scores, float square, float least, float base, float* share,
                 double* parts) {
  HWY_DYNAMIC_DISPATCH(cell_shares_here)(scores, square, least, base, share, parts);
}

double score_of(RowView x, std::span<const float> w, double intercept) {
  double z = intercept;
  for (std::size_t j = 0; j < x.index.size(); ++j)
    z += static_cast<double>(x.value[j]) * static_cast<double>(w[x.index[j]]);
  return z;
}

ByteScan::ByteScan(std::size_t rows, std::size_t most, std::span<const std::uint32_t> rank)
    : most_(most),
      rank_(rank),
      highest_(rows, std::numeric_limits<float>::lowest()),
      threshold_(rows, std::numeric_limits<float>::lowest()),
      sum_(rows, 0.0),
      size_(rows, 0),
      found_(rows * most) {}

void ByteScan::offer(std::size_t row, std::size_t block, std::uint32_t hits, const float* z) {
  const auto order = [this](const Found& a, const Found& b) { return better(a, b); };
  Found* const heap = &found_[row * most_];
  for (; hits != 0; hits &= hits - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(hits));
    const Found found{z[lane], static_cast<std::uint32_t>(block * kLanes + lane)};
    if (size_[row] == most_) {
      if (!better(found, heap[0])) continue;
      std::pop_heap(heap, heap + most_, order);
      heap[most_ - 1] = found;
    } else {
      heap[size_[row]++] = found;
    }
    std::push_heap(heap, heap + size_[row], order);
    if (size_[row] == most_) threshold_[row] = heap[0].score;
  }
}

std::span<const ByteScan::Found> ByteScan::best(std::size_t row) {
  Found* const heap = &found_[row * most_];
  std::sort(heap, heap + size_[row], [this](const Found& a, const Found& b) { return better(a, b); });
  return {heap, size_[row]};
}

}  // namespace truemax
#endif  // HWY_ONCE
