// A run that is cut between two batches, by the clock of its caller, saved, restored and continued ends with
// the bits of a run that was left alone.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <string>

#include "train/fit.hpp"
#include "train/learnt_test_support.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

RunState run_whole(const DataView& data, const Recipe& options) {
  const std::atomic<bool> stop{false};
  Fit fit(data, planned(data, options), make_state(data, options));
  EXPECT_EQ(fit.run({}, stop), Fit::End::used_up);
  return std::move(fit.state());
}

// The clock moves a second each time it is read.
RunState run_cut(const DataView& data, const Recipe& options, double seconds) {
  const std::atomic<bool> stop{false};
  FakeClock clock(1);
  Stopwatch watch(clock.source());
  watch.resume();
  Fit first(data, planned(data, options), make_state(data, options));
  first.run({.seconds = seconds, .clock = &watch}, stop);
  StateBuffer bytes;
  write(first.state(), bytes);
  RunState state;
  read(state, bytes);
  Fit rest(data, planned(data, options), std::move(state));
  EXPECT_EQ(rest.run({}, stop), Fit::End::used_up);
  return std::move(rest.state());
}

void expect_the_same_bits(const DataView& data, const Recipe& options) {
  const auto whole = bits_of(run_whole(data, options));
  for (double seconds = 1; seconds < 40; ++seconds)
    ASSERT_EQ(bits_of(run_cut(data, options, seconds)), whole) << seconds;
}

// The clock may pass the limit between two looks at it: that must not count as the end of the epochs, after
// which Newton's method begins.
TEST(InterruptedRun, CutBeforeNewtonEndsTheSame) {
  const Dataset made = random_data({.rows = 300, .classes = 5, .features = 6});
  Recipe options = options_of("prox", 2, Visit::shuffle);
  options.ridge = 0.5, options.epochs = 3, options.newton = 3;
  expect_the_same_bits(DataView(made), options);
}

// Steps that draw only their own label have no classes: nothing of the step before may be left in their
// gradient.
TEST(InterruptedRun, StepsOfLearntFeaturesWithoutClassesEndTheSame) {
  const Dataset made = random_data({.rows = 300, .classes = 3, .features = 8});
  Recipe options = learnt_options(1, 1, 4);
  options.draw = "uniform-skip", options.epochs = 2;
  expect_the_same_bits(DataView(made), options);
}

// Where one class is far above the others, those are so small that the factor on them exceeds float32.
TEST(LearntLane, SharedInputsStayFiniteAtLargeSteps) {
  for (const double step : {10.0, 1e3, 1e4, 1e5, 1e6})
    for (const double rho : {3.7e-6, 0.65}) {
      SCOPED_TRACE(testing::Message() << "step " << step << " rho " << rho);
      // Several examples of a row share its normaliser.
      Dataset made = random_data({.rows = 150, .classes = 30, .features = 20, .weights = true});
      for (std::uint32_t i = 0; i < 150; ++i) made.row_input.push_back(i);
      made.inputs = 150;
      const DataView data(made);
      Recipe options = learnt_options(14, 30, 24);
      options.draw = "frequency", options.step = step, options.rule.rho = rho, options.epochs = 4;
      options.decay = 1;
      const std::atomic<bool> stop{false};
      Fit fit(data, planned(data, options), make_state(data, options));
      fit.run({}, stop);
      for (const Embedding* table : {&fit.state().learnt.tables.features, &fit.state().learnt.classes})
        for (const float v : table->numbers) ASSERT_TRUE(std::isfinite(v));
      for (const RowState& row : fit.state().rows) ASSERT_TRUE(std::isfinite(row.u));
    }
}

}  // namespace
}  // namespace truemax
