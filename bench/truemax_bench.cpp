// Timings that need the inside of truemax; bench/bench.py runs them beside the alternatives.
//   truemax_bench steps FILE [key=value ...]   steps/s of Implicit SGD and of a kernel that makes the same
//   memory
//                                              accesses and does no arithmetic, interleaved, best of several
//   truemax_bench read FILE [threads=N]        seconds to read a file
//   truemax_bench classes [key=value ...]      steps/s of prox and of such a kernel with few and with many
//                                              classes (class_cost.cpp); needs 5 GB of memory
// Each prints one JSON object.
#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "class_cost.hpp"
#include "core/random.hpp"
#include "data/load.hpp"
#include "draw/draw.hpp"
#include "evaluate/evaluate.hpp"
#include "timing.hpp"
#include "train/epoch.hpp"
#include "train/visit_order.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

struct Step {
  RowId row;
  ClassId drawn;
};

// The steps of an epoch, drawn beforehand: the touch-only kernel pays for no random number.
std::vector<Step> steps_of_epoch(const Dataset& data, const TrainOptions& options) {
  VisitOrder order(options.visit, options.seed, data.size());
  order.start_epoch(0);
  std::vector<RowId> rows(data.size());
  order.fill(0, rows);
  std::vector<ClassId> labels(rows.size());
  for (std::size_t t = 0; t < rows.size(); ++t) labels[t] = data.label[rows[t]];
  DrawBuffer buffer;
  make_draw({.name = "uniform", .classes = data.classes->size()})
      ->fill(CounterRandom(options.seed, Stream::draw, 0), 0, rows.size(), labels, rows, buffer);
  std::vector<Step> steps(rows.size());
  for (std::size_t t = 0; t < rows.size(); ++t) steps[t] = {rows[t], buffer.classes[t]};
  return steps;
}

// Reads and writes back what an Implicit SGD step reads and writes: the row, its u, the weights of two
// classes.
void touch_epoch(const Dataset& data, const std::vector<Step>& steps, TrainState& state) {
  constexpr std::size_t kPrefetch = 4;
  for (std::size_t t = 0; t < steps.size(); ++t) {
    if (t + kPrefetch < steps.size()) prefetch_row(data, state, steps[t + kPrefetch].row);
    const RowId i = steps[t].row;
    const RowView x = data.x(i);
    float* of_drawn = state.weights.lane(steps[t].drawn);
    float* of_label = state.weights.lane(data.label[i]);
    for (std::size_t j = 0; j < x.index.size(); ++j) {  // the scores
      const std::size_t at = std::size_t{x.index[j]} * kLanes;
      use(x.value[j]);
      use(of_drawn[at]);
      use(of_label[at]);
    }
    launder(state.rows[i].u);
    for (std::size_t j = 0; j < x.index.size(); ++j) {  // the updates
      const std::size_t at = std::size_t{x.index[j]} * kLanes;
      use(x.value[j]);
      float a = of_drawn[at], b = of_label[at];
      launder(a);
      launder(b);
      of_drawn[at] = a;
      of_label[at] = b;
    }
  }
}

int bench_steps(const std::string& path, const std::map<std::string, std::string>& settings) {
  const auto get = [&](const char* key, const char* missing) {
    const auto found = settings.find(key);
    return found == settings.end() ? std::string(missing) : found->second;
  };
  std::vector<std::string> notes;
  PreprocessOptions preprocess;
  preprocess.normalize = Normalize::l2;
  preprocess.max_features = 10000;
  const Dataset data = make_training_set(read_rows(path, {}, 100000, 1, notes), preprocess);
  TrainOptions options;
  options.method = "implicit";
  options.step = std::stod(get("step", "10"));
  options.epochs = 50;
  const auto rounds = std::stoul(get("rounds", "5"));

  // Correctness first: the run that is timed is a run that learns.
  TrainState state = make_state(data, options);
  const std::atomic<bool> stop{false};
  const auto runner = make_epoch_runner(data, options);
  while (state.epoch < options.epochs) runner->run(data, state, stop, nullptr);
  const double loss = evaluate(state.weights, data, 1)->log_loss;
  const double baseline = evaluate_class_frequencies(data).log_loss;
  if (!(loss < baseline)) {
    fmt::print(stderr, "implicit reached log-loss {}, class frequencies {}: nothing to time\n", loss,
               baseline);
    return 1;
  }

  const std::vector<Step> steps = steps_of_epoch(data, options);
  TrainState touched = make_state(data, options);
  // Touch-only epochs of a round: enough for about a tenth of a second.
  const std::uint64_t epochs = std::max<std::uint64_t>(1, 300000 / data.size());
  double implicit_best = 1e300, touch_best = 1e300;
  for (std::size_t round = 0; round < rounds; ++round) {
    TrainState fresh = make_state(data, options);
    double start = now();
    while (fresh.epoch < options.epochs) runner->run(data, fresh, stop, nullptr);
    implicit_best = std::min(implicit_best, (now() - start) / static_cast<double>(options.epochs));
    start = now();
    for (std::uint64_t e = 0; e < epochs; ++e) touch_epoch(data, steps, touched);
    touch_best = std::min(touch_best, (now() - start) / static_cast<double>(epochs));
  }
  const double n = static_cast<double>(data.size());
  nlohmann::ordered_json out{{"file", path},
                             {"rows", data.size()},
                             {"classes", data.classes->size()},
                             {"nonzeros_per_row", static_cast<double>(data.rows.nonzeros()) / n},
                             {"log_loss", loss},
                             {"implicit_steps_per_second", n / implicit_best},
                             {"touch_steps_per_second", n / touch_best}};
  fmt::print("{}\n", out.dump());
  return 0;
}

int bench_read(const std::string& path, const std::map<std::string, std::string>& settings) {
  const auto threads = settings.count("threads") > 0 ? std::stoul(settings.at("threads")) : 1UL;
  double best = 1e300;
  std::size_t rows = 0, nonzeros = 0;
  double sum = 0;  // of all values: what was read can be compared
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
  for (int i = what == "classes" ? 2 : 3; i < argc; ++i) {
    const std::string text = argv[i];
    const auto equals = text.find('=');
    if (equals != std::string::npos) settings[text.substr(0, equals)] = text.substr(equals + 1);
  }
  if (argc > 2 && what == "steps") return bench_steps(argv[2], settings);
  if (argc > 2 && what == "read") return bench_read(argv[2], settings);
  if (what == "classes") return bench_classes(settings);
  fmt::print(
      stderr,
      "usage: truemax_bench steps|read FILE [key=value ...], or truemax_bench classes [key=value ...]\n");
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
