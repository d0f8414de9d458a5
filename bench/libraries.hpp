// Comparisons of bench/libraries.cpp: each registers its benchmarks with Google Benchmark.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace truemax {

void compare_matrices();  // libraries_matrices.cpp
void compare_numbers();   // libraries_numbers.cpp
void compare_loops();     // libraries_loops.cpp

// own: `run` returns the seconds itself.
enum class Clock { thread, own };

// In the order of the tables; the repetitions run in any order.
inline std::vector<std::string> all_names;

// `run` is called in the loop that is timed, `check` before it: empty if all is well. The name is
// "table/row/column", as the reporter prints it. One repetition works on one state for all calls.
template <class State>
void add(const std::string& name, std::function<std::shared_ptr<State>()> make,
         std::function<std::string(State&)> check, std::function<double(State&)> run,
         Clock clock = Clock::thread, std::int64_t items = 1) {
  all_names.push_back(name);
  auto* one = benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    const std::shared_ptr<State> with = make();
    if (const std::string wrong = check(*with); !wrong.empty()) {
      state.SkipWithError(wrong.c_str());
      return;
    }
    for (auto _ : state) {
      const double value = run(*with);
      benchmark::DoNotOptimize(value);
      if (clock == Clock::own) state.SetIterationTime(value);
    }
    state.counters["items"] = static_cast<double>(items);
  });
  if (clock == Clock::own) one->UseManualTime()->Iterations(1);
}

}  // namespace truemax
