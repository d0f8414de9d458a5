#include "weights/byte_sums.hpp"

#include <atomic>
#include <cstdlib>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace truemax {
namespace {

std::atomic<bool> allowed_here{true};

#if defined(__x86_64__)
#define TRUEMAX_VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))

constexpr std::size_t kLine = 64, kClasses = 16;

template <std::size_t kRows>
TRUEMAX_VNNI void dense_sums(const std::uint8_t* codes, const std::int32_t* const* packed, std::size_t groups,
                             std::int32_t* sums) {
  // Unrolled by name: g++ 12 keeps neither an array of sums nor one of pointers in registers.
  static_assert(kRows == 4 || kRows == 8);
  const __m512i zero = _mm512_setzero_si512();
  __m512i a = zero, b = zero, c = zero, d = zero, e = zero, f = zero, g = zero, h = zero;
  const std::int32_t *xa = packed[0], *xb = packed[1], *xc = packed[2], *xd = packed[3];
  const std::int32_t *xe = xa, *xf = xb, *xg = xc, *xh = xd;
  if (kRows == 8) xe = packed[4], xf = packed[5], xg = packed[6], xh = packed[7];
  for (std::size_t i = 0; i < groups; ++i) {
    const __m512i line = _mm512_loadu_si512(codes + i * kLine);
    a = _mm512_dpbusd_epi32(a, line, _mm512_set1_epi32(xa[i]));
    b = _mm512_dpbusd_epi32(b, line, _mm512_set1_epi32(xb[i]));
    c = _mm512_dpbusd_epi32(c, line, _mm512_set1_epi32(xc[i]));
    d = _mm512_dpbusd_epi32(d, line, _mm512_set1_epi32(xd[i]));
    if (kRows == 4) continue;
    e = _mm512_dpbusd_epi32(e, line, _mm512_set1_epi32(xe[i]));
    f = _mm512_dpbusd_epi32(f, line, _mm512_set1_epi32(xf[i]));
    g = _mm512_dpbusd_epi32(g, line, _mm512_set1_epi32(xg[i]));
    h = _mm512_dpbusd_epi32(h, line, _mm512_set1_epi32(xh[i]));
  }
  const auto store = [&](std::size_t r, __m512i sum)
                         TRUEMAX_VNNI { _mm512_storeu_si512(sums + r * kClasses, sum); };
  store(0, a), store(1, b), store(2, c), store(3, d);
  if (kRows == 8) store(4, e), store(5, f), store(6, g), store(7, h);
}

// Independent sums, because one product waits for the one before it.
TRUEMAX_VNNI void sparse_sums(const std::uint8_t* codes, const std::int32_t* packed,
                              const std::uint32_t* group, std::size_t groups, std::int32_t* sums) {
  constexpr std::size_t kChains = 4;
  __m512i sum[kChains];
  for (auto& s : sum) s = _mm512_setzero_si512();
  const auto line = [&](std::size_t g) TRUEMAX_VNNI {
    return _mm512_loadu_si512(codes + (group != nullptr ? group[g] : g) * kLine);
  };
  std::size_t g = 0;
  for (; g + kChains <= groups; g += kChains)
    for (std::size_t c = 0; c < kChains; ++c)
      sum[c] = _mm512_dpbusd_epi32(sum[c], line(g + c), _mm512_set1_epi32(packed[g + c]));
  for (; g < groups; ++g) sum[0] = _mm512_dpbusd_epi32(sum[0], line(g), _mm512_set1_epi32(packed[g]));
  _mm512_storeu_si512(sums,
                      _mm512_add_epi32(_mm512_add_epi32(sum[0], sum[1]), _mm512_add_epi32(sum[2], sum[3])));
}
#endif

}  // namespace

void use_byte_products(bool allowed) {
  allowed_here = allowed;
}

#if defined(__x86_64__)

bool has_byte_products() {
  static const bool here =
      __builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512bw") != 0;
  return here && allowed_here.load(std::memory_order_relaxed);
}

void vnni_sums(const std::uint8_t* codes, const std::int32_t* const* packed, std::size_t count,
               const std::uint32_t* group, std::size_t groups, std::int32_t* sums) {
  std::size_t r = 0;
  if (group == nullptr) {
    for (; r + 8 <= count; r += 8) dense_sums<8>(codes, packed + r, groups, sums + r * kClasses);
    for (; r + 4 <= count; r += 4) dense_sums<4>(codes, packed + r, groups, sums + r * kClasses);
  }
  for (; r < count; ++r) sparse_sums(codes, packed[r], group, groups, sums + r * kClasses);
}

#else

bool has_byte_products() {
  return false;
}
void vnni_sums(const std::uint8_t* /*codes*/, const std::int32_t* const* /*packed*/, std::size_t /*count*/,
               const std::uint32_t* /*group*/, std::size_t /*groups*/, std::int32_t* /*sums*/) {
  std::abort();  // has_byte_products() is false
}

#endif

}  // namespace truemax
