// core/parallel.hpp beside oneTBB: the cost of a call, and loops over chunks of 10 us.
#include <fmt/format.h>
#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "core/team.hpp"
#include "libraries.hpp"
#include "timing.hpp"

namespace truemax {
namespace {

struct Loop {
  Loop(std::size_t chunk_count, std::size_t thread_count, bool works)
      : chunks(chunk_count), threads(thread_count), arena(static_cast<int>(thread_count)), result(chunks) {
    if (works) steps = 6000;  // about 10 us
  }
  void work(std::size_t chunk) {
    double x = static_cast<double>(chunk) + 1;
    for (std::size_t i = 0; i < steps; ++i) x = x * 0.999 + 0.001;
    result[chunk] = x;
  }
  void by_truemax() {
    parallel_for(chunks, threads, [this](std::size_t chunk) { work(chunk); });
  }
  template <class Partitioner>
  void by_tbb(const Partitioner& partitioner) {
    const auto body = [this](const tbb::blocked_range<std::size_t>& range) {
      for (std::size_t chunk = range.begin(); chunk < range.end(); ++chunk) work(chunk);
    };
    arena.execute([&] { tbb::parallel_for(tbb::blocked_range<std::size_t>(0, chunks), body, partitioner); });
  }

  std::size_t chunks, threads, steps = 0;
  tbb::task_arena arena;
  std::vector<double> result;
};

std::string check_loop(Loop& loop) {
  const auto result_of = [&](auto&& run) {
    std::fill(loop.result.begin(), loop.result.end(), 0.0);
    run();
    return loop.result;
  };
  const std::vector<double> ours = result_of([&] { loop.by_truemax(); });
  if (ours != result_of([&] { loop.by_tbb(tbb::simple_partitioner()); }) ||
      ours != result_of([&] { loop.by_tbb(tbb::auto_partitioner()); }))
    return "parallel loops disagree";
  return {};
}

using Run = std::function<void(Loop&)>;

// Calls one after another, after a pause in which the threads may fall asleep, or while two other threads
// want the cores.
enum class When { follows, rests, busy };

// Seconds of a call: the least, or the mean if the cores are busy.
double time_calls(Loop& loop, const Run& run, When when) {
  const int tries = when == When::busy ? 300 : 30;
  const int calls = when == When::follows && loop.steps == 0 && loop.chunks < 100 ? 20 : 1;
  std::vector<std::jthread> others;
  if (when == When::busy)
    for (int i = 0; i < 2; ++i)
      others.emplace_back([](const std::stop_token& stop) {
        Patience patience(1);
        while (!stop.stop_requested()) patience.pause(0, 0);
      });
  double best = 1e300, total = 0;
  for (int i = 0; i < tries; ++i) {
    if (when == When::rests) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const double start = now();
    for (int call = 0; call < calls; ++call) run(loop);
    const double took = (now() - start) / calls;
    best = std::min(best, took), total += took;
  }
  return when == When::busy ? total / tries : best;
}

}  // namespace

void compare_loops() {
  const std::vector<std::pair<std::string, Run>> columns = {
      {"truemax", [](Loop& l) { l.by_truemax(); }},
      {"TBB, simple", [](Loop& l) { l.by_tbb(tbb::simple_partitioner()); }},
      {"TBB, auto", [](Loop& l) { l.by_tbb(tbb::auto_partitioner()); }}};
  const auto add_row = [&](std::size_t chunks, std::size_t threads, bool works, When when) {
    const std::string row = fmt::format("{} {}chunks{}, {}{}", chunks, works ? "" : "empty ",
                                        works ? " of 10 us" : "", threads == 1 ? "1 thread" : "2 threads",
                                        when == When::rests  ? ", after 1 ms of rest"
                                        : when == When::busy ? ", cores busy"
                                                             : "");
    for (const auto& [column, run] : columns)
      add<Loop>(
          fmt::format("loops/{}/{}", row, column),
          [=] { return std::make_shared<Loop>(chunks, threads, works); }, check_loop,
          [when, run = run](Loop& loop) { return time_calls(loop, run, when); }, Clock::own);
  };
  for (const std::size_t threads : {1UL, 2UL}) {
    for (const std::size_t chunks : {2UL, 8UL, 1000UL}) add_row(chunks, threads, false, When::follows);
    for (const std::size_t chunks : {8UL, 1000UL}) add_row(chunks, threads, true, When::follows);
  }
  for (const bool works : {false, true}) add_row(8, 2, works, When::rests);
  add_row(8, 2, true, When::busy);
}

}  // namespace truemax
