// Learnt features on a device: epochs of all encoders beside those of the CPU, extremes, evaluation.
#include "train/device_learnt_lane.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "train/learnt_test_support.hpp"
#include "train/trainer.hpp"
#ifdef TRUEMAX_ON_CARD
extern "C" truemax::device::LearntEngine* truemax_learnt_engine_open(int card);
#else
#include "cuda/emulated_runtime.hpp"
#include "cuda/learnt_engine.hpp"
#endif

namespace truemax {
namespace {

device::LearntEngine* plain_engine(int card) {
#ifdef TRUEMAX_ON_CARD
  return truemax_learnt_engine_open(card);
#else
  return new cuda::LearntEngineOver<cuda::EmulatedRuntime>(card);
#endif
}

// Products in float32, so that results can be compared digit by digit.
class ExactEngine final : public device::LearntEngine {
 public:
  explicit ExactEngine(int card) : engine_(plain_engine(card)) {}
  const device::Card& card() const override { return engine_->card(); }
  void upload(const device::LearntShape& shape, const device::HostRows& rows,
              const device::HostLearntExamples& examples, const device::HostTables& tables, bool fresh,
              std::span<const double> u) override {
    device::LearntShape exact = shape;
    exact.exact_products = true;
    engine_->upload(exact, rows, examples, tables, fresh, u);
  }
  void take(const device::LearntSteps& steps) override { engine_->take(steps); }
  double largest() override { return engine_->largest(); }
  void download(const device::HostTables& tables, std::span<double> u) override {
    engine_->download(tables, u);
  }
  double finish() override { return engine_->finish(); }
  std::unique_ptr<device::Evaluated> add_rows(const device::HostRows& rows,
                                              const device::HostExamples& examples) override {
    return engine_->add_rows(rows, examples);
  }
  device::Pass pass(const device::Evaluated& rows, std::uint32_t top) override {
    return engine_->pass(rows, top);
  }

