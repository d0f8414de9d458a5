#include "line_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/huge_pages.hpp"
#include "timing.hpp"

namespace truemax {

int bench_lines(const std::map<std::string, std::string>& settings) {
  constexpr std::size_t kLine = 64, kLineFloats = kLine / sizeof(float), kTouches = 4000000, kWaits = 200000;
  const auto found = settings.find("megabytes");
  const std::size_t megabytes = found == settings.end() ? 600 : std::stoul(found->second);
  const std::size_t lines = (megabytes << 20) / kLine;
  HugeVector<float> memory(lines * kLineFloats, 1.0F);
  std::vector<std::uint32_t> at(kTouches);
  std::uint64_t word = 1;
  for (std::uint32_t& i : at) {
    word = word * 6364136223846793005U + 1442695040888963407U;
    i = static_cast<std::uint32_t>((word >> 33) % lines);
  }
  double load = 1e300, first = 1e300, second = 1e300, wait = 1e300;
  const auto timed = [](double& best, std::size_t count, const auto& work) {
    const double start = thread_seconds();
    work();
    best = std::min(best, 1e9 * (thread_seconds() - start) / static_cast<double>(count));
  };
  for (int round = 0; round < 3; ++round) {
    timed(load, kTouches, [&] {
      for (const std::uint32_t i : at) use(memory[i * kLineFloats]);
    });
    timed(first, kTouches, [&] {
      for (const std::uint32_t i : at) __builtin_prefetch(&memory[i * kLineFloats], 0, 3);
    });
    timed(second, kTouches, [&] {
      for (const std::uint32_t i : at) __builtin_prefetch(&memory[i * kLineFloats], 0, 2);
    });
    timed(wait, kWaits, [&] {  // the address of the next line depends on the last
      std::size_t more = 0;
      for (std::size_t i = 0; i < kWaits; ++i) {
        float v = memory[(at[i] + more) * kLineFloats];
        launder(v);
        more = v == 1.0F ? 0 : 1;
        asm volatile("" : "+r"(more));
      }
    });
  }
  fmt::print("{}\n", nlohmann::ordered_json{{"megabytes", megabytes},
                                            {"load_ns", load},
                                            {"prefetch_first_cache_ns", first},
                                            {"prefetch_second_cache_ns", second},
                                            {"one_after_the_other_ns", wait}}
                         .dump());
  return 0;
}

}  // namespace truemax
