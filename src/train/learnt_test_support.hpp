// Learnt features in tests: options, and a whole epoch against the formulas.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "train/fit.hpp"
#include "train/learnt_oracle.hpp"
#include "train/problem.hpp"
#include "train/step_shape.hpp"
#include "train/test_support.hpp"

namespace truemax {

inline TrainOptions learnt_options(std::uint64_t rows, std::uint64_t classes, std::uint64_t hidden = 7) {
  TrainOptions options = options_of("scent", classes, Visit::shuffle);
  options.hidden = hidden;
  options.rows_per_step = rows;
  options.draw = "frequency";
  options.step = 0.01;
  options.intercept = options.start_at_frequencies = true;
  options.rule.rho = 0.1, options.rule.rho_falls = false;
  return options;
}

// W = 0 at the start, where the features have no gradient.
inline void move_classes(RunState& state) {
  if (!state.learnt.tied()) fill_normal(state.learnt.classes, 0.5, 9, 0, 1);
}

// Calls take(rows, drawn classes, their weights, rho) for every step of the first epoch.
template <class Take>
void for_each_step(const DataView& data, const TrainOptions& options, const Take& take) {
  const std::uint64_t n = options.rows_per_step;
  const std::unique_ptr<Draw> draw = draw_for(data, options);
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
inline void take_slow_epoch(const DataView& data, const TrainOptions& options, SlowLearnt& slow) {
  double total_weight = 0;
  for (const ExampleId i : data.examples()) total_weight += data.weight(i);
  for_each_step(data, options, [&](const auto& rows, const auto& drawn, const auto& weights, double rho) {
    slow.step(rows, drawn, weights, rho, options.step_at(0), total_weight);
  });
}

inline void expect_the_steps_of_the_formulas(const DataView& data, const TrainOptions& options) {
  RunState state = make_state(data, options);
  move_classes(state);
  SlowLearnt slow(data, options, state);
  take_slow_epoch(data, options, slow);
  StepLoop loop(data, options);
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
