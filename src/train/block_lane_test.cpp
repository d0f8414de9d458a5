// Steps on several threads: whole runs have the bits of one thread.
#include "train/block_lane.hpp"

#include "data/test_access.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "core/error.hpp"
#include "data/hold_out.hpp"
#include "evaluate/evaluate.hpp"
#include "rule/prox.hpp"
#include "train/lane_test_support.hpp"
#include "train/step_inputs.hpp"
#include "train/test_support.hpp"
#include "weights/pairs.hpp"

namespace truemax {
namespace {

Dataset data_of(std::size_t rows, std::size_t classes) {
  return random_data({.rows = rows, .classes = classes, .features = 900});
}

Recipe block_options(const char* draw, std::size_t threads) {
  Recipe options = options_of("prox", 32);
  options.step = 5;
  options.draw = draw;
  options.draws.head = 16;
  options.threads = threads;
  return options;
}

TEST(BlockLane, SameBitsForAnyNumberOfThreads) {
  const Dataset data = data_of(3000, 700);
  for (const Visit visit : {Visit::random, Visit::shuffle})
    for (const double ridge : {0.0, 2.0})
      for (const bool intercept : {false, true}) {
        Recipe options = block_options("blocks", 1);
        options.visit = visit, options.ridge = ridge, options.intercept = intercept;
        const RunState one = run_epochs(data, options);
        for (const std::size_t threads : {2U, 3U, 5U}) {
          const Ended several = run_on<BlockLane>(data, options, threads);
          EXPECT_GT(several.threads, 1U);
          EXPECT_EQ(bits_of(one), bits_of(several.state)) << threads;
          EXPECT_EQ(one.largest_weight, several.state.largest_weight);
        }
      }
}

// Rules that do not take blocks step in double, each thread with a rule of its own.
TEST(BlockLane, OtherMethodsHaveTheSameBitsForAnyNumberOfThreads) {
  const Dataset data = data_of(1200, 700);
  for (const char* method : {"implicit", "scent", "sox", "ove"})
    for (const double ridge : {0.0, 2.0}) {
      Recipe options = block_options("blocks", 1);
      options.method = method, options.ridge = ridge, options.step = 0.5;
      const RunState one = run_epochs(data, options);
      for (const std::size_t threads : {2U, 5U}) {
        options.threads = threads;
        const RunState several = run_epochs(data, options);
        EXPECT_EQ(bits_of(one), bits_of(several)) << method << " " << threads;
        EXPECT_EQ(one.largest_weight, several.largest_weight);
      }
    }
}

TEST(BlockLane, UsesThreadsOnlyIfStepsRarelyConflict) {
  const Dataset many = data_of(3000, 700), few = data_of(300, 20);
  const auto useful = [](const Dataset& data, const char* draw) {
    const Recipe options = block_options(draw, 2);
    return useful_threads(data, options, *draw_for(options, facts_of(data)));
  };
  EXPECT_EQ(useful(many, "blocks"), 2U);
  EXPECT_EQ(useful(many, "head-blocks"), 1U);
  EXPECT_EQ(useful(few, "blocks"), 1U);
}

// Steps with a huge feature are declined in float32 and taken by the general lane, one at a time and in
// order. Each adds to the bound on the weights, whose rounding depends on the order.
TEST(BlockLane, DeclinedStepsKeepTheBitsAndTheBound) {
  Dataset data = data_of(1500, 700);
  for (std::size_t i = 0; i < data.rows.value.size(); i += 9)
    data.rows.value[i] = 3e7F * (1 + static_cast<float>(i % 7));
  for (const double ridge : {0.0, 2.0}) {
    Recipe options = block_options("blocks", 1);
    options.ridge = ridge;
    const RunState one = run_epochs(data, options);
    std::size_t declined = 0;
    for (const RowState& row : one.rows) declined += pairs_are_safe(row.squared_norm) ? 0 : 1;
    ASSERT_GT(declined, 300U);
    ASSERT_LT(declined, 1200U);
    for (const std::size_t threads : {2U, 3U, 8U}) {
      options.threads = threads;
      const RunState several = run_epochs(data, options);
      EXPECT_EQ(bits_of(one), bits_of(several)) << threads;
      EXPECT_EQ(one.largest_weight, several.largest_weight) << threads;
    }
  }
}

// No block has much of the label mass, so many threads are useful.
Dataset with_even_labels(const DataShape& shape) {
  Dataset data = random_data(shape);
  for (std::size_t i = 0; i < data.size(); ++i)
    data.label[i] = data.label_set[i] = static_cast<ClassId>(i * 7919 % shape.classes);
  return data;
}

// About a third of the steps of 16 threads share a block or a row with one that another thread takes at the
// time, and some are declined.
TEST(BlockLane, StepsOutOfOrderKeepTheBits) {
  for (const bool declines : {false, true}) {
    Dataset data = with_even_labels({.rows = 900, .classes = 8000, .features = 40});
    if (declines)
      for (std::size_t i = 0; i < data.rows.value.size(); i += 101) data.rows.value[i] = 3e7F;
    for (const char* method : {"prox", "implicit"})
      for (const double ridge : {0.0, 2.0}) {
        Recipe options = block_options("blocks", 1);
        options.method = method, options.visit = Visit::random, options.ridge = ridge, options.epochs = 3;
        const Ended one = run_on<BlockLane>(data, options, 1);
        EXPECT_EQ(one.threads, 1U);
        for (const std::size_t threads : {4U, 16U}) {
          const Ended several = run_on<BlockLane>(data, options, threads);
          EXPECT_EQ(several.threads, threads);
          EXPECT_EQ(one.divergence, several.divergence);
          EXPECT_EQ(bits_of(one.state), bits_of(several.state)) << method << ' ' << threads;
          EXPECT_EQ(one.state.largest_weight, several.state.largest_weight) << method << ' ' << threads;
        }
      }
  }
}

// A draw that fails at one step: when blocks are drawn, or when the step was declined and is drawn again.
class Fails final : public Draw {
 public:
  enum class When { never, drawn, declined };
  explicit Fails(const Draw& of) : Draw(false), of_(of) {}
  std::size_t most_classes() const override { return of_.most_classes(); }
  std::size_t words() const override { return of_.words(); }
  std::size_t step(std::span<std::uint64_t> words, ClassId label, ExampleId example, ClassId* classes,
                   double* weights) const override {
    return of_.step(words, label, example, classes, weights);
  }
  void fill(const CounterRandom& random, std::uint64_t first, std::size_t steps,
            std::span<const ClassId> labels, std::span<const ExampleId> examples,
            DrawBuffer& out) const override {
    fail(When::declined, first, steps);
    of_.fill(random, first, steps, labels, examples, out);
  }
  double inclusion(ClassId k) const override { return of_.inclusion(k); }
  double mean_count(ClassId k) const override { return of_.mean_count(k); }
  bool whole_blocks() const override { return true; }
  std::size_t most_blocks() const override { return of_.most_blocks(); }
  void fill_blocks(const CounterRandom& random, std::uint64_t first, std::size_t steps,
                   std::span<const ClassId> labels, std::span<const ExampleId> examples,
                   BlockBuffer& out) const override {
    fail(When::drawn, first, steps);
    of_.fill_blocks(random, first, steps, labels, examples, out);
  }

