// The functions of Highway that its headers only declare: which instruction sets the processor has.
#include <hwy/targets.h>

#include <atomic>
#include <cstdint>
#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace hwy {
namespace {

std::atomic<std::int64_t> for_test{0};  // 0: what the processor has
std::atomic<std::int64_t> disabled{0};

#if HWY_ARCH_X86
// A bit of ecx, for what __builtin_cpu_supports of some compilers has no name.
bool has_bit(unsigned leaf, unsigned bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(leaf, 0, &a, &b, &c, &d) != 0 && (c >> bit & 1U) != 0;
}
#endif

std::int64_t of_processor() {
  std::int64_t targets = HWY_STATIC_TARGET;
#if HWY_ARCH_X86
  __builtin_cpu_init();
  const auto add = [&](std::int64_t target, bool there) {
    if (there) targets |= target;
    return there;
  };
  // Each needs those before it. The conditions are those of Highway's own library.
  const bool ssse3 = add(HWY_SSSE3, __builtin_cpu_supports("ssse3") != 0);
  const bool sse4 =
      ssse3 && add(HWY_SSE4, __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
                                 __builtin_cpu_supports("aes"));
  const bool avx2 =
      sse4 && add(HWY_AVX2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                has_bit(0x80000001U, 5) && __builtin_cpu_supports("bmi") &&
                                __builtin_cpu_supports("bmi2") && has_bit(1, 29));  // lzcnt, f16c
  const bool avx3 =
      avx2 && add(HWY_AVX3, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                                __builtin_cpu_supports("avx512cd"));
  if (avx3)
    add(HWY_AVX3_DL, __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("vpclmulqdq") &&
                         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                         has_bit(7, 9) /* vaes */ && __builtin_cpu_supports("avx512vpopcntdq") &&
                         __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("gfni"));
#endif
  return targets;
}

}  // namespace

std::int64_t SupportedTargets() {
  static const std::int64_t there = of_processor();
  const std::int64_t given = for_test.load();
  return given != 0 ? given : (there & ~disabled.load()) | HWY_STATIC_TARGET;
}

void DisableTargets(std::int64_t targets) {
  disabled = targets;
  GetChosenTarget().DeInit();
}

void SetSupportedTargetsForTest(std::int64_t targets) {
  for_test = targets;
  GetChosenTarget().DeInit();
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
