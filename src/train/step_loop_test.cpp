// The step loop: against one step after the other in double, and bit for bit against itself in every way it
// may be cut.
#include "train/fit.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "data/test_access.hpp"
#include "draw/draw.hpp"
#include "rule/methods.hpp"
#include "train/slow_trainer.hpp"
#include "train/test_support.hpp"
#include "train/visit_order.hpp"
#include "weights/kernels.hpp"
#include "weights/pairs.hpp"

namespace truemax {
namespace {

constexpr Visit kAllVisits[] = {Visit::random, Visit::shuffle, Visit::file};

// The largest difference, relative to the largest weight and the largest u.
double distance(const RunState& fast, const SlowState& slow, double least = 0.01) {
  double most_w = 0, most_u = 0, off_w = 0, off_u = 0;
  const std::size_t features = fast.weights.features();
  std::vector<float> row(features);
  for (ClassId k = 0; k < fast.weights.classes(); ++k) {
    fast.weights.copy_class(k, row);
    row.resize(features + 1);
    row[features] = fast.weights.has_intercept() ? fast.weights.intercept()[k] : 0.0F;
    for (std::size_t f = 0; f <= features; ++f) {
      most_w = std::max(most_w, std::abs(slow.w[k][f]));
      off_w = std::max(off_w, std::abs(slow.w[k][f] - static_cast<double>(row[f])));
    }
  }
  for (std::size_t i = 0; i < slow.u.size(); ++i) {
    most_u = std::max(most_u, std::abs(slow.u[i]));
    off_u = std::max(off_u, std::abs(slow.u[i] - fast.rows[i].u));
  }
  EXPECT_GT(most_w, least);  // something was learnt
  return std::max(off_w / most_w, most_u > 0 ? off_u / most_u : off_u);
}

struct LoopCase {
  const char* method;
  std::uint64_t classes_per_step;
  double step;
};
constexpr LoopCase kLoopCases[] = {
    {"implicit", 1, 1}, {"implicit", 1, 30}, {"umax", 1, 0.05}, {"umax", 5, 0.05}};

TEST(StepLoop, MatchesSequentialStepsInDouble) {
  for (const LoopCase& c : kLoopCases)
    for (const Visit visit : kAllVisits)
      for (const bool intercept : {false, true})
        for (const bool weights : {false, true})
          for (const std::size_t classes : {2U, 12U, 400U}) {
            const Dataset data = random_data({.rows = 500, .classes = classes, .weights = weights});
            Recipe options = options_of(c.method, c.classes_per_step, visit);
            options.intercept = intercept;
            options.step =
                c.step / static_cast<double>(c.method == std::string("umax") && classes > 100 ? 10 : 1);
            EXPECT_LT(distance(run_epochs(data, options), slow_epochs(data, options)), 2e-5)
                << c.method << " m " << c.classes_per_step << " step " << c.step << " visit "
                << static_cast<int>(visit) << " intercept " << intercept << " weights " << weights
                << " classes " << classes;
          }
}

// Every method and step shape, with and without ridge, intercept (inside and outside the ridge) and row
// weights: lazy scales, tracked norms and lazy smoothing match the eager ones.
TEST(EveryMethod, MatchesTheSlowTrainerInEveryShape) {
  for (const MethodInfo* info : methods())
    for (const Shape shape : {Shape{1, 1}, Shape{1, 5}, Shape{7, 1}, Shape{20, 5}})
      for (const double ridge : {0.0, 3.0})
        for (const int kind : {0, 1, 2}) {
          if (shape.n > info->most_rows || shape.m > info->most_classes) continue;
          const Dataset data = random_data({.rows = 130, .classes = 12, .weights = kind == 2});
          Recipe options = options_of(std::string(info->name), shape.m, Visit::random);
          options.rows_per_step = shape.n;
          options.ridge = ridge;
          options.intercept = kind > 0, options.ridge_intercept = kind == 2;
          options.epochs = 3;
          options.step = (info->can_diverge ? 0.005 : 0.05) * static_cast<double>(shape.n);
          EXPECT_LT(distance(run_epochs(data, options), slow_epochs(data, options)), 3e-5)
              << info->name << ' ' << shape.n << 'x' << shape.m << " ridge " << ridge << " kind " << kind;
        }
}

// A ridge so large that W reaches the ball of Lemma 1.
TEST(StepLoop, ProjectsOntoTheBallWithTrackedNorms) {
  for (const std::uint64_t n : {1U, 7U})
    for (const bool intercept : {false, true}) {
      const Dataset data = random_data({.rows = 130, .classes = 12, .scale = 3});
      Recipe options = options_of("umax", 3);
      options.rows_per_step = n;
      options.intercept = intercept;
      options.ridge = 400, options.step = 0.3, options.epochs = 4, options.decay = 1;
      const SlowState slow = slow_epochs(data, options);
      EXPECT_GT(slow.projections, 2U);
      EXPECT_LT(distance(run_epochs(data, options), slow), 1e-4) << n << ' ' << intercept;
    }
}

// A step so large that every visit divides the weights by a thousand, so that scales are folded into memory
// repeatedly.
TEST(StepLoop, KeepsLazyScalesWithinFloat) {
  for (const char* method : {"implicit", "umax", "exact", "composition"}) {
    const Dataset data = random_data({.rows = 300, .classes = 12});
    Recipe options = options_of(method, 2);
    options.ridge = 3e4, options.step = method == std::string("composition") ? 0.5 : 30, options.decay = 1;
    const RunState state = run_epochs(data, options);
    EXPECT_TRUE(std::isfinite(state.weights.largest()));
    EXPECT_LT(distance(state, slow_epochs(data, options), 0), 3e-5) << method;
  }
}

// Rows so long or short that float32 sums would lose them, alone and mixed with others in one group.
TEST(StepLoop, MatchesForVeryLongAndShortRows) {
  for (const double scale : {1e-25, 1e-9, 1e9, 1e25})
    for (const bool mixed : {false, true}) {
      Dataset data = random_data({.rows = 500, .classes = 200, .scale = scale});
      if (mixed)
        for (std::size_t j = 0; j < data.rows.nonzeros(); ++j)
          if (data.rows.index[j] % 2 == 0) data.rows.value[j] = 0.5F;
      Recipe options = options_of("implicit", 1);
      options.step = 3;
      EXPECT_LT(
          distance(run_epochs(data, options), slow_epochs(data, options), std::min(scale, 1 / scale) / 10),
          2e-5)
          << scale << ' ' << mixed;
    }
}

// Grouping steps does not change a bit: the reference uses the same kernels one step at a time.
TEST(StepLoop, SameBitsAsOneStepAtATime) {
  for (const std::size_t classes : {2U, 7U, 60U, 5000U})
    for (const bool intercept : {false, true}) {
      const Dataset data = random_data({.rows = 1000, .classes = classes, .weights = true});
      Recipe options = options_of("implicit", 1);
      options.intercept = intercept;
      options.step = 5;
      RunState slow = make_state(data, options);
      const ImplicitRule rule(options.rule, {});
      const auto draw = make_draw({.name = "uniform", .classes = classes});
      VisitOrder order(options.visit, options.seed, data.size());
      for (; slow.epoch < options.epochs; ++slow.epoch) {
        order.start_epoch(slow.epoch);
        for (std::uint64_t t = 0; t < data.size(); ++t) {
          ExampleId visited{};
          order.fill(t, {&visited, 1});
          const std::size_t i = number_of(visited);
          const ClassId y = data.label[i];
          DrawBuffer buffer;
          draw->fill(CounterRandom(options.seed, Stream::draw, slow.epoch), t, 1, {&y, 1}, {&visited, 1},
                     buffer);
          const ClassId k = buffer.classes[0];
          RowState& row = slow.rows[i];
          PairSteps pair{};
          pair.weight[0] = buffer.weights[0], pair.squared_norm[0] = row.squared_norm, pair.u[0] = row.u;
          pair.row_weight[0] = static_cast<double>(weight_of(data, i));
          const PairPlace place = pair_place(slow.weights, x_of(data, i), k, y);
          if (intercept) {
            const auto z = scores<2>(slow.weights, x_of(data, i), {k, y});
            pair.score_drawn[0] = z[0], pair.score_label[0] = z[1];
          } else {
            score_pairs(&place, 1, &pair.score_drawn[0], &pair.score_label[0]);
          }
          rule.step_pairs(pair, 1, options.step_at(slow.epoch));
          row.u = pair.u[0];
          if (intercept)
            add<2>(slow.weights, x_of(data, i), {k, y}, {-pair.coefficient[0], pair.coefficient[0]});
          else
            add_pairs(&place, 1, &pair.coefficient[0]);
        }
      }
      EXPECT_EQ(bits_of(run_epochs(data, options)), bits_of(slow)) << classes << ' ' << intercept;
    }
}

TEST(StepLoop, BitsDependOnTheSeed) {
  for (const LoopCase& c : kLoopCases)
    for (const Visit visit : kAllVisits) {
      const Dataset data = random_data({});
      Recipe options = options_of(c.method, c.classes_per_step, visit);
      options.step = c.step;
      const auto first = bits_of(run_epochs(data, options));
      EXPECT_EQ(bits_of(run_epochs(data, options)), first) << c.method;
      options.seed = 2;
      EXPECT_NE(bits_of(run_epochs(data, options)), first) << c.method;
    }
}

// Interrupted at every opportunity, the run gives the same result.
TEST(StepLoop, ResumesAfterAStopWithTheSameBits) {
  const Dataset data = random_data({.rows = 20000, .classes = 30});
  for (const LoopCase& c : kLoopCases)
    for (const Visit visit : kAllVisits) {
      Recipe options = options_of(c.method, c.classes_per_step, visit);
      options.step = c.step;
      const auto whole = bits_of(run_epochs(data, options));
      RunState state = make_state(data, options);
      int interruptions = 0;
      while (state.epoch < options.epochs) {
        std::atomic<bool> stop{false};
        std::uint64_t seen = 0;
        StepLoop loop(data, planned(data, options));  // a new process would have a new one
        const bool finished = loop.run(state, stop, [&](std::uint64_t steps) {
          EXPECT_EQ(steps, state.step);
          seen = steps;
          stop = true;
        });
        if (finished) continue;
        ++interruptions;
        EXPECT_EQ(state.step, seen);  // not a step further
        EXPECT_LT(state.step, data.size());
      }
      EXPECT_GE(interruptions, 3);
      EXPECT_EQ(bits_of(state), whole) << c.method << ' ' << static_cast<int>(visit);
    }
}

// Every boundary between batches: in file order, a run over the first n rows is a prefix of a run over all.
TEST(StepLoop, ResumesFromAnyBoundaryWithTheSameBits) {
  const Dataset data = random_data({.rows = 1000, .classes = 40});
  for (const LoopCase& c : kLoopCases) {
    Recipe options = options_of(c.method, c.classes_per_step, Visit::file);
    options.step = c.step;
    options.epochs = 1;
    const auto whole = bits_of(run_epochs(data, options));
    for (std::size_t boundary = 128; boundary < 1000; boundary += 128) {
      Dataset part = data;
      part.label.resize(boundary);
      RunState state = run_epochs(part, options);
      state.epoch = 0;
      state.step = boundary;
      const RunState fresh = make_state(data, options);
      for (std::size_t i = boundary; i < data.size(); ++i) state.rows.push_back(fresh.rows[i]);
      const std::atomic<bool> stop{false};
      EXPECT_TRUE(StepLoop(data, planned(data, options)).run(state, stop, {}));
      EXPECT_EQ(bits_of(state), whole) << c.method << " from step " << boundary;
    }
  }
}

TEST(StepLoop, DoesNothingIfStoppedBeforeItStarts) {
  const Dataset data = random_data({});
  const Recipe options = options_of("implicit", 1);
  RunState state = make_state(data, options);
  const auto before = bits_of(state);
  const std::atomic<bool> stop{true};
  EXPECT_FALSE(StepLoop(data, planned(data, options)).run(state, stop, {}));
  EXPECT_EQ(bits_of(state), before);
}

TEST(StepLoop, IsWatchedAlsoIfEpochsAreShort) {
  const Dataset data = random_data({});
  const Recipe options = options_of("implicit", 1);
  RunState state = make_state(data, options);
  StepLoop loop(data, planned(data, options));
  const std::atomic<bool> stop{false};
  const std::uint64_t epochs = 40000 / data.size();
  std::uint64_t calls = 0;
  for (std::uint64_t e = 0; e < epochs; ++e)
    ASSERT_TRUE(loop.run(state, stop, [&](std::uint64_t steps) {
      EXPECT_LE(steps, data.size());
      ++calls;
    }));
  EXPECT_GE(calls, 3U);
  EXPECT_LE(calls, 5U);
}

TEST(MakeState, IsZeroWithRowNorms) {
  const Dataset data = random_data({.weights = true});
  for (const bool intercept : {false, true}) {
    Recipe options = options_of("implicit", 1);
    options.intercept = intercept;
    const RunState state = make_state(data, options);
    EXPECT_EQ(state.weights.largest(), 0);
    EXPECT_EQ(state.weights.has_intercept(), intercept);
    ASSERT_EQ(state.rows.size(), data.size());
    for (std::size_t i = 0; i < data.size(); ++i) {
      EXPECT_EQ(state.rows[i].u, 0);
      double norm = intercept ? 1 : 0;
      for (const float v : x_of(data, i).value) norm += static_cast<double>(v) * static_cast<double>(v);
      EXPECT_DOUBLE_EQ(state.rows[i].squared_norm, norm);
    }
  }
}

}  // namespace
}  // namespace truemax
