#include "learnt_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "made_data.hpp"
#include "plan_of.hpp"
#include "timing.hpp"
#include "train/fit.hpp"
#include "train/start.hpp"
#include "train/step_inputs.hpp"
#include "train/step_shape.hpp"
#include "train/visit_order.hpp"

namespace truemax {
namespace {

Recipe learnt_bench_options(std::uint64_t hidden, std::uint64_t threads, bool row_state) {
  Recipe options;
  options.method = "scent";
  options.hidden = hidden, options.threads = threads, options.row_state = row_state;
  options.rows_per_step = options.classes_per_step = 1024;
  options.draw = "frequency";
  options.step = 0.004, options.rule.rho = 0.1, options.rule.rho_falls = false;
  options.visit = Visit::shuffle;
  options.intercept = options.start_at_frequencies = true;
  return options;
}

// The vectors that the steps of an epoch touch, drawn beforehand.
struct LearntTrace {
  std::vector<std::vector<FeatureId>> features;
  std::vector<std::vector<ClassId>> classes;
};

LearntTrace learnt_trace(const DataView& data, const Recipe& options) {
  LearntTrace out;
  const std::uint64_t n = options.rows_per_step;
  const std::unique_ptr<Draw> draw = draw_for(options, facts_of(data));
  VisitOrder order(options.visit, options.seed, data.size(), n);
  order.start_epoch(0);
  const CounterRandom random(options.seed, Stream::draw, 0);
  DrawBuffer drawn;
  drawn.shape(1, draw->most_classes());
  for (std::uint64_t t = 0; t < steps_per_epoch(data.size(), options); ++t) {
    std::vector<ExampleId> rows(std::min<std::uint64_t>(n, data.size() - t * n));
    order.fill(t * n, rows);
    std::vector<ClassId> classes;
    std::vector<FeatureId> features;
    for (const ExampleId i : rows) {
      classes.push_back(data.label(i));
      features.insert(features.end(), data.x(i).index.begin(), data.x(i).index.end());
    }
    draw->fill(random, t, 1, classes, rows, drawn);
    classes.insert(classes.end(), drawn.classes.begin(), drawn.classes.begin() + drawn.count[0]);
    out.classes.push_back(std::move(classes));
    out.features.push_back(std::move(features));
  }
  return out;
}

constexpr std::size_t kLineFloats = 16;

// One number of every line of a vector, read, or read and written.
void read_lines(const float* row, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kLineFloats) use(row[i]);
}
void write_lines(float* row, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kLineFloats) launder(row[i]);
}

// Reads the vectors, as forward and score do; then reads and writes them and their squares, as the updates
// do.
void touch_vectors(Embedding& table, HugeVector<float>& square, std::span<const std::uint32_t> rows) {
  constexpr std::size_t kAhead = 8;
  const std::size_t h = table.columns, per_row = square.size() / table.rows;
  for (const bool writes : {false, true})
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i + kAhead < rows.size()) {
        const std::size_t next = rows[i + kAhead];
        for (std::size_t d = 0; d < h; d += kLineFloats) __builtin_prefetch(table.row(next) + d);
        for (std::size_t d = 0; writes && d < per_row; d += kLineFloats)
          __builtin_prefetch(square.data() + next * per_row + d);
      }
      if (!writes) {
        read_lines(table.row(rows[i]), h);
        continue;
      }
      write_lines(table.row(rows[i]), h);
      write_lines(square.data() + rows[i] * per_row, per_row);
    }
}

struct LearntRates {
  double steps, touches;  // per second
};

LearntRates learnt_rates(std::size_t size, const Recipe& options, std::size_t rows, std::size_t nonzeros,
                         std::size_t rounds) {
  const DataView data(make_data({.rows = rows, .features = size, .nonzeros = nonzeros}, size, 1));
  RunState state = make_state(data, options);
  StepLoop loop(data, plan_of(data, options));
  const std::atomic<bool> stop{false};
  loop.run(state, stop, nullptr);  // also writes every page that the steps need
  for (const Embedding* table : {&state.learnt.tables.features, &state.learnt.classes})
    for (const float v : table->numbers)
      if (!std::isfinite(v)) throw std::runtime_error("a number is not finite: nothing to time");
  const LearntTrace trace = learnt_trace(data, options);
  // Several threads can only be timed by the wall clock.
  const auto clock = [&] { return options.threads == 1 ? thread_seconds() : now(); };
  double steps = 1e300, touches = 1e300;
  for (std::size_t round = 0; round < rounds; ++round) {
    double start = clock();
    loop.run(state, stop, nullptr);
    steps = std::min(steps, clock() - start);
    start = clock();
    for (std::size_t t = 0; t < trace.classes.size(); ++t) {
      touch_vectors(state.learnt.tables.features, state.learnt.features_square, trace.features[t]);
      touch_vectors(state.learnt.classes, state.learnt.classes_square, trace.classes[t]);
    }
    touches = std::min(touches, clock() - start);
  }
  const auto count = static_cast<double>(trace.classes.size());
  return {count / steps, count / touches};
}

}  // namespace

int bench_learnt(const std::map<std::string, std::string>& settings) {
  const auto count = [&](const char* key, std::size_t missing) {
    const auto found = settings.find(key);
    return found == settings.end() ? missing : std::stoul(found->second);
  };
  const Recipe options =
      learnt_bench_options(count("hidden", 128), count("threads", 1), count("row_state", 0) != 0);
  const std::size_t few = count("few", 10000), many = count("many", 1000000), rows = count("rows", 200000);
  const std::size_t nonzeros = count("nonzeros", 10), rounds = count("rounds", 3);
  const LearntRates small = learnt_rates(few, options, rows, nonzeros, rounds);
  const LearntRates large = learnt_rates(many, options, rows, nonzeros, rounds);
  nlohmann::ordered_json out{{"hidden", options.hidden},
                             {"threads", options.threads},
                             {"row_state", options.row_state},
                             {"rows_per_step", options.rows_per_step},
                             {"classes_per_step", options.classes_per_step},
                             {"nonzeros", nonzeros},
                             {"few", few},
                             {"many", many},
                             {"steps_per_second_few", small.steps},
                             {"steps_per_second_many", large.steps},
                             {"slower", small.steps / large.steps},
                             {"touch_steps_per_second_few", small.touches},
                             {"touch_steps_per_second_many", large.touches},
                             {"touch_slower", small.touches / large.touches}};
  fmt::print("{}\n", out.dump());
  return small.steps / large.steps <= small.touches / large.touches ? 0 : 1;
}

}  // namespace truemax
