// Timings that need truemax's internals; bench/bench.py compares them with the alternatives.
//   truemax_bench steps [FILE] method=M [key=value ...]
//     steps/s of a method and of a kernel that makes the same memory accesses and does no arithmetic,
//     interleaved, best of several; without FILE on generated rows (step_cost.cpp)
//   truemax_bench read FILE [threads=N]
//     seconds to read a file
//   truemax_bench classes [key=value ...]
//     steps/s of prox and of such a kernel with few and with many classes; sweep=1: also with more numbers of
//     classes and of rows (class_cost.cpp); needs 5 GB of memory
//   truemax_bench evaluate FILE [key=value ...]
//     rows/s of exact evaluation and of a kernel that only does its loads and exps, the FMA peak,
//     prediction (evaluation.cpp)
//   truemax_bench learnt [key=value ...]
//     steps/s of learnt features and of such a kernel, with K = D = 10,000 and 1,000,000 (learnt_cost.cpp);
//     needs 4 GB of memory; exit code 1 if the steps slow down more than the kernel
//   truemax_bench gpu FILE [key=value ...]
//     on a GPU: time to a log-loss, exact evaluation, steps/s of prox and of such a kernel with the classes
//     of the file and with 1,000,000 (gpu_cost.cpp); needs 45 GB on the card; exit code 77 without one
//   truemax_bench lines [megabytes=600]
//     nanoseconds per random cache line: loaded, prefetched, dependent (line_cost.cpp)
//   truemax_bench solvers [rounds=10]
//     microseconds of the solvers of proximal steps, one row and several (solver_cost.cpp)
// Each prints one JSON object.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "class_cost.hpp"
#include "data/load.hpp"
#include "evaluation.hpp"
#include "gpu_cost.hpp"
#include "learnt_cost.hpp"
#include "line_cost.hpp"
#include "solver_cost.hpp"
#include "step_cost.hpp"
#include "timing.hpp"

namespace truemax {
namespace {

int bench_read(const std::string& path, const std::map<std::string, std::string>& settings) {
  const auto threads = settings.count("threads") > 0 ? std::stoul(settings.at("threads")) : 1UL;
  double best = 1e300;
  std::size_t rows = 0, nonzeros = 0;
  double sum = 0;  // of all values, to compare with other readers
  for (int round = 0; round < 3; ++round) {
    std::vector<std::string> notes;
    const double start = now();
    const RawRows raw = read_rows(path, {}, 0, threads, notes);
    best = std::min(best, now() - start);
    rows = raw.size();
    nonzeros = raw.rows.nonzeros();
    sum = 0;
    for (const float v : raw.rows.value) sum += static_cast<double>(v);
  }
  nlohmann::ordered_json out{{"file", path},
                             {"threads", threads},
                             {"rows", rows},
                             {"nonzeros", nonzeros},
                             {"sum", sum},
                             {"seconds", best},
                             {"bytes", std::filesystem::file_size(path)}};
  fmt::print("{}\n", out.dump());
  return 0;
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  std::map<std::string, std::string> settings;
  std::string path;
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const auto equals = text.find('=');
    if (equals != std::string::npos)
      settings[text.substr(0, equals)] = text.substr(equals + 1);
    else
      path = text;
  }
  if (what == "steps") return bench_steps(path, settings);
  if (!path.empty() && what == "read") return bench_read(path, settings);
  if (!path.empty() && what == "evaluate") return bench_evaluate(path, settings);
  if (what == "gpu") return bench_gpu(path, settings);
  if (what == "lines") return bench_lines(settings);
  if (what == "classes") return bench_classes(settings);
  if (what == "learnt") return bench_learnt(settings);
  if (what == "solvers") return bench_solvers(settings);
  fmt::print(stderr,
             "usage: truemax_bench steps|read|evaluate|gpu FILE [key=value ...], or truemax_bench "
             "steps|classes|learnt|lines|solvers [key=value ...]\n");
  return 2;
}

}  // namespace
}  // namespace truemax

int main(int argc, char** argv) {
  try {
    return truemax::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "truemax_bench: %s\n", error.what());
    return 1;
  }
}
