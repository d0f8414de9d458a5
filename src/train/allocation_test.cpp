// Steps do not allocate once a run has started: a rule must not throw, and allocation would slow down steps.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "core/counted_allocations.hpp"
#include "rule/methods.hpp"
#include "train/fit.hpp"
#include "train/learnt_test_support.hpp"
#include "train/step_shape.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

std::size_t allocations_of_second_epoch(const DataView& data, const Recipe& options) {
  RunState state = make_state(data, options);
  StepLoop loop(data, planned(data, options));
  StepSchedule plan(options, steps_per_epoch(data.size(), options));
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
          Recipe options = options_of(std::string(info->name), shape.m, Visit::random);
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
      Recipe options = options_of("scent", 40, Visit::shuffle);
      options.hidden = 20, options.rows_per_step = 32, options.draw = draw, options.threads = threads;
      options.intercept = true, options.step = 0.01;
      EXPECT_EQ(allocations_of_second_epoch(data, options), 0U) << draw;
    }
}

// The first of two ranks, of which the other has nothing to say: messages that allocate nothing themselves.
class HalfOfTwo final : public Ranks {
 public:
  std::size_t rank() const override { return 0; }
  std::size_t size() const override { return 2; }
  Ticket start(Combine /*how*/, std::span<float> /*numbers*/) override { return 0; }
  Ticket start(Combine /*how*/, std::span<double> /*numbers*/) override { return 0; }
  void wait(Ticket /*ticket*/) override {}
  void broadcast(std::span<std::byte> /*bytes*/, std::size_t /*from*/) override {}
  void gather_everywhere(std::span<const std::byte> /*own*/, std::span<std::byte> /*all*/) override {}
  void send(std::span<const std::byte> /*bytes*/, std::size_t /*to*/) override {}
  void receive(std::span<std::byte> /*bytes*/, std::size_t /*from*/) override {}
  void barrier() override {}
};

TEST(LearntRanks, AllocateNothingAfterTheFirstEpoch) {
  HalfOfTwo half;
  const UseRanks use(half);
  std::vector<DataView> sets{random_data({.rows = 300, .classes = 100, .features = 90, .weights = true}),
                             random_text({.words = 400, .kinds = 90}),
                             random_text({.words = 400, .kinds = 90, .encoder = EncoderKind::skipgram}),
                             some_triples(300, 90)};
  for (const DataView& data : sets)
    for (const bool shard : {false, true})
      for (const std::uint64_t layers : {0U, 1U}) {
        const bool triples = data.space->of_triples();
        if (layers > 0 && data.space->encoder != EncoderKind::context) continue;
        Recipe options = triples ? complex_options(32, 40, 20) : learnt_options(32, 40, 20);
        options.epochs = 2, options.dropout = 0.2, options.layers = layers, options.shard_embedding = shard;
        EXPECT_EQ(allocations_of_second_epoch(data, options), 0U)
            << static_cast<int>(data.space->encoder) << ' ' << shard << ' ' << layers;
      }
}

// Steps over whole blocks on two threads, some of them declined.
TEST(GroupLane, AllocatesNothingAfterTheFirstEpoch) {
  const Dataset data = random_data({.rows = 240, .classes = 100, .features = 40, .weights = true});
  for (const char* method : {"prox", "scent", "umax", "exact"})
    for (const double ridge : {0.0, 3.0})
      for (const std::uint64_t threads : {1U, 2U}) {
        Recipe options = options_of(method, 32, Visit::shuffle);
        options.draw = "head-blocks", options.draws.head = 16, options.group = 32, options.step = 0.1;
        options.ridge = ridge, options.intercept = ridge > 0, options.threads = threads;
        EXPECT_EQ(allocations_of_second_epoch(data, options), 0U) << method << ' ' << ridge << ' ' << threads;
      }
}

TEST(BlockLane, AllocatesNothingAfterTheFirstEpoch) {
  Dataset data = random_data({.rows = 1500, .classes = 700, .features = 900});
  for (std::size_t i = 0; i < data.rows.value.size(); i += 97) data.rows.value[i] = 3e7F;
  for (const bool lock_free : {false, true})
    for (const double ridge : {0.0, 3.0}) {
#if defined(__SANITIZE_THREAD__)
      if (lock_free) continue;  // races by nature
#endif
      Recipe options = options_of("prox", 32);
      options.draw = "blocks", options.threads = 2, options.lock_free = lock_free, options.ridge = ridge;
      EXPECT_EQ(allocations_of_second_epoch(data, options), 0U) << lock_free << ' ' << ridge;
    }
}

}  // namespace
}  // namespace truemax
