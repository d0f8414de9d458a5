// Does a step of `prox` cost more with more classes? The same rows (D = 1000, 20 non-zeros), the same number
// of blocks a step, K = 10,000 and 1,000,000. More classes are more memory, so that more of what a step
// touches has left the caches: any program pays for that. So beside each run stands a kernel that reads and
// writes the same cache lines in the same order and does no arithmetic, and what counts is how much more
// `prox` loses than that kernel does.
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

#include "core/random.hpp"
#include "data/dataset.hpp"
#include "data/zipf.hpp"
#include "timing.hpp"
#include "train/epoch.hpp"
#include "train/problem.hpp"
#include "train/visit_order.hpp"
#include "weights/blocks.hpp"

namespace truemax {
namespace {

struct Shape {
  std::size_t rows = 20000, features = 1000, nonzeros = 20;
  std::size_t few = 10000, many = 1000000;  // classes
  std::size_t rounds = 5, epochs = 5;       // epochs of a round
  std::size_t sweep = 0;                    // 1: more numbers of classes, and of rows
  std::size_t most_rows = 10000000, few_nonzeros = 5;
};

Dataset make_data(const Shape& shape, std::size_t classes, bool skewed) {
  const CounterRandom of_label(1, Stream::generate_label, 0), of_row(1, Stream::generate_row, 0);
  const ZipfTable zipf(classes, skewed ? 1.0 : 0.0);
  Dataset data;
  std::vector<std::string> names(classes);
  for (std::size_t k = 0; k < classes; ++k) names[k] = std::to_string(k);
  data.classes = std::make_shared<ClassList>(std::move(names), std::vector<double>(classes, 1.0));
  auto space = std::make_shared<FeatureSpace>();
  space->features = static_cast<FeatureId>(shape.features);
  data.space = space;
  RandomWords words(of_row, 0);
  const float value = 1.0F / std::sqrt(static_cast<float>(shape.nonzeros));
  data.rows.index.reserve(shape.rows * shape.nonzeros);
  data.rows.value.reserve(shape.rows * shape.nonzeros);
  std::vector<FeatureId> index;
  for (std::size_t i = 0; i < shape.rows; ++i) {
    index.clear();
    while (index.size() < shape.nonzeros) {
      const auto f = static_cast<FeatureId>(uniform_below(words.next(), shape.features));
      if (std::find(index.begin(), index.end(), f) == index.end()) index.push_back(f);
    }
    std::sort(index.begin(), index.end());
    for (const FeatureId f : index) {
      data.rows.index.push_back(f);
      data.rows.value.push_back(value);
    }
    data.rows.begin.push_back(data.rows.index.size());
    const CounterRandom::Block b = of_label.at(i);
    data.label.push_back(zipf.draw(b.first, b.second));
    data.label_set.push_back(data.label.back());
    data.label_begin.push_back(data.label_set.size());
  }
  return data;
}

TrainOptions options_of(bool skewed) {
  TrainOptions options;
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

// The rows and blocks of an epoch, drawn beforehand: the touch-only kernel pays for no random number.
struct Visits {
  std::vector<RowId> rows;
  BlockBuffer drawn;

  std::span<const std::uint32_t> blocks(std::size_t t) const {
    return {&drawn.blocks[t * drawn.capacity], drawn.count[t]};
  }
};

Visits visits_of(const Dataset& data, const TrainOptions& options, const Draw& draw, std::uint64_t epoch) {
  Visits out;
  VisitOrder order(options.visit, options.seed, data.size());
  order.start_epoch(epoch);
  out.rows.resize(data.size());
  order.fill(0, out.rows);
  std::vector<ClassId> labels(data.size());
  for (std::size_t t = 0; t < labels.size(); ++t) labels[t] = data.label[out.rows[t]];
  draw.fill_blocks(CounterRandom(options.seed, Stream::draw, epoch), 0, data.size(), labels, out.drawn);
  return out;
}

// Reads and writes back what the steps of an epoch read and write: the row, its u, a line for each feature of
// each block; asks ahead as the step loop does.
void touch_epoch(const Dataset& data, const Visits& visits, TrainState& state) {
  constexpr std::size_t kPrefetch = 4;
  const std::size_t steps = visits.rows.size();
  for (std::size_t t = 0; t < steps; ++t) {
    if (t + kPrefetch < steps) prefetch_row(data, state, visits.rows[t + kPrefetch]);
    if (t + 1 < steps) LinesAhead(state.weights, data.x(visits.rows[t + 1]), visits.blocks(t + 1)).ask(1);
    const RowId i = visits.rows[t];
    const RowView x = data.x(i);
    for (const std::uint32_t b : visits.blocks(t)) {  // the scores
      const float* w = state.weights.block(b);
      for (std::size_t j = 0; j < x.index.size(); ++j) {
        use(x.value[j]);
        use(w[std::size_t{x.index[j]} * kLanes]);
      }
    }
    launder(state.rows[i].u);
    for (const std::uint32_t b : visits.blocks(t)) {  // the updates
      float* w = state.weights.block(b);
      for (std::size_t j = 0; j < x.index.size(); ++j) {
        use(x.value[j]);
        float v = w[std::size_t{x.index[j]} * kLanes];
        launder(v);
        w[std::size_t{x.index[j]} * kLanes] = v;
      }
    }
  }
}

// One number of classes: its data, its weights (all pages there), the loop and the draw.
struct Contest {
  Contest(const Shape& shape, std::size_t classes, bool skewed)
      : data(make_data(shape, classes, skewed)),
        options(options_of(skewed)),
        state(make_state(data, options)),
        draw(draw_for(data, options)),
        runner(make_epoch_runner(data, options)) {
    // The first write to a page costs far more than a step.
    constexpr std::size_t kPageFloats = 1024;
    const std::span<float> memory = state.weights.memory();
    for (std::size_t at = 0; at < memory.size(); at += kPageFloats) {
      launder(memory[at]);
      memory[at] = 0;
    }
  }

  void run_epoch() {
    const std::atomic<bool> stop{false};
    runner->run(data, state, stop, nullptr);
  }

  // The first epoch wrote just the lines that the touch-only kernel touches.
  bool same_lines() {
    run_epoch();
    std::unordered_set<std::size_t> touched;
    const Visits visits = visits_of(data, options, *draw, 0);
    const std::size_t features = state.weights.features();
    for (std::size_t t = 0; t < visits.rows.size(); ++t)
      for (const std::uint32_t b : visits.blocks(t))
        for (const FeatureId f : data.x(visits.rows[t]).index) touched.insert(b * features + f);
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
    std::vector<Visits> visits;
    for (std::size_t e = 0; e < epochs; ++e)
      visits.push_back(visits_of(data, options, *draw, state.epoch + e));
    double start = now();
    for (std::size_t e = 0; e < epochs; ++e) run_epoch();
    const double steps = static_cast<double>(epochs * data.size());
    prox = std::max(prox, steps / (now() - start));
    start = now();
    for (const Visits& of_epoch : visits) touch_epoch(data, of_epoch, state);
    touch = std::max(touch, steps / (now() - start));
  }

  Dataset data;
  TrainOptions options;
  TrainState state;
  std::unique_ptr<Draw> draw;
  std::unique_ptr<EpochRunner> runner;
  double prox = 0, touch = 0;  // steps a second, the best of the rounds
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

// Few and many classes, and with sweep all powers of ten between them and one below: {} where a check fails.
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

// Numbers of rows, powers of ten up to the most; rows are short, so that the most fit into memory. Empty
// where a check fails.
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
