// Every method with every draw: the step loop against the slow trainer, the optimum, finite results at
// extremes, and the memory of a draw that learns.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "core/error.hpp"
#include "data/test_access.hpp"
#include "rule/methods.hpp"
#include "train/require.hpp"
#include "train/ridge_oracle.hpp"
#include "train/slow_trainer.hpp"
#include "train/solvers.hpp"
#include "train/test_support.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

// Three blocks of classes, the last one partial, with skewed labels.
Dataset skewed_data(std::size_t rows, bool weights) {
  constexpr std::size_t kSkewedClasses = 40;
  Dataset data = random_data({.rows = rows, .classes = kSkewedClasses, .features = 30, .weights = weights});
  for (ClassId& y : data.label) y = static_cast<ClassId>(std::size_t{y} * y / kSkewedClasses);
  return data;
}

bool takes(const MethodInfo& method, const DrawInfo& draw, Shape shape) {
  return shape.n <= method.most_rows && shape.m <= method.most_classes && (shape.n == 1 || draw.takes_rows);
}

double relative_distance(const RunState& fast, const SlowState& slow) {
  double most = 0, off = 0, off_u = 0, most_u = 0;
  std::vector<float> row(fast.weights.features());
  for (ClassId k = 0; k < fast.weights.classes(); ++k) {
    fast.weights.copy_class(k, row);
    for (std::size_t f = 0; f < row.size(); ++f) {
      most = std::max(most, std::abs(slow.w[k][f]));
      off = std::max(off, std::abs(slow.w[k][f] - static_cast<double>(row[f])));
    }
  }
  for (std::size_t i = 0; i < slow.u.size(); ++i) {
    most_u = std::max(most_u, std::abs(slow.u[i]));
    off_u = std::max(off_u, std::abs(slow.u[i] - fast.rows[i].u));
  }
  EXPECT_GT(most, 0.005);  // something was learnt
  return std::max(off / most, most_u > 0 ? off_u / most_u : off_u);
}

// 85 rows: in steps of seven, the last has one row, whose label may be among the shared classes.
TEST(EveryDraw, MatchesTheSlowTrainer) {
  for (const DrawInfo& draw : draws())
    for (const MethodInfo* info : methods())
      for (const Shape shape : {Shape{1, 1}, Shape{1, 20}, Shape{7, 1}, Shape{7, 20}})
        for (const double ridge : {0.0, 3.0}) {
          if (!takes(*info, draw, shape) || info->whole_set) continue;
          const Dataset data = skewed_data(85, false);
          Recipe options = options_of(std::string(info->name), shape.m, Visit::random);
          options.draw = draw.name, options.draws.head = 16, options.draws.active = 3;
          options.rows_per_step = shape.n, options.ridge = ridge;
          options.intercept = ridge > 0, options.epochs = 2;
          options.step = (info->can_diverge ? 0.002 : 0.05) * static_cast<double>(shape.n);
          EXPECT_LT(relative_distance(run_epochs(data, options), slow_epochs(data, options)), 3e-5)
              << draw.name << ' ' << info->name << ' ' << shape.n << 'x' << shape.m << " ridge " << ridge;
        }
}

// With all classes in every step there is no noise from drawing: with rows in file order, two seeds give the
// same bits.
TEST(AllDraw, DoesNotDependOnTheSeed) {
  const Dataset data = skewed_data(85, true);
  Recipe options = options_of("implicit", 1, Visit::file);
  options.draw = "all";
  const auto bits = bits_of(run_epochs(data, options));
  options.seed = 2;
  EXPECT_EQ(bits_of(run_epochs(data, options)), bits);
  options.classes_per_step = 7;
  EXPECT_EQ(bits_of(run_epochs(data, options)), bits);
}

// Tight enough to detect a ridge off by a factor of 2, with a margin of 4: tests the weights beta and, for
// the active draw, the weighted ridge.
TEST(EveryDraw, ReachesTheRidgeOptimum) {
  constexpr double kRidge = 10;
  const Dataset data = centres_data(300, 36);
  const RidgeOracle oracle(data, kRidge);
  const double best = oracle.value(oracle.optimum());
  for (const double other : {0.5, 2.0})
    ASSERT_GT(oracle.value(RidgeOracle(data, other * kRidge).optimum()), 1.002 * best) << other;
  for (const DrawInfo& draw : draws())
    for (const char* method : {"implicit", "umax"})
      for (const Shape shape : {Shape{1, 2}, Shape{10, 2}}) {
        if (!takes(find_method(method), draw, shape)) continue;
        Recipe options = options_of(method, shape.m, Visit::shuffle);
        options.draw = draw.name, options.draws.head = 16, options.draws.active = 3;
        options.rows_per_step = shape.n, options.ridge = kRidge;
        options.step = 0.3 * static_cast<double>(shape.n), options.decay = 0.992, options.epochs = 1000;
        const double reached = oracle.value(run_epochs(data, options));
        EXPECT_GE(reached, best * (1 - 1e-6));
        EXPECT_LT(reached, 1.0005 * best) << draw.name << ' ' << method << ' ' << shape.n << 'x' << shape.m;
      }
}

