// Does a step of `prox` cost more with more classes? The same rows (D = 1000, 20 non-zeros), the same number
// of blocks per step, K = 10,000 and 1,000,000. More classes take more memory, so a step misses the caches
// more often; any program pays for that. Each run is therefore compared with a kernel that reads and writes
// the same cache lines in the same order without arithmetic: what counts is how much more `prox` loses than
// that kernel.
//
// Two settings. `spread`: labels and blocks uniform over all classes, the worst case for the caches.
// `skewed`: labels by Zipf's law, 64 classes always, one block of the tail by label mass, as on real text.
// sweep=1: K = 10^3 ... 10^6 in both, and N = 10^4 ... 10^7 rows, short ones, at K = 10,000.
#include "class_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "made_data.hpp"
#include "plan_of.hpp"
#include "timing.hpp"
#include "touch.hpp"
#include "train/fit.hpp"
#include "train/start.hpp"
#include "train/step_inputs.hpp"

namespace truemax {
namespace {

struct Shape {
  std::size_t rows = 20000, features = 1000, nonzeros = 20;
  std::size_t few = 10000, many = 1000000;  // classes
  std::size_t rounds = 5, epochs = 5;       // epochs of a round
  std::size_t sweep = 0;                    // 1: more numbers of classes, and of rows
  std::size_t most_rows = 10000000, few_nonzeros = 5;
};

Recipe options_of(bool skewed) {
  Recipe options;
  options.method = "prox";
  options.step = 1;
  options.decay = 1;
  options.classes_per_step = kBlockClasses;
  options.visit = Visit::shuffle;
  options.threads = 1;
  options.draw = skewed ? "head-blocks" : "blocks";
  options.draws.head = 64;
  options.draws.uniform_share = skewed ? 0.1 : 1.0;
  return options;
}

// One number of classes: data, weights (all pages touched), loop and draw.
struct Contest {
  Contest(const Shape& shape, std::size_t classes, bool skewed)
      : data(make_data({shape.rows, shape.features, shape.nonzeros}, classes, skewed ? 1.0 : 0.0)),
        options(options_of(skewed)),
        state(make_state(data, options)),
        draw(draw_for(options, facts_of(data))),
        loop(data, plan_of(data, options)) {
    touch_pages(state.weights);
  }

  void run_epoch() {
    const std::atomic<bool> stop{false};
    loop.run(state, stop, nullptr);
  }

  // The first epoch wrote exactly the lines that the touch-only kernel touches.
  bool same_lines() {
    run_epoch();
    std::unordered_set<std::size_t> touched;
    const Trace trace = trace_of(data, options, draw.get(), 0);
    const std::size_t features = state.weights.features();
    for (std::size_t t = 0; t < trace.rows.size(); ++t)
      for (const ClassId k : trace.of(t))
        for (const FeatureId f : data.x(trace.rows[t]).index) touched.insert(k / kLanes * features + f);
    const std::span<const float> memory = state.weights.memory();
    std::size_t written = 0;
    for (std::size_t line = 0; line < memory.size() / kLanes; ++line) {
      const auto lanes = memory.subspan(line * kLanes, kLanes);
      if (std::all_of(lanes.begin(), lanes.end(), [](float v) { return v == 0; })) continue;
      ++written;
      if (!touched.contains(line)) return false;
    }
    return written == touched.size();
  }

  void round(std::size_t epochs) {
    std::vector<Trace> traces;
    for (std::size_t e = 0; e < epochs; ++e)
      traces.push_back(trace_of(data, options, draw.get(), state.epoch + e));
    double start = thread_seconds();
    for (std::size_t e = 0; e < epochs; ++e) run_epoch();
    const double steps = static_cast<double>(epochs * data.size());
    prox = std::max(prox, steps / (thread_seconds() - start));
    for (const TouchWay& way : kInOrder) {  // the bound is the best prefetch distance for this size
      start = thread_seconds();
      for (const Trace& of_epoch : traces) touch_epoch(data, of_epoch, state, way);
      touch = std::max(touch, steps / (thread_seconds() - start));
    }
  }

