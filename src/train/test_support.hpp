// Shared by the tests of this folder: small random data sets, plans, a fake clock, and the bits of a state.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "data/data_view.hpp"
#include "train/bind.hpp"
#include "train/fit.hpp"
#include "train/resolve.hpp"
#include "train/start.hpp"
#include "train/step_inputs.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

// Rows and drawn classes of a step.
struct Shape {
  std::uint64_t n, m;
};

struct DataShape {
  std::size_t rows = 300, classes = 12, features = 20, most_nonzeros = 8;
  bool weights = false;  // row weights, and several examples per row
  double scale = 1;      // of the values
  std::uint64_t seed = 1;
};

// Rows whose label depends on their features.
inline Dataset random_data(const DataShape& shape) {
  std::mt19937_64 random(shape.seed);
  Dataset data;
  std::vector<std::string> names;
  std::vector<double> counts;
  for (std::size_t k = 0; k < shape.classes; ++k) names.push_back(std::to_string(k)), counts.push_back(1);
  data.classes = std::make_shared<ClassList>(names, counts);
  auto space = std::make_shared<FeatureSpace>();
  space->features = static_cast<FeatureId>(shape.features);
  data.space = space;
  std::uniform_int_distribution<FeatureId> feature(0, static_cast<FeatureId>(shape.features - 1));
  std::uniform_int_distribution<std::size_t> length(1, shape.most_nonzeros);
  std::uniform_int_distribution<ClassId> any(0, static_cast<ClassId>(shape.classes - 1));
  std::uniform_real_distribution<double> size(0.2, 1.0);
  for (std::size_t i = 0; i < shape.rows; ++i) {
    std::vector<FeatureId> index(length(random));
    for (FeatureId& f : index) f = feature(random);
    std::sort(index.begin(), index.end());
    index.erase(std::unique(index.begin(), index.end()), index.end());
    for (const FeatureId f : index)
      data.rows.index.push_back(f), data.rows.value.push_back(static_cast<float>(shape.scale * size(random)));
    data.rows.begin.push_back(data.rows.index.size());
    const std::size_t examples = shape.weights ? 1 + i % 3 : 1;
    for (std::size_t e = 0; e < examples; ++e) {
      const bool noise = any(random) % 3 == 0;
      data.label.push_back(
          noise ? any(random) : static_cast<ClassId>((index[0] + e) % static_cast<FeatureId>(shape.classes)));
      data.label_set.push_back(data.label.back());
      if (!shape.weights) continue;
      data.example_row.push_back(static_cast<RowId>(i));
      data.weight.push_back(1.0F / static_cast<float>(examples));
    }
    data.label_begin.push_back(data.label_set.size());
  }
  return data;
}

// A clock that moves by add(), and by `tick` seconds each time it is read, so that a run does not depend on
// the speed of the machine.
class FakeClock {
 public:
  explicit FakeClock(double tick = 0) : tick_(of(tick)) {}
  void add(double seconds) { now_ += of(seconds); }
  double seconds() const { return std::chrono::duration<double>(now_.time_since_epoch()).count(); }
  TimeSource source() {
    return [this] {
      now_ += tick_;
      return now_;
    };
  }

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::duration of(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  Clock::time_point now_{};
  Clock::duration tick_;
};

// Everything a run has learnt, bit for bit.
inline std::vector<std::uint64_t> bits_of(const RunState& state) {
  std::vector<std::uint64_t> bits{state.epoch, state.step};
  const auto put = [&](double v) {
    std::uint64_t b = 0;
    std::memcpy(&b, &v, sizeof b);
    bits.push_back(b);
  };
  for (const RowState& row : state.rows) put(row.u);
  std::vector<float> of_class(state.weights.features());
  for (ClassId k = 0; k < state.weights.classes(); ++k) {
    state.weights.copy_class(k, of_class);
    for (const float v : of_class) put(static_cast<double>(v));
  }
  for (const float v : state.weights.intercept()) put(static_cast<double>(v));
  const LearntState& learnt = state.learnt;
  for (const Embedding* table : {&learnt.tables.features, &learnt.tables.mixing, &learnt.classes})
    for (const float v : table->numbers) put(static_cast<double>(v));
  for (const auto* squares : {&learnt.features_square, &learnt.mixing_square, &learnt.classes_square})
    for (const float v : *squares) put(static_cast<double>(v));
  return bits;
}

// What a counting function is told of these rows on this machine. All ranks ask.
struct Told {
  Told(const TrainSets& sets, const Recipe& of, std::uint64_t memory_limit = 0)
      : recipe(of),
        problem(facts_of(sets, false, {.squares = true, .cosines = of.hidden == 0}, 1)),
        machine(machine_of(recipe.threads, memory_limit, problem)),
        draw(draw_for(recipe, problem)) {}
  Told(const DataView& data, const Recipe& of) : Told(TrainSets{data}, of) {}
  Facts facts() const { return {recipe, problem, machine, draw.get()}; }

  Recipe recipe;
  Problem problem;
  Machine machine;
  std::unique_ptr<Draw> draw;  // null: every step takes all classes
};

// The plan of these rows on this machine. All ranks ask.
inline Plan planned(const TrainSets& sets, const Recipe& recipe) {
  const bool groups = recipe.hidden == 0 && (recipe.group > 0 || !ranks().alone());
  const Problem problem = facts_of(sets, false, {.squares = groups || recipe.on_gpu(), .cosines = groups}, 1);
  return bind(recipe, problem, machine_of(recipe.threads, 0, problem));
}
inline Plan planned(const DataView& data, const Recipe& recipe) {
  return planned(TrainSets{data}, recipe);
}

// What becomes of what was asked, with these rows on this machine. All ranks ask.
struct Decided {
  Decided(const Asked& asked, const TrainSets& sets, std::uint64_t memory_limit = 0) {
    const FeatureSpace& space = *sets.data.space;
    const bool linear = space.encoder == EncoderKind::linear;
    reading = resolve_reading(asked,
                              {.encoder = linear ? EncoderKind::automatic : space.encoder,
                               .triples = space.of_triples(),
                               .has_valid = sets.valid.has_value(),
                               .in_groups = ranks().in_groups()},
                              {});
    problem = facts_of(sets, false, reading.wanted, 1);
    machine = machine_of(asked.threads.value_or(0), memory_limit, problem);
    Resolved resolved = resolve(asked, problem, machine, {});
    if (resolved.needs_card) {
      look_for_card(machine);
      resolved = resolve(asked, problem, machine, {});
    }
    recipe = std::move(resolved.recipe);
    notes = std::move(resolved.notes);
  }
  Decided(const Asked& asked, const DataView& data) : Decided(asked, TrainSets{data}) {}

  Reading reading;
  Problem problem;
  Machine machine;
  Recipe recipe;
  std::vector<std::string> notes;
};

inline RunState run_epochs(const DataView& data, const Recipe& options) {
  RunState state = make_state(data, options);
  StepLoop loop(data, planned(data, options));
  const std::atomic<bool> stop{false};
  while (state.epoch < options.epochs) loop.run(state, stop, {});
  loop.publish(state);
  return state;
}

inline Recipe options_of(std::string method, std::uint64_t classes_per_step, Visit visit = Visit::random) {
  Recipe options;
  options.method = std::move(method);
  options.classes_per_step = classes_per_step;
  options.visit = visit;
  options.epochs = 2;
  options.threads = 1;
  return options;
}

}  // namespace truemax