 private:
  std::unique_ptr<device::LearntEngine> engine_;
};

device::LearntEngine* exact_engine(int card) {
  return new ExactEngine(card);
}

// Runs on the device while it lives.
class OnDevice {
 public:
  explicit OnDevice(device::LearntEngine* (*opener)(int)) { device::learnt_opener = opener; }
  ~OnDevice() { device::learnt_opener = nullptr; }
};

RunState run_from(const DataView& data, const TrainOptions& options) {
  RunState state = make_state(data, options);
  move_classes(state);
  StepLoop loop(data, options);
  const std::atomic<bool> stop{false};
  while (state.epoch < options.epochs) loop.run(state, stop, {});
  loop.publish(state);
  return state;
}

// A step divides by the square root of squares: where those are tiny, rounding decides the direction.
void expect_near(const RunState& there, const RunState& here) {
  ASSERT_EQ(there.learnt.updates, here.learnt.updates);
  const auto same = [](std::span<const float> a, std::span<const float> b, std::span<const float> square,
                       std::size_t per_square) {
    ASSERT_EQ(a.size(), b.size());
    double off = 0, most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::sqrt(square[i / per_square]) < 1e-6F) continue;
      off = std::max(off, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
      most = std::max(most, std::abs(static_cast<double>(b[i])));
    }
    EXPECT_LE(off, 1e-3 * (1 + most));
  };
  const LearntState &a = there.learnt, &b = here.learnt;
  const auto per = [](const Embedding& table, const HugeVector<float>& square) {
    return square.size() == table.rows ? table.columns : 1;
  };
  same(a.tables.features.numbers, b.tables.features.numbers, b.features_square,
       per(b.tables.features, b.features_square));
  same(a.tables.mixing.numbers, b.tables.mixing.numbers, b.mixing_square, 1);
  same(a.classes.numbers, b.classes.numbers, b.classes_square, per(b.classes, b.classes_square));
  same(a.intercept, b.intercept, b.intercept_square, 1);
  same(a.features_square, b.features_square, b.features_square, 1);
  for (std::size_t r = 0; r < here.rows.size(); ++r) EXPECT_NEAR(there.rows[r].u, here.rows[r].u, 2e-3);
}

void expect_the_steps_of_the_cpu(const DataView& data, const TrainOptions& options) {
  const RunState here = run_from(data, options);
  const OnDevice on(exact_engine);
  expect_near(run_from(data, options), here);
}

TEST(DeviceLearnt, BagsTakeTheStepsOfTheCpu) {
  struct Case {
    std::uint64_t rows, classes, hidden;
    const char* draw;
    double ridge, dropout;
    bool weights, intercept, row_state;
  };
  for (const Case& c : {Case{1, 3, 5, "frequency", 0, 0, false, true, false},
                        Case{33, 4, 33, "frequency", 3, 0, true, true, true},
                        Case{64, 20, 16, "uniform", 0.5, 0.3, true, false, false},
                        Case{40, 12, 8, "all", 0, 0, false, true, false},
                        Case{70, 33, 70, "blocks", 1, 0, true, true, false}}) {
    SCOPED_TRACE(std::string(c.draw) + " rows " + std::to_string(c.rows));
    const Dataset made = random_data(
        {.rows = c.rows == 1 ? 20UL : 100UL, .classes = 40, .features = 12, .weights = c.weights});
    TrainOptions options = learnt_options(c.rows, c.classes, c.hidden);
    options.draw = c.draw, options.ridge = c.ridge, options.epochs = 2, options.dropout = c.dropout;
    options.intercept = options.start_at_frequencies = c.intercept;
    options.ridge_intercept = true, options.row_state = c.row_state;
    expect_the_steps_of_the_cpu(DataView(made), options);
  }
}

TEST(DeviceLearnt, WordsTakeTheStepsOfTheCpu) {
  struct Case {
    const char* name;
    EncoderKind encoder;
    std::uint64_t layers;
    double dropout;
    bool tied;
  };
  for (const Case& c :
       {Case{"log-bilinear", EncoderKind::context, 0, 0.2, false},
        Case{"log-bilinear, tied", EncoderKind::context, 0, 0, true},
        Case{"cbow", EncoderKind::cbow, 0, 0, false}, Case{"skip-gram", EncoderKind::skipgram, 0, 0, false},
        Case{"tanh", EncoderKind::context, 1, 0, false},
        Case{"tanh, tied, dropout", EncoderKind::context, 1, 0.4, true}}) {
    SCOPED_TRACE(c.name);
    const Dataset made = random_text({.words = 120, .kinds = 14, .encoder = c.encoder});
    TrainOptions options = learnt_options(40, 7, 12);
    options.layers = c.layers, options.dropout = c.dropout, options.tied = c.tied;
    options.ridge = 2, options.epochs = 1;
    expect_the_steps_of_the_cpu(DataView(made), options);
  }
}

TEST(DeviceLearnt, TriplesTakeTheStepsOfTheCpu) {
  for (const bool weights : {false, true}) {
    const DataView data = some_triples(90, 15, 3, weights);
    expect_the_steps_of_the_cpu(data, complex_options(32, 8, 10));
  }
}

TEST(DeviceLearnt, TensorCoresReachTheLossOfTheCpu) {
  const Dataset made = random_data({.rows = 300, .classes = 30, .features = 60});
  const DataView data(made);
  TrainOptions options = learnt_options(64, 20, 24);
  options.epochs = 6, options.schedule = Schedule::linear, options.step = 0.03;
  const std::atomic<bool> stop{false};
  const double here = evaluate({}, 1, run_from(data, options), data, 1, &stop)->log_loss;
  const OnDevice on(plain_engine);
  const double there = evaluate({}, 1, run_from(data, options), data, 1, &stop)->log_loss;
  EXPECT_NEAR(there, here, 0.01 * here);
}

TEST(DeviceLearnt, StaysFiniteOrStopsAtAnyStepAndScale) {
  const OnDevice on(plain_engine);
  for (const double scale : {1e-30, 1.0, 1e30})
    for (const double step : {1e-12, 1.0, 1e15})
      for (const double ridge : {0.0, 1e15})
        for (const double rho : {1e-12, 1.0}) {
          SCOPED_TRACE(testing::Message() << "scale " << scale << " step " << step << " ridge " << ridge);
          const Dataset made = random_data({.rows = 24, .classes = 20, .scale = scale});
          const DataView data(made);
          TrainOptions options = learnt_options(8, 5);
          options.step = step, options.ridge = ridge, options.rule.rho = rho, options.epochs = 2;
          Fit fit(data, options, make_state(data, options));
          const std::atomic<bool> stop{false};
          const Fit::End end = fit.run({}, stop);
          EXPECT_TRUE(end == Fit::End::used_up || end == Fit::End::diverged);
          const RunState& state = fit.state();
          for (const Embedding* table : {&state.learnt.tables.features, &state.learnt.classes})
            for (const float v : table->numbers) ASSERT_TRUE(std::isfinite(v));
          for (const RowState& row : state.rows) ASSERT_TRUE(std::isfinite(row.u) && row.u >= 0);
        }
}

}  // namespace
}  // namespace truemax