  DataView data;
  Recipe options;
  RunState state;
  std::unique_ptr<Draw> draw;
  StepLoop loop;
  double prox = 0, touch = 0;  // steps per second, best of the rounds
};

nlohmann::ordered_json about(const Contest& contest) {
  return {{"classes", contest.data.classes->size()},
          {"rows", contest.data.size()},
          {"prox_steps_per_second", contest.prox},
          {"touch_steps_per_second", contest.touch}};
}

bool check(Contest& contest) {
  if (contest.same_lines()) return true;
  fmt::print(stderr, "prox writes other lines than the touch-only kernel: nothing to compare\n");
  return false;
}

using Contests = std::vector<std::unique_ptr<Contest>>;

// Few and many classes; with sweep also all powers of ten between them and one below. Empty if a check fails.
nlohmann::ordered_json by_classes(const Shape& shape, bool skewed) {
  Contests contests;
  std::size_t few = 0;  // the place of shape.few
  if (shape.sweep > 0) {
    contests.push_back(std::make_unique<Contest>(shape, std::max<std::size_t>(2, shape.few / 10), skewed));
    few = 1;
    for (std::size_t classes = shape.few; classes < shape.many; classes *= 10)
      contests.push_back(std::make_unique<Contest>(shape, classes, skewed));
  } else {
    contests.push_back(std::make_unique<Contest>(shape, shape.few, skewed));
  }
  if (!check(*contests[few])) return {};
  contests.push_back(std::make_unique<Contest>(shape, shape.many, skewed));
  for (const auto& contest : contests) contest->run_epoch();
  for (std::size_t round = 0; round < shape.rounds; ++round)
    for (const auto& contest : contests) contest->round(shape.epochs);
  const Contest &first = *contests[few], &last = *contests.back();
  const double prox = first.prox / last.prox, touch = first.touch / last.touch;
  nlohmann::ordered_json out{{"blocks_per_step", first.draw->most_blocks()},
                             {"few", about(first)},
                             {"many", about(last)},
                             {"prox_ratio", prox},
                             {"touch_ratio", touch},
                             {"quotient", prox / touch}};
  if (shape.sweep > 0)
    for (const auto& contest : contests) out["all"].push_back(about(*contest));
  return out;
}

// Numbers of rows, in powers of ten; rows are short, so that the largest number fits into memory. Empty if a
// check fails.
nlohmann::ordered_json by_rows(Shape shape) {
  const std::size_t steps = 10 * shape.rows * shape.epochs;  // of a round
  shape.nonzeros = shape.few_nonzeros;
  Contests contests;
  for (std::size_t rows = std::max<std::size_t>(10, shape.most_rows / 1000); rows <= shape.most_rows;
       rows *= 10) {
    shape.rows = rows;
    contests.push_back(std::make_unique<Contest>(shape, shape.few, false));
  }
  if (!check(*contests.front())) return {};
  for (const auto& contest : contests) contest->run_epoch();
  for (std::size_t round = 0; round < shape.rounds; ++round)
    for (const auto& contest : contests)
      contest->round(std::max<std::size_t>(1, steps / contest->data.size()));
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const auto& contest : contests) out.push_back(about(*contest));
  return out;
}

}  // namespace

int bench_classes(const std::map<std::string, std::string>& settings) {
  Shape shape;
  const std::array<std::pair<const char*, std::size_t*>, 9> numbers{{{"rows", &shape.rows},
                                                                     {"features", &shape.features},
                                                                     {"nonzeros", &shape.nonzeros},
                                                                     {"few", &shape.few},
                                                                     {"many", &shape.many},
                                                                     {"rounds", &shape.rounds},
                                                                     {"epochs", &shape.epochs},
                                                                     {"sweep", &shape.sweep},
                                                                     {"most-rows", &shape.most_rows}}};
  for (const auto& [name, to] : numbers)
    if (const auto found = settings.find(name); found != settings.end()) *to = std::stoul(found->second);

  nlohmann::ordered_json out{
      {"rows", shape.rows}, {"features", shape.features}, {"nonzeros", shape.nonzeros}};
  for (const bool skewed : {false, true}) {
    const auto found = by_classes(shape, skewed);
    if (found.empty()) return 1;
    out[skewed ? "skewed" : "spread"] = found;
  }
  if (shape.sweep > 0) {
    const auto found = by_rows(shape);
    if (found.empty()) return 1;
    out["by_rows"] = found;
  }
  fmt::print("{}\n", out.dump());
  return 0;
}

}  // namespace truemax
