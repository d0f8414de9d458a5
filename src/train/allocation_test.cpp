// Steps do not allocate once a run has started: a rule must not throw, and allocation would slow down steps.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "core/counted_allocations.hpp"
#include "rule/methods.hpp"
#include "train/fit.hpp"
#include "train/step_shape.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

std::size_t allocations_of_second_epoch(const Dataset& data, const TrainOptions& options) {
  RunState state = make_state(data, options);
  StepLoop loop(data, options);
  StepPlan plan(options, steps_per_epoch(data.size(), options));
  const std::atomic<bool> stop{false};
  EXPECT_TRUE(loop.run(state, stop, {}, &plan));
  return allocations_of([&] { EXPECT_TRUE(loop.run(state, stop, {}, &plan)); });
}

TEST(HeapCounter, SeesAllocations) {
  EXPECT_EQ(allocations_of([] {}), 0U);
  EXPECT_EQ(allocations_of([] { delete new std::string(100, 'x'); }), 2U);
}

// Every method with every draw and step shape that it allows, with and without ridge and an intercept outside
// it.
TEST(EveryMethod, AllocatesNothingAfterTheFirstEpoch) {
  std::size_t runs = 0;
  for (const MethodInfo* info : methods())
    for (const DrawInfo& draw : draws())
      for (const Shape shape :
           {Shape{1, 1}, Shape{1, 5}, Shape{1, 90}, Shape{7, 1}, Shape{7, 90}, Shape{70, 5}})
        for (const double ridge : {0.0, 3.0}) {
          if (shape.n > info->most_rows || shape.m > info->most_classes) continue;
          if (shape.n > 1 && !draw.takes_rows) continue;
          if (info->whole_set && draw.name != "uniform") continue;  // draws nothing
          const Dataset data = random_data({.rows = 100, .classes = 100, .features = 30, .weights = true});
          TrainOptions options = options_of(std::string(info->name), shape.m, Visit::random);
          options.draw = draw.name, options.draws.head = 16, options.draws.active = 3;
          options.rows_per_step = shape.n, options.ridge = ridge, options.intercept = ridge > 0;
          options.step = (info->can_diverge ? 0.002 : 0.05) * static_cast<double>(shape.n);
          options.rule.refresh = 10;  // an exact pass may allocate
          EXPECT_EQ(allocations_of_second_epoch(data, options), 0U)
              << info->name << ' ' << draw.name << ' ' << shape.n << 'x' << shape.m << " ridge " << ridge;
          ++runs;
        }
  EXPECT_GT(runs, 400U);
}

TEST(LearntLane, AllocatesNothingAfterTheFirstEpoch) {
  const Dataset data = random_data({.rows = 300, .classes = 100, .features = 90, .weights = true});
  for (const char* draw : {"frequency", "uniform", "all", "head-blocks"})
    for (const std::uint64_t threads : {1U, 2U}) {
      TrainOptions options = options_of("scent", 40, Visit::shuffle);
      options.hidden = 20, options.rows_per_step = 32, options.draw = draw, options.threads = threads;
      options.intercept = true, options.step = 0.01;
      EXPECT_EQ(allocations_of_second_epoch(data, options), 0U) << draw;
    }
}

// Steps over whole blocks on two threads, some of them declined.
TEST(GroupLane, AllocatesNothingAfterTheFirstEpoch) {
  const Dataset data = random_data({.rows = 240, .classes = 100, .features = 40, .weights = true});
  for (const char* method : {"prox", "scent", "umax", "exact"})
    for (const double ridge : {0.0, 3.0}) {
      TrainOptions options = options_of(method, 32, Visit::shuffle);
      options.draw = "blocks", options.group = 32, options.step = 0.1;
      options.ridge = ridge, options.intercept = ridge > 0;
      EXPECT_EQ(allocations_of_second_epoch(data, options), 0U) << method << ' ' << ridge;
    }
}

TEST(BlockLane, AllocatesNothingAfterTheFirstEpoch) {
  Dataset data = random_data({.rows = 1500, .classes = 700, .features = 900});
  for (std::size_t i = 0; i < data.rows.value.size(); i += 97) data.rows.value[i] = 3e7F;
  for (const bool lock_free : {false, true}) {
#if defined(__SANITIZE_THREAD__)
    if (lock_free) continue;  // races by nature
#endif
    TrainOptions options = options_of("prox", 32);
    options.draw = "blocks", options.threads = 2, options.lock_free = lock_free;
    EXPECT_EQ(allocations_of_second_epoch(data, options), 0U) << lock_free;
  }
}

}  // namespace
}  // namespace truemax
