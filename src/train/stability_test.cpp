// Extreme features and steps, huge and tiny: W always stays finite, and the run either finishes or reports
// that it diverged.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "data/test_access.hpp"
#include "rule/methods.hpp"
#include "train/fit.hpp"
#include "train/step_inputs.hpp"
#include "train/step_shape.hpp"
#include "train/test_support.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

// Returns true if the run diverged.
bool run_until_divergence(const Dataset& data, const Recipe& options, RunState& state) {
  StepLoop loop(data, planned(data, options));
  const std::atomic<bool> stop{false};
  try {
    while (state.epoch < options.epochs) loop.run(state, stop, {});
  } catch (const DivergenceError& error) {
    EXPECT_NE(std::string(error.what()).find("--step"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(options.method), std::string::npos) << error.what();
    return true;
  }
  return false;
}

void expect_sound(const Dataset& data, const RunState& state, const std::string& what,
                  bool u_may_be_negative = false) {
  ASSERT_TRUE(std::isfinite(state.weights.largest())) << what;
  // An upper bound, up to the rounding of each sum to float.
  EXPECT_GE(state.largest_weight * (1 + 1e-5), state.weights.largest()) << what;
  for (const RowState& row : state.rows) {
    ASSERT_TRUE(std::isfinite(row.u)) << what;
    ASSERT_TRUE(row.u >= 0 || u_may_be_negative) << what;
  }
  for (std::size_t i = 0; i < data.size(); ++i)
    for (ClassId k = 0; k < state.weights.classes(); ++k)
      ASSERT_TRUE(std::isfinite(score(state.weights, x_of(data, i), k))) << what;
}

struct MethodCase {
  const char* method;
  std::uint64_t classes_per_step;
};
constexpr MethodCase kCases[] = {{"implicit", 1}, {"umax", 1}, {"umax", 5}};

TEST(StepLoop, WStaysFiniteForAnyValuesAndSteps) {
  for (const MethodCase& c : kCases)
    for (const double scale : {1e-38, 1e-30, 1e-7, 1.0, 1e7, 1e19, 1e30, 1e38})
      for (const double step : {1e-12, 1e-3, 1.0, 1e3, 1e12, 1e15})
        for (const bool intercept : {false, true}) {
          const Dataset data = random_data({.rows = 150, .classes = 9, .weights = true, .scale = scale});
          Recipe options = options_of(c.method, c.classes_per_step);
          options.step = step, options.decay = 1, options.epochs = 3, options.intercept = intercept;
          RunState state = make_state(data, options);
          run_until_divergence(data, options, state);
          expect_sound(
              data, state,
              std::string(c.method) + " scale " + std::to_string(scale) + " step " + std::to_string(step));
        }
}

// The same for every method and step shape, with and without ridge.
TEST(EveryMethod, WStaysFiniteEvenIfItDiverges) {
  for (const MethodInfo* info : methods())
    for (const Shape shape : {Shape{1, 1}, Shape{1, 5}, Shape{10, 5}})
      for (const double scale : {1e-30, 1.0, 1e7, 1e30})
        for (const double step : {1e-12, 1.0, 1e3, 1e12, 1e15})
          for (const double ridge : {0.0, 0.1, 1e6}) {
            if (shape.n > info->most_rows || shape.m > info->most_classes) continue;
            const Dataset data = random_data({.rows = 60, .classes = 9, .weights = true, .scale = scale});
            Recipe options = options_of(std::string(info->name), shape.m);
            options.rows_per_step = shape.n, options.ridge = ridge;
            options.step = step, options.decay = 1, options.epochs = 2, options.intercept = ridge == 0.1;
            RunState state = make_state(data, options);
            const bool diverged = run_until_divergence(data, options, state);
            const std::string what = std::string(info->name) + ' ' + std::to_string(shape.n) + 'x' +
                                     std::to_string(shape.m) + " scale " + std::to_string(scale) + " step " +
                                     std::to_string(step) + " ridge " + std::to_string(ridge);
            expect_sound(data, state, what, info->refreshes || info->signed_u);
            EXPECT_TRUE(!diverged || info->can_diverge || scale != 1.0) << what;
          }
}

// Every step takes W far outside its ball, and the projection brings it back. The tiny scales that this leads
// to, and exponents that huge scores round upwards, are not divergence.
TEST(StepLoop, UmaxDoesNotDivergeOnLongRowsAndHugeSteps) {
  for (const double step : {1e3, 1e6, 1e12})
    for (const double ridge : {0.0, 1.0, 100.0})
      for (const std::uint64_t n : {1U, 10U})
        for (const std::uint64_t m : {1U, 3U}) {
          const Dataset data =
              random_data({.rows = 30, .classes = 4, .features = 2, .most_nonzeros = 2, .scale = 1e3});
          Recipe options = options_of("umax", m);
          options.rows_per_step = n, options.ridge = ridge, options.step = step, options.decay = 1,
          options.epochs = 20;
          RunState state = make_state(data, options);
          EXPECT_FALSE(run_until_divergence(data, options, state))
              << step << ' ' << ridge << ' ' << n << 'x' << m;
          expect_sound(data, state, "umax");
          double length = 0;
          for (ClassId k = 0; k < 4; ++k) length += state.weights.squared_norm(k);
          if (ridge > 0) {
            EXPECT_LE(std::sqrt(length), rule_problem(data, options).weight_bound() * (1 + 1e-4));
          }
        }
}

// Rows below and above the range of the float32 kernels in one group.
TEST(StepLoop, StaysFiniteForTinyAndHugeRowsTogether) {
  for (const MethodCase& c : kCases)
    for (const double step : {1e-12, 1.0, 1e12}) {
      Dataset data = random_data({.rows = 400, .classes = 50});
      for (std::size_t i = 0; i < data.rows.rows(); ++i)
        for (std::uint64_t j = data.rows.begin[i]; j < data.rows.begin[i + 1]; ++j)
          data.rows.value[j] *= i % 3 == 0 ? 1e-30F : i % 3 == 1 ? 1e30F : 1.0F;
      Recipe options = options_of(c.method, c.classes_per_step);
      options.step = step, options.decay = 1, options.epochs = 3;
      RunState state = make_state(data, options);
      run_until_divergence(data, options, state);
      expect_sound(data, state, c.method);
    }
}

TEST(StepLoop, ImplicitNeverDivergesOnRowsOfUnitSize) {
  for (const double step : {1e-12, 1.0, 1e6, 1e12, 1e15}) {
    const Dataset data = random_data({.rows = 300, .classes = 20});
    Recipe options = options_of("implicit", 1);
    options.step = step, options.decay = 1, options.epochs = 5;
    RunState state = make_state(data, options);
    EXPECT_FALSE(run_until_divergence(data, options, state)) << step;
    // Proposition 2 bounds a step by the logarithm of the step size, so W stays moderate.
    EXPECT_LT(state.weights.largest(), 1e5) << step;
    expect_sound(data, state, "implicit");
  }
}

// With a threshold so large that u never jumps, U-max is plain SGD, which does diverge.
TEST(StepLoop, ReportsDivergenceAndUndoesTheStep) {
  Dataset data = random_data({.rows = 300, .classes = 20, .scale = 30});
  Recipe options = options_of("umax", 5);
  options.step = 1e4, options.decay = 1, options.epochs = 20, options.rule.delta = 1e6;
  RunState state = make_state(data, options);
  EXPECT_TRUE(run_until_divergence(data, options, state));
  expect_sound(data, state, "umax");
  EXPECT_GT(state.step + state.epoch, 0U);
  // The same run diverges at the same step with the same state.
  const auto before = bits_of(state);
  const std::uint64_t step = state.step;
  RunState again = make_state(data, options);
  EXPECT_TRUE(run_until_divergence(data, options, again));
  EXPECT_EQ(again.step, step);
  EXPECT_EQ(bits_of(again), before);
}

TEST(StepSize, FallsByTheDecayAndStaysAboveZero) {
  Recipe options;
  options.step = 10, options.decay = 0.9;
  EXPECT_DOUBLE_EQ(options.step_at(0), 10);
  EXPECT_DOUBLE_EQ(options.step_at(1), 9);
  EXPECT_DOUBLE_EQ(options.step_at(50), 10 * std::pow(0.9, 50));
  for (const std::uint64_t epoch : {std::uint64_t{7000}, std::uint64_t{1} << 40}) {
    EXPECT_GT(options.step_at(epoch), 0);
    EXPECT_TRUE(std::isnormal(options.step_at(epoch)));
  }
  options.decay = 1;
  EXPECT_EQ(options.step_at(1000000), 10);
}

TEST(StepLoop, VanishingStepsChangeNothing) {
  const Dataset data = random_data({});
  for (const MethodCase& c : kCases) {
    Recipe options = options_of(c.method, c.classes_per_step);
    RunState state = run_epochs(data, options);
    const double before = state.weights.largest();
    state.epoch = 1000000;  // 0.9^1000000 underflows
    options.epochs = 1000001;
    EXPECT_FALSE(run_until_divergence(data, options, state));
    EXPECT_EQ(state.weights.largest(), before) << c.method;
    expect_sound(data, state, c.method);
  }
}

// The trainer stops a diverging method before the step that would overflow float32: the state has the bits of
// a run of the steps before it.
TEST(EveryMethod, DivergedStepLeavesTheStateUnchanged) {
  std::size_t seen = 0;
  for (const MethodInfo* info : methods())
    for (const std::uint64_t n : {1U, 7U})
      for (const double ridge : {0.0, 1.0}) {
        if (!info->can_diverge) continue;
        ++seen;
        const Dataset data = random_data({.rows = 150, .classes = 9, .weights = true});
        Recipe options = options_of(std::string(info->name), 2);
        options.rows_per_step = n, options.ridge = ridge, options.intercept = ridge > 0;
        options.step = 1e4 * static_cast<double>(n), options.decay = 1, options.epochs = 50;
        RunState state = make_state(data, options);
        ASSERT_TRUE(run_until_divergence(data, options, state)) << info->name;
        const std::uint64_t steps_an_epoch = steps_per_epoch(data.size(), options);
        const std::uint64_t done = state.epoch * steps_an_epoch + state.step;
        ASSERT_GT(done, 0U) << info->name;  // not at the first step: there is something to keep
        options.steps = done;
        RunState before = make_state(data, options);
        StepLoop loop(data, planned(data, options));
        StepSchedule plan(options, steps_an_epoch);
        const std::atomic<bool> stop{false};
        while (before.epoch * steps_an_epoch + before.step < done) loop.run(before, stop, {}, &plan);
        EXPECT_EQ(bits_of(state), bits_of(before)) << info->name << " rows " << n << " ridge " << ridge;
        expect_sound(data, state, std::string(info->name), true);
      }
  EXPECT_GT(seen, 8U);
}

}  // namespace
}  // namespace truemax