  When when = When::never;

 private:
  void fail(When now, std::uint64_t first, std::size_t steps) const {
    constexpr std::uint64_t kStep = 60;
    if (when == now && first <= kStep && kStep < first + steps) throw UserError("no more");
  }
  const Draw& of_;
};

TEST(BlockLane, ThreadThatThrowsEndsTheBatchOfAll) {
  Dataset made = with_even_labels({.rows = 400, .classes = 2000, .features = 40});
  for (float& value : made.rows.value) value = 3e7F;
  const DataView data(made);
  const Recipe options = block_options("blocks", 4);
  const auto sound = draw_for(options, facts_of(data));
  Fails draw(*sound);
  const ProblemInfo problem = rule_problem(data, options);
  Ridge ridge(data, options, problem, sound.get());
  const GrowthGuard guard("prox", options.step);
  const auto rule = make_rule("prox", options.rule, problem);
  Problem facts = facts_of(data);
  facts.nonzeros_per_row = 400;  // as if steps took so long that every thread gets a piece of a batch
  const Plan plan = bind(options, facts, machine_of(options.threads, 0, facts));
  ASSERT_LE(plan.steps_ahead, 32U);
  rule->reserve(plan.shape);
  const LaneSetup setup{data, plan, problem, ridge, guard, *rule, &draw};
  VisitOrder order(Visit::file, 1, data.size());
  order.start_epoch(0);
  const CounterRandom random(1, Stream::draw, 0);
  const auto take = [&](BlockLane& lane) {
    RunState state = make_state(data, options);
    lane.take({order, random, 0, 128, 1.0, 1.0}, state);
    return bits_of(state);
  };
  BlockLane one(setup, 1), four(setup, 4);
  ASSERT_EQ(four.threads(), 4U);
  ASSERT_GE(four.most_steps(), 128U);
  for (int again = 0; again < 20; ++again) {
    for (const Fails::When when : {Fails::When::drawn, Fails::When::declined}) {
      draw.when = when;
      EXPECT_THROW(take(four), UserError);
    }
    draw.when = Fails::When::never;
    EXPECT_EQ(take(four), take(one));  // the failed batches have left nothing behind
  }
}

// Declines every block step, and is slow in every other step, which belongs to another thread.
class Declines final : public AnyRule {
 public:
  const MethodInfo& info() const noexcept override { return ProxRule::kInfo; }
  void reserve(const StepShape&) override {}
  void step(const StepView& view, StepResult& out) noexcept override {
    if (taken++ % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    std::fill_n(out.coefficient, view.columns, 0.0);
    out.coefficient[view.label[0]] = 1.0 / (taken + 2);
  }
  bool takes_pairs() const noexcept override { return false; }
  void step_pairs(PairSteps&, std::size_t, double) noexcept override {}
  bool takes_blocks() const noexcept override { return true; }
  bool step_blocks(BlockStepView&) const noexcept override { return false; }
  double smoothing(const StepView&) const noexcept override { return 1; }

  int taken = 0;  // not atomic: declined steps are taken one at a time
};

// Whether a declined step is taken depends on the bound before it, which includes the growth of exactly the
// earlier steps, even if one of their threads is slow. They are taken in order, so that the bound has the
// same bits.
TEST(BlockLane, DeclinedStepsRunInOrder) {
  const Dataset made = data_of(400, 700);
  const DataView data(made);
  constexpr std::size_t kSteps = 100;
  double expected = 0;
  for (const std::size_t threads : {1U, 2U, 3U}) {
    const Recipe options = block_options("blocks", threads);
    const auto draw = draw_for(options, facts_of(data));
    const ProblemInfo problem = rule_problem(data, options);
    Ridge ridge(data, options, problem, draw.get());
    const GrowthGuard guard("prox", options.step);
    Declines rule;
    const Plan plan = planned(data, options);
    ASSERT_GE(plan.steps_ahead, kSteps);
    const LaneSetup setup{data, plan, problem, ridge, guard, rule, draw.get()};
    BlockLane blocks(setup);
    RunState state = make_state(data, options);
    state.largest_weight = 0.1;
    VisitOrder order(Visit::file, 1, data.size());
    order.start_epoch(0);
    const CounterRandom random(1, Stream::draw, 0);
    double bound = 0.1;
    for (std::size_t t = 0; t < kSteps; ++t) {
      const double norm = state.row(static_cast<ExampleId>(t)).squared_norm;
      bound += 1.0 / static_cast<double>(t + 3) * std::max(1.0, std::sqrt(norm));
    }
    blocks.take({order, random, 0, kSteps, 1.0, 1.0}, state);
    EXPECT_EQ(rule.taken, static_cast<int>(kSteps));
    EXPECT_EQ(state.step, kSteps);
    EXPECT_EQ(state.largest_weight, bound) << threads;
    if (threads == 1) expected = state.weights.largest();
    EXPECT_EQ(state.weights.largest(), expected) << threads;
  }
}

// Some rows have so large a weight that their step would overflow float32: the run stops, and its final state
// does not depend on the progress of other threads. One such row in each block, so that no block has most of
// the label mass; otherwise only one thread would be used.
TEST(BlockLane, DivergenceLeavesTheSameBits) {
  Dataset data = data_of(1500, 700);
  data.weight.assign(data.size(), 1.0);
  for (ClassId k = 0; k < 700; k += kLanes) {
    const std::size_t i = 40 + std::size_t{2} * k;
    data.label[i] = k, data.weight[i] = 1e37;
    for (std::size_t j = data.rows.begin[i]; j < data.rows.begin[i + 1]; ++j) data.rows.value[j] = 1e-20F;
  }
  const Recipe two = block_options("blocks", 2);
  ASSERT_EQ(useful_threads(data, two, *draw_for(two, facts_of(data))), 2U);
  for (const Visit visit : {Visit::file, Visit::random}) {
    Recipe options = block_options("blocks", 1);
    options.step = 100, options.visit = visit;
    const auto run = [&](std::size_t threads, std::string& message) {
      options.threads = threads;
      RunState state = make_state(data, options);
      const std::atomic<bool> stop{false};
      try {
        StepLoop(data, planned(data, options)).run(state, stop, {});
      } catch (const DivergenceError& error) {
        message = error.what();
      }
      return state;
    };
    std::string first, other;
    const RunState one = run(1, first);
    EXPECT_NE(first.find("diverged at step "), std::string::npos) << first;
    EXPECT_GT(one.weights.largest(), 0);
    EXPECT_LE(one.weights.largest(), one.largest_weight * (1 + 1e-5));
    for (const std::size_t threads : {2U, 3U, 8U})
      for (int again = 0; again < 5; ++again) {
        const RunState several = run(threads, other);
        EXPECT_EQ(first, other) << threads;
        EXPECT_EQ(bits_of(one), bits_of(several)) << threads;
        EXPECT_EQ(one.largest_weight, several.largest_weight) << threads;
      }
  }
}

// Trials of auto train on parts.
TEST(BlockLane, PartOfDataTrainsLikeACopy) {
  const Dataset whole = data_of(600, 700);
  const DataView part = sample_part(whole, 200, 1), copy = copy_of(part, false);
  ASSERT_EQ(part.size(), copy.size());
  for (const std::size_t threads : {1U, 2U}) {
    const Recipe options = block_options("blocks", threads);
    EXPECT_EQ(bits_of(run_epochs(part, options)), bits_of(run_epochs(copy, options))) << threads;
  }
}

#if defined(__SANITIZE_THREAD__)
TEST(LockFree, DISABLED_RacesByNature) {}
#else
// Averaged over seeds, the log-loss is that of ordered runs within their spread.
TEST(LockFree, ReachesTheLossOfOrderedRuns) {
  const Dataset data = data_of(4000, 600);
  for (const char* draw : {"blocks", "head-blocks"})
    for (const double ridge : {0.0, 2.0}) {
      double ordered = 0, free = 0, least = 1e300, most = 0;
      constexpr int kSeeds = 5;
      for (int seed = 1; seed <= kSeeds; ++seed) {
        Recipe options = block_options(draw, 1);
        options.epochs = 10, options.decay = 0.8, options.ridge = ridge;
        options.seed = static_cast<std::uint64_t>(seed);
        const double in_order = evaluate(run_epochs(data, options).weights, data, 1)->log_loss;
        least = std::min(least, in_order), most = std::max(most, in_order);
        ordered += in_order / kSeeds;
        options.lock_free = true;
        const Ended ended = run_on<BlockLane>(data, options, 3);
        EXPECT_EQ(ended.threads, 3U);
        free += evaluate(ended.state.weights, data, 1)->log_loss / kSeeds;
      }
      RecordProperty("ordered", std::to_string(ordered));
      RecordProperty("lock_free", std::to_string(free));
      EXPECT_LT(std::abs(free - ordered), std::max(0.02 * ordered, 3 * (most - least)))
          << draw << ' ' << ridge;
    }
}

// The factors of a class are those of its steps, which are the same in any order: none is lost, however the
// threads race. With a strong ridge a few steps are taken at a time, or all by one thread.
TEST(LockFree, LosesNothingOfTheRidge) {
  const Dataset made = data_of(3000, 300);
  const DataView data(made);
  for (const double ridge : {0.2, 30.0, 300.0}) {
    Recipe options = block_options("head-blocks", 1);
    options.visit = Visit::shuffle, options.epochs = 2, options.ridge = ridge, options.step = 0.01;
    const RunState ordered = run_epochs(data, options);
    options.lock_free = true;
    const Ended free = run_on<BlockLane>(data, options, 5);
    EXPECT_EQ(free.threads, 5U);
    for (ClassId k = 0; k < 300; ++k) {
      const double expected = ordered.weights.scale(k);
      ASSERT_LT(expected, 1);
      ASSERT_GT(expected, 1e-6);  // nothing was multiplied into memory
      EXPECT_NEAR(free.state.weights.scale(k) / expected, 1, 1e-10) << ridge << ' ' << k;
    }
  }
}

// With a ridge so strong that one thread takes all steps, nothing is kept apart from W.
TEST(LockFree, OneThreadForAStrongRidgeKeepsNothingApart) {
  const Dataset made = data_of(3000, 300);
  const DataView data(made);
  Recipe options = block_options("head-blocks", 1);
  options.visit = Visit::shuffle, options.epochs = 2, options.ridge = 1e5, options.intercept = true;
  const Ended ordered = run_on<BlockLane>(data, options, 1);
  options.lock_free = true;
  const Ended free = run_on<BlockLane>(data, options, 3);
  EXPECT_EQ(free.threads, 3U);
  for (ClassId k = 0; k < 300; ++k) {
    // Longer batches leave fewer steps to float32: the others are rounded differently.
    EXPECT_NEAR(free.state.weights.intercept_of(k) / ordered.state.weights.intercept_of(k), 1, 1e-4) << k;
    EXPECT_NEAR(free.state.weights.squared_norm(k) / ordered.state.weights.squared_norm(k), 1, 1e-4) << k;
  }
}

// A block that nearly all steps have is not one that all have, and may come anywhere among their blocks.
TEST(LockFree, ABlockThatNearlyAllStepsHaveIsNoHead) {
  Dataset made = data_of(4000, 600);
  for (std::size_t i = 0; i < made.label.size(); ++i)
    if (i % 1000 != 0) made.label[i] = static_cast<ClassId>(i % 16);
  made.label_set.assign(made.label.begin(), made.label.end());
  const DataView data(made);
  double ordered = 0, free = 0, least = 1e300, most = 0;
  constexpr int kSeeds = 3;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Recipe options = block_options("blocks", 1);
    options.epochs = 6, options.decay = 0.8, options.seed = static_cast<std::uint64_t>(seed);
    const double in_order = evaluate(run_epochs(data, options).weights, data, 1)->log_loss;
    least = std::min(least, in_order), most = std::max(most, in_order);
    ordered += in_order / kSeeds;
    options.lock_free = true;
    const Ended ended = run_on<BlockLane>(data, options, 3);
    free += evaluate(ended.state.weights, data, 1)->log_loss / kSeeds;
  }
  EXPECT_LT(std::abs(free - ordered), std::max(0.02 * ordered, 3 * (most - least)));
}

// Scales that get too small are multiplied into memory, and steps that float32 declines are taken at the end
// of a batch: the numbers stay finite and the weights those of ordered runs, about.
TEST(LockFree, StaysFiniteAtExtremes) {
  Dataset made = data_of(1500, 300);
  for (std::size_t i = 0; i < made.rows.value.size(); i += 29) made.rows.value[i] = 3e7F;
  const DataView data(made);
  for (const double ridge : {1e3, 1e6, 1e12})
    for (const double step : {1e-6, 1.0, 1e6}) {
      Recipe options = block_options("head-blocks", 1);
      options.ridge = ridge, options.step = step, options.epochs = 2, options.lock_free = true;
      const Ended ended = run_on<BlockLane>(data, options, 3);
      EXPECT_EQ(ended.divergence, "") << ridge << ' ' << step;
      EXPECT_TRUE(std::isfinite(ended.state.weights.largest())) << ridge << ' ' << step;
      for (const RowState& row : ended.state.rows) EXPECT_TRUE(std::isfinite(row.u));
    }
}
#endif

}  // namespace
}  // namespace truemax