TEST(EveryDraw, WStaysFiniteEvenIfItDiverges) {
  for (const DrawInfo& draw : draws())
    for (const MethodInfo* info : methods())
      for (const Shape shape : {Shape{1, 1}, Shape{1, 20}, Shape{10, 5}})
        for (const double scale : {1e-30, 1.0, 1e7, 1e30})
          for (const double step : {1e-12, 1.0, 1e12})
            for (const double ridge : {0.0, 1e3}) {
              if (!takes(*info, draw, shape) || info->whole_set) continue;
              Dataset data = skewed_data(21, true);
              for (float& v : data.rows.value) v *= static_cast<float>(scale);
              Recipe options = options_of(std::string(info->name), shape.m);
              options.draw = draw.name, options.draws.head = 16, options.draws.uniform_share = 1e-6;
              options.draws.power = 4, options.rows_per_step = shape.n, options.ridge = ridge;
              options.step = step, options.decay = 1, options.epochs = 1;
              RunState state = make_state(data, options);
              const std::atomic<bool> stop{false};
              bool diverged = false;
              try {
                StepLoop(data, planned(data, options)).run(state, stop, {});
              } catch (const DivergenceError&) {
                diverged = true;
              }
              const std::string what = std::string(draw.name) + ' ' + std::string(info->name) + ' ' +
                                       std::to_string(shape.n) + 'x' + std::to_string(shape.m) + " scale " +
                                       std::to_string(scale) + " step " + std::to_string(step);
              ASSERT_TRUE(std::isfinite(state.weights.largest())) << what;
              for (const RowState& row : state.rows) ASSERT_TRUE(std::isfinite(row.u)) << what;
              EXPECT_TRUE(!diverged || info->can_diverge || scale != 1.0) << what;
            }
}

// A step that drew only the label moves only u.
TEST(FrequencyDraw, HandlesAStepThatDrewOnlyTheLabel) {
  Dataset data = skewed_data(50, false);
  for (ClassId& y : data.label) y = 0;
  for (const MethodInfo* info : methods()) {
    if (info->whole_set) continue;
    Recipe options = options_of(std::string(info->name), 1, Visit::file);
    options.draw = "frequency", options.draws.power = 10, options.draws.uniform_share = 1e-6;
    options.epochs = 1, options.step = 0.01;
    const RunState state = run_epochs(data, options);    // a class other than 0 is drawn once in 10^6 steps
    if (info->name != "nce" && info->name != "raman") {  // these move the label even alone
      EXPECT_EQ(state.weights.largest(), 0) << info->name;
    }
    EXPECT_TRUE(std::isfinite(state.weights.largest())) << info->name;
    for (const RowState& row : state.rows) EXPECT_TRUE(std::isfinite(row.u)) << info->name;
  }
}

// Stopped and resumed by a new loop, as after a restart: what the draw has learnt is in the state.
TEST(ActiveDraw, ResumesWithTheSameBits) {
  const Dataset data = random_data({.rows = 20000, .classes = 30});
  Recipe options = options_of("implicit", 2);
  options.draw = "active", options.draws.active = 4, options.step = 1;
  const auto whole = bits_of(run_epochs(data, options));
  RunState state = make_state(data, options);
  int interruptions = 0;
  while (state.epoch < options.epochs) {
    std::atomic<bool> stop{false};
    if (!StepLoop(data, planned(data, options)).run(state, stop, [&](std::uint64_t) { stop = true; }))
      ++interruptions;
  }
  EXPECT_GE(interruptions, 2);
  EXPECT_EQ(bits_of(state), whole);
  EXPECT_EQ(state.draw_memory.size(), data.size() * 4);
}

// After training, most of the classes in a row's memory are among its strongest.
TEST(ActiveDraw, FindsTheStrongestClassesOfItsRows) {
  const Dataset data = random_data({.rows = 300, .classes = 60});
  Recipe options = options_of("implicit", 4, Visit::shuffle);
  options.draw = "active", options.draws.active = 4, options.epochs = 60, options.step = 1;
  const RunState state = run_epochs(data, options);
  double right = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    std::vector<std::pair<double, ClassId>> z;
    for (ClassId k = 0; k < 60; ++k)
      if (k != data.label[i]) z.emplace_back(-score(state.weights, x_of(data, i), k), k);
    std::sort(z.begin(), z.end());
    std::set<ClassId> strongest;
    for (std::size_t j = 0; j < 8; ++j) strongest.insert(z[j].second);
    for (std::size_t j = 0; j < 4; ++j) right += strongest.count(state.draw_memory[i * 4 + j]) > 0 ? 1 : 0;
  }
  EXPECT_GT(right / (4.0 * static_cast<double>(data.size())), 0.7);  // at random: 8 of 59
}

TEST(MemoryPlan, CountsTheMemoryOfTheDraw) {
  const Dataset data = random_data({.rows = 1000, .classes = 12});
  Recipe options = options_of("implicit", 1);
  options.draw = "active", options.draws.active = 1;
  const auto bytes = [&] {
    const Told told(data, options);
    return solver_of_steps(told.facts()).step_bytes(told.facts());
  };
  const std::uint64_t one = bytes();
  options.draws.active = 5;
  EXPECT_GE(bytes(), one + std::uint64_t{4} * 4 * 1000);
}

TEST(Recipe, RefuseMoreRowsThanTheDrawTakes) {
  Recipe options = options_of("implicit", 1);
  options.draw = "active", options.rows_per_step = 2;
  try {
    require_possible(options);
    ADD_FAILURE() << "taken";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("the draw active is for --rows-per-step 1"), std::string::npos);
  }
  options.rows_per_step = 1;
  EXPECT_NO_THROW(require_possible(options));
}

}  // namespace
}  // namespace truemax
