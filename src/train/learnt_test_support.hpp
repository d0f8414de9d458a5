// Learnt features in tests: options, and a whole epoch against the formulas.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "data/text_set.hpp"
#include "data/triples.hpp"
#include "train/fit.hpp"
#include "train/learnt_oracle.hpp"
#include "train/step_inputs.hpp"
#include "train/step_shape.hpp"
#include "train/test_support.hpp"

namespace truemax {

inline Recipe learnt_options(std::uint64_t rows, std::uint64_t classes, std::uint64_t hidden = 7) {
  Recipe options = options_of("scent", classes, Visit::shuffle);
  options.hidden = hidden;
  options.rows_per_step = rows;
  options.draw = "frequency";
  options.step = 0.01;
  options.intercept = options.start_at_frequencies = true;
  options.rule.rho = 0.1, options.rule.rho_falls = false;
  return options;
}

struct TextShape {
  std::size_t words = 200, kinds = 12;
  EncoderKind encoder = EncoderKind::context;
  std::uint64_t context = 3;
};

// A word often follows the word before it in the list.
inline Dataset random_text(const TextShape& shape) {
  RawRows raw;
  raw.format = Format::text, raw.path = "text";
  raw.words.emplace_back("<eos>");
  for (std::size_t w = 1; w < shape.kinds; ++w) raw.words.push_back("w" + std::to_string(w));
  const CounterRandom random(3, Stream::generate_row, 0);
  FeatureId last = 0;
  for (std::size_t i = 0; i < shape.words; ++i) {
    const CounterRandom::Block r = random.at(i);
    last = uniform_unit(r.first) < 0.7 ? (last + 1) % static_cast<FeatureId>(shape.kinds)
                                       : static_cast<FeatureId>(uniform_below(r.second, shape.kinds));
    raw.rows.index.push_back(last);
    raw.rows.value.push_back(1);
  }
  raw.rows.begin.push_back(raw.rows.index.size());
  raw.label_begin.push_back(0);
  PreprocessOptions options;
  options.encoder = shape.encoder, options.context = shape.context;
  return make_text_set(std::move(raw), options, "");
}

// Triples in which the relation and the head decide the tail, most of the time.
inline RawRows raw_triples(std::size_t count, std::uint32_t entities, std::uint32_t relations, bool weights,
                           std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RawRows raw;
  raw.format = Format::triples;
  for (std::uint32_t e = 0; e < entities; ++e) raw.label_names.push_back("e" + std::to_string(e));
  for (std::uint32_t r = 0; r < relations; ++r) raw.words.push_back("r" + std::to_string(r));
  for (std::size_t i = 0; i < count; ++i) {
    const auto head = static_cast<std::uint32_t>(random() % entities),
               relation = static_cast<std::uint32_t>(random() % relations);
    raw.rows.index.insert(raw.rows.index.end(), {head, relation});
    raw.rows.value.insert(raw.rows.value.end(), {1.0F, 1.0F});
    raw.rows.begin.push_back(raw.rows.index.size());
    raw.label.push_back(random() % 4 == 0 ? static_cast<std::uint32_t>(random() % entities)
                                          : (head + relation + 1) % entities);
    raw.label_begin.push_back(raw.label.size());
    if (weights) raw.weight.push_back(0.5 + static_cast<double>(i % 3));
  }
  return raw;
}

inline DataView some_triples(std::size_t count, std::uint32_t entities = 15, std::uint32_t relations = 3,
                             bool weights = false, std::uint64_t seed = 1) {
  return make_triples_set(raw_triples(count, entities, relations, weights, seed), {}, "");
}

inline Recipe complex_options(std::uint64_t rows, std::uint64_t classes, std::uint64_t hidden) {
  Recipe options = options_of("scent", classes, Visit::shuffle);
  options.hidden = hidden, options.rows_per_step = rows, options.draw = "frequency", options.step = 0.01;
  options.ridge = 0.05, options.epochs = 1;
  options.rule.rho = 0.1, options.rule.rho_falls = false;
  return options;
}

// W = 0 at the start, where the features have no gradient.
inline void move_classes(RunState& state) {
  if (!state.learnt.tied()) fill_normal(state.learnt.classes, 0.5, 9, 0, 1);
}

// Calls take(rows, drawn classes, their weights, rho) for every step of the first epoch.
template <class Take>
void for_each_step(const DataView& data, const Recipe& options, const Take& take) {
  const std::uint64_t n = options.rows_per_step;
  const std::unique_ptr<Draw> draw = draw_for(options, facts_of(data));
  const double rho = draw->complete() ? 1e6 : options.rule.rho;
  VisitOrder order(options.visit, options.seed, data.size(), n, data.rows_of_inputs());
  order.start_epoch(0);
  const CounterRandom random(options.seed, Stream::draw, 0);
  for (std::uint64_t t = 0; t < steps_per_epoch(data.size(), options); ++t) {
    std::vector<ExampleId> rows(std::min<std::uint64_t>(n, data.size() - t * n));
    order.fill(t * n, rows);
    std::vector<ClassId> labels;
    for (const ExampleId i : rows) labels.push_back(data.label(i));
    DrawBuffer drawn;
    drawn.shape(1, draw->most_classes());
    draw->fill(random, t, 1, labels, rows, drawn);
    take(rows, std::vector<ClassId>(drawn.classes.begin(), drawn.classes.begin() + drawn.count[0]),
         std::vector<double>(drawn.weights.begin(), drawn.weights.begin() + drawn.count[0]), rho);
  }
}

// Takes one epoch of steps as the formulas say.
inline void take_slow_epoch(const DataView& data, const Recipe& options, SlowLearnt& slow) {
  double total_weight = 0;
  for (const ExampleId i : data.examples()) total_weight += data.weight(i);
  for_each_step(data, options, [&](const auto& rows, const auto& drawn, const auto& weights, double rho) {
    slow.step(rows, drawn, weights, rho, options.step_at(0), total_weight);
  });
}

inline void expect_the_steps_of_the_formulas(const DataView& data, const Recipe& options) {
  RunState state = make_state(data, options);
  move_classes(state);
  SlowLearnt slow(data, options, state);
  take_slow_epoch(data, options, slow);
  StepLoop loop(data, planned(data, options));
  const std::atomic<bool> stop{false};
  ASSERT_TRUE(loop.run(state, stop, {}));
  // A step divides by the square root of squares: where those are tiny, rounding decides the direction.
  const auto same = [&](float fast, double wanted, double square) {
    if (std::sqrt(square) < 1e-6) return;
    EXPECT_NEAR(static_cast<double>(fast), wanted, 1e-3 * (1 + std::abs(wanted)));
  };
  const LearntState& learnt = state.learnt;
  const auto same_table = [&](const Embedding& fast, const SlowLearnt::Matrix& wanted,
                              const SlowLearnt::Matrix& square) {
    ASSERT_EQ(fast.rows, wanted.size());
    for (std::size_t r = 0; r < wanted.size(); ++r)
      for (std::size_t d = 0; d < options.hidden; ++d) same(fast.row(r)[d], wanted[r][d], square[r][d]);
  };
  same_table(learnt.tables.features, slow.e, slow.e_square);
  same_table(learnt.tables.mixing, slow.c, slow.c_square);
  same_table(learnt.classes, slow.w, slow.w_square);
  for (std::size_t k = 0; k < slow.b.size(); ++k) same(learnt.intercept[k], slow.b[k], slow.b_square[k]);
  ASSERT_EQ(state.rows.size(), slow.u.size());
  for (std::size_t r = 0; r < slow.u.size(); ++r) EXPECT_NEAR(state.rows[r].u, slow.u[r], 2e-3);
}

}  // namespace truemax
