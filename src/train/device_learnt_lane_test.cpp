// Learnt features on a device: epochs of all encoders beside those of the CPU, extremes, evaluation.
#include "train/device_learnt_lane.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "core/error.hpp"
#include "train/evaluate_state.hpp"
#include "train/learnt_test_support.hpp"
#include "train/require.hpp"
#include "train/trainer.hpp"

namespace truemax {
namespace {

// The engine that runs on the CPU (tests/device/emulated.cpp), unless TRUEMAX_CUDA_LIBRARY names another.
class DeviceLearnt : public ::testing::Test {
 protected:
  DeviceLearnt() {
    const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    setenv("TRUEMAX_CUDA_LIBRARY", (folder / "libtruemax_emulated.so").c_str(), 0);
    setenv("TRUEMAX_EXACT_PRODUCTS", "1", 1);  // so that results can be compared digit by digit
  }
  ~DeviceLearnt() override { unsetenv("TRUEMAX_EXACT_PRODUCTS"); }
  void SetUp() override {
    const device::Found found = device::find();
    if (found.cards == 0) GTEST_SKIP() << "no GPU: " << found.missing;
  }
};

RunState run_from(const DataView& data, const Recipe& options) {
  RunState state = make_state(data, options);
  move_classes(state);
  StepLoop loop(data, planned(data, options));
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

void expect_the_steps_of_the_cpu(const DataView& data, Recipe options) {
  const RunState here = run_from(data, options);
  options.device = "cuda";
  expect_near(run_from(data, options), here);
}

TEST_F(DeviceLearnt, BagsTakeTheStepsOfTheCpu) {
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
    Recipe options = learnt_options(c.rows, c.classes, c.hidden);
    options.draw = c.draw, options.ridge = c.ridge, options.epochs = 2, options.dropout = c.dropout;
    options.intercept = options.start_at_frequencies = c.intercept;
    options.ridge_intercept = true, options.row_state = c.row_state;
    expect_the_steps_of_the_cpu(DataView(made), options);
  }
}

TEST_F(DeviceLearnt, WordsTakeTheStepsOfTheCpu) {
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
    Recipe options = learnt_options(40, 7, 12);
    options.layers = c.layers, options.dropout = c.dropout, options.tied = c.tied;
    options.ridge = 2, options.epochs = 1;
    expect_the_steps_of_the_cpu(DataView(made), options);
  }
}

TEST_F(DeviceLearnt, TriplesTakeTheStepsOfTheCpu) {
  for (const bool weights : {false, true}) {
    const DataView data = some_triples(90, 15, 3, weights);
    expect_the_steps_of_the_cpu(data, complex_options(32, 8, 10));
  }
}

TEST_F(DeviceLearnt, SaysWhatFitsOnTheCard) {
  const Dataset made = random_data({.rows = 100, .classes = 40, .features = 12});
  const DataView data(made);
  Recipe options = learnt_options(16, 10);
  options.device = "cuda";
  const auto require = [&] {
    Told told(data, options);
    look_for_card(told.machine);
    require_device(told.facts());
  };
  require();
  const std::uint64_t free = device::open({device::Kind::cuda, 0})->card().free;
  options.hidden = free / 256;
  std::uint64_t fits = 0;
  try {
    require();
  } catch (const UserError& error) {
    const std::string said = error.what(), mark = "--hidden ";
    ASSERT_NE(said.find(mark), std::string::npos) << said;
    fits = std::stoull(said.substr(said.find(mark) + mark.size()));
  }
  ASSERT_GT(fits, 0U);
  ASSERT_LT(fits, options.hidden);
  options.hidden = fits;
  require();
  options.hidden = fits + 2;
  EXPECT_THROW(require(), UserError);
}

TEST_F(DeviceLearnt, TensorCoresReachTheLossOfTheCpu) {
  const Dataset made = random_data({.rows = 300, .classes = 30, .features = 60});
  const DataView data(made);
  Recipe options = learnt_options(64, 20, 24);
  options.epochs = 6, options.schedule = Schedule::linear, options.step = 0.03;
  const std::atomic<bool> stop{false};
  const double here = evaluate({}, 1, run_from(data, options), data, 1, &stop)->log_loss;
  unsetenv("TRUEMAX_EXACT_PRODUCTS");
  options.device = "cuda";
  const double there = evaluate({}, 1, run_from(data, options), data, 1, &stop)->log_loss;
  EXPECT_NEAR(there, here, 0.01 * here);
}

// The figures of the CPU's exact evaluation, from a pass on the device over the same model.
void expect_the_evaluation_of_the_cpu(const DataView& data, const Recipe& options) {
  RunState state = run_from(data, options);
  const std::atomic<bool> stop{false};
  const double here = evaluate({}, 1, state, data, 1, &stop)->log_loss;
  Recipe on_device = options;
  on_device.device = "cuda", on_device.epochs = 1;
  const PackedRows packed(data, 2);
  const auto engine = device::open_learnt({device::Kind::cuda, 0});
  LearntState& learnt = state.learnt;
  device::LearntShape shape = learnt_shape(data, options, 1, 1, packed.longest);
  engine->upload(shape, packed.rows(), {packed.row, packed.label, {}, packed.weight}, host_tables(learnt),
                 false, std::vector<double>(data.size()));
  const auto rows = engine->add_rows(packed.rows(), {packed.row, packed.label, {}});
  const device::Pass pass = engine->pass(*rows, 5);
  double sum = 0, total = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::size_t r = packed.row.empty() ? i : packed.row[i];
    const double weight = packed.weight.empty() ? 1 : static_cast<double>(packed.weight[i]);
    sum += weight * (pass.highest[r] - pass.label_score[i] + std::log(pass.excess[r])), total += weight;
    EXPECT_GE(pass.highest[r] + 1e-5, pass.label_score[i]);
    EXPECT_NEAR(pass.highest[r], static_cast<double>(pass.best_score[r * pass.top]), 1e-6);
  }
  EXPECT_NEAR(sum / total, here, 1e-6 * (1 + here));
  double largest = 0;
  for (const Embedding* table : {&learnt.tables.features, &learnt.tables.mixing, &learnt.classes})
    for (const float v : table->numbers) largest = std::max(largest, std::abs(static_cast<double>(v)));
  for (const float b : learnt.intercept) largest = std::max(largest, std::abs(static_cast<double>(b)));
  EXPECT_EQ(engine->largest(), largest);
}

