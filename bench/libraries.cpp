// Four pieces of truemax beside Debian's libraries that do the same: small dense matrices (Eigen), decimal
// numbers (fast_float, std::from_chars), parallel loops (oneTBB) and the timing of a solver (Google
// Benchmark, which is also the frame of this program). Each pair first has to give the same results. Prints
// one table per piece: the least time of all repetitions, in brackets relative to truemax's.
//   truemax_libraries [--benchmark_filter=REGEX] [any option of Google Benchmark]
#include "libraries.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "solve/implicit_row.hpp"
#include "timing.hpp"

namespace truemax {
namespace {

// The frame itself: the same solver timed by Google Benchmark and as bench/solver_cost.cpp does it.
struct Rows {
  static constexpr std::size_t kClasses = 16, kProblems = 2000;
  Rows() : weight(kClasses, 150.0 / kClasses), score(kProblems * kClasses), c(kClasses) {
    std::mt19937_64 random(8);
    std::uniform_real_distribution<double> sym(-1, 1);
    for (double& z : score) z = 3 * sym(random);
    memory.reserve(kClasses);
  }
  double solve_all() {
    double sum = 0;
    for (std::size_t i = 0; i < kProblems; ++i) {
      ImplicitRow row;
      row.e = 10, row.u = 3, row.label_score = 2;
      row.classes = kClasses, row.weight = weight.data(), row.score = &score[i * kClasses];
      row.coefficient = c.data();
      solve_implicit_row(row, memory);
      sum += row.u;
    }
    return sum;
  }
  double timed_here() {
    double best = 1e300;
    for (int round = 0; round < 10; ++round) {
      const double start = thread_seconds();
      double value = solve_all();
      launder(value);
      best = std::min(best, thread_seconds() - start);
    }
    return best;
  }

  std::vector<double> weight, score, c;
  RowMemory memory;
};

void compare_frames() {
  const auto make = [] { return std::make_shared<Rows>(); };
  const auto check = [](Rows& rows) {
    return std::isfinite(rows.solve_all()) ? std::string() : std::string("a solution is not finite");
  };
  add<Rows>(
      "frame/implicit step, 16 classes/truemax", make, check, [](Rows& r) { return r.timed_here(); },
      Clock::own, Rows::kProblems);
  add<Rows>(
      "frame/implicit step, 16 classes/Google Benchmark", make, check, [](Rows& r) { return r.solve_all(); },
      Clock::thread, Rows::kProblems);
}

class Tables final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const std::string& name = run.run_name.function_name;
      if (run.error_occurred) {
        fmt::print(stderr, "{}: {}\n", name, run.error_message);
        failed = true;
        continue;
      }
      const bool own_clock = !run.run_name.time_type.empty();
      const double seconds = (own_clock ? run.real_accumulated_time : run.cpu_accumulated_time) /
                             static_cast<double>(run.iterations) / run.counters.at("items").value;
      double& best = best_.try_emplace(name, seconds).first->second;
      best = std::min(best, seconds);
    }
  }
  void Finalize() override {
    const std::vector<std::pair<std::string, std::vector<std::string>>> columns = {
        {"matrices", {"truemax", "Eigen", "Eigen, native"}},
        {"numbers", {"truemax", "fast_float", "fast_float, rounded once", "std::from_chars"}},
        {"loops", {"truemax", "TBB, simple", "TBB, auto"}},
        {"frame", {"truemax", "Google Benchmark"}}};
    for (const auto& [table, names] : columns) {
      std::string text, line = "| --- |";
      for (const std::string& name : names) text += " " + name + " |", line += " ---: |";
      text = "\n| " + table + " |" + text + "\n" + line + "\n";
      bool any = false;
      for (const std::string& name : all_names) {
        const std::size_t end = name.rfind("/truemax");
        if (end == std::string::npos || !name.starts_with(table + "/") || !best_.contains(name)) continue;
        const std::string row = name.substr(0, end);
        any = true;
        text += "| " + row.substr(table.size() + 1) + " |";
        for (const std::string& column : names) text += " " + cell(row, column) + " |";
        text += "\n";
      }
      if (any) fmt::print("{}", text);
    }
  }

  bool failed = false;

 private:
  std::string cell(const std::string& row, const std::string& column) const {
    const auto found = best_.find(row + "/" + column);
    if (found == best_.end()) return "-";
    const double ns = 1e9 * found->second;
    const std::string time = ns < 100      ? fmt::format("{:.1f} ns", ns)
                             : ns < 10'000 ? fmt::format("{:.0f} ns", ns)
                                           : fmt::format("{:.0f} us", ns / 1000);
    if (column == "truemax") return time;
    return fmt::format("{} ({:.2f})", time, found->second / best_.at(row + "/truemax"));
  }

  std::map<std::string, double> best_;  // seconds by name
};

}  // namespace
}  // namespace truemax

int main(int argc, char** argv) {
  // Repetitions of all in random order: others may use the machine. What is typed comes later and wins.
  std::vector<std::string> words = {argv[0], "--benchmark_repetitions=20", "--benchmark_min_time=0.02",
                                    "--benchmark_enable_random_interleaving=true"};
  words.insert(words.end(), argv + 1, argv + argc);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int count = static_cast<int>(words.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  truemax::compare_matrices();
  truemax::compare_numbers();
  truemax::compare_loops();
  truemax::compare_frames();
  truemax::Tables tables;
  benchmark::RunSpecifiedBenchmarks(&tables);
  return tables.failed ? 1 : 0;
}