TEST_F(DeviceLearnt, EvaluatesAsTheCpu) {
  const Dataset rows = random_data({.rows = 90, .classes = 70, .features = 30, .weights = true});
  expect_the_evaluation_of_the_cpu(DataView(rows), learnt_options(32, 20, 37));
  for (const std::uint64_t layers : {0U, 1U}) {
    const Dataset text = random_text({.words = 150, .kinds = 30});
    Recipe options = learnt_options(32, 10, 12);
    options.layers = layers, options.tied = layers > 0;
    expect_the_evaluation_of_the_cpu(DataView(text), options);
  }
  expect_the_evaluation_of_the_cpu(some_triples(90, 15, 3, false), complex_options(32, 8, 10));
}

TEST_F(DeviceLearnt, StaysFiniteOrStopsAtAnyStepAndScale) {
  unsetenv("TRUEMAX_EXACT_PRODUCTS");
  for (const double scale : {1e-30, 1.0, 1e30})
    for (const double step : {1e-12, 1.0, 1e15})
      for (const double ridge : {0.0, 1e15})
        for (const double rho : {1e-12, 1.0}) {
          SCOPED_TRACE(testing::Message() << "scale " << scale << " step " << step << " ridge " << ridge);
          const Dataset made = random_data({.rows = 24, .classes = 20, .scale = scale});
          const DataView data(made);
          Recipe options = learnt_options(8, 5);
          options.step = step, options.ridge = ridge, options.rule.rho = rho, options.epochs = 2;
          options.device = "cuda";
          Fit fit(data, planned(data, options), make_state(data, options));
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
