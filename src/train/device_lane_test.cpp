// Linear models on a device, over the engine that runs on the CPU: runs beside the CPU's, evaluation, what is
// refused, and when auto chooses a GPU.
#include "train/device_lane.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "core/error.hpp"
#include "train/card_cost.hpp"
#include "train/evaluate_state.hpp"
#include "train/require.hpp"
#include "train/test_support.hpp"
#include "train/trainer.hpp"

namespace truemax {
namespace {

class DeviceLinear : public ::testing::Test {
 protected:
  DeviceLinear() {
    const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    setenv("TRUEMAX_CUDA_LIBRARY", (folder / "libtruemax_emulated.so").c_str(), 0);
  }
  void SetUp() override {
    const device::Found found = device::find();
    if (found.cards == 0) GTEST_SKIP() << "no GPU: " << found.missing;
  }
};

Recipe device_options(const char* method) {
  Recipe options;
  options.method = method, options.draw = "blocks", options.classes_per_step = 16;
  options.visit = Visit::shuffle, options.schedule = Schedule::linear;
  options.step = 1, options.epochs = 2, options.device = "cuda", options.threads = 1;
  return options;
}

double loss_after(const DataView& data, const Recipe& options) {
  Fit fit(data, planned(data, options), make_state(data, options));
  const std::atomic<bool> stop{false};
  EXPECT_EQ(fit.run({}, stop), Fit::End::used_up) << fit.divergence();
  const double there = fit.evaluate({}, data, 1, &stop)->log_loss;
  fit.publish();
  for (const RowState& row : fit.state().rows) EXPECT_TRUE(std::isfinite(row.u));
  // The device evaluates what it hands back.
  EXPECT_NEAR(there, evaluate(fit.state().weights, data, 1)->log_loss, 1e-5 * (1 + there));
  return there;
}

TEST_F(DeviceLinear, RunsReachTheLossOfTheCpu) {
  const Dataset data = random_data({.rows = 120, .classes = 40, .weights = true});
  for (const char* method : {"prox", "implicit", "scent", "exact"})
    for (const bool more : {false, true}) {
      Recipe options = device_options(method);
      if (more) options.intercept = true, options.ridge = 2, options.ridge_intercept = true;
      if (options.method == "exact") options.rows_per_step = 8, options.step = 8;
      const double there = loss_after(data, options);
      options.device = "cpu";
      EXPECT_NEAR(there, loss_after(data, options), 0.08) << method << " " << more;
    }
}

TEST_F(DeviceLinear, RowsLearnTheirRivals) {
  const Dataset data = random_data({.rows = 300, .classes = 320, .features = 40});
  Recipe options = device_options("prox");
  options.epochs = 12, options.draws.rivals = 3, options.step = 5;
  Fit fit(data, planned(data, options), make_state(data, options));
  const std::atomic<bool> stop{false};
  ASSERT_EQ(fit.run({}, stop), Fit::End::used_up) << fit.divergence();
  fit.publish();
  std::size_t known = 0;
  for (const ClassId b : fit.state().draw_memory) known += b == kUnseenClass ? 0 : 1;
  EXPECT_GT(known, data.label.size());
  const double there = fit.evaluate({}, data, 1, &stop)->log_loss;
  options.device = "cpu";
  EXPECT_NEAR(there, loss_after(data, options), 0.1);
  options.draws.rivals = 0;
  EXPECT_LT(there, loss_after(data, options));
}

TEST_F(DeviceLinear, CountsDrawsThatFindTheSameBlock) {
  const Dataset data = random_data({.rows = 40, .classes = 40});
  Recipe options = device_options("prox");
  options.classes_per_step = 400;  // 25 draws of three blocks
  EXPECT_TRUE(std::isfinite(loss_after(data, options)));
  options.classes_per_step = 600;
  EXPECT_NE(DeviceLane::why_not(Told(data, options).facts()).find("--classes-per-step"), std::string::npos);
}

TEST_F(DeviceLinear, GoesOnFromWhatItHandedBack) {
  const Dataset data = random_data({.rows = 60, .classes = 40});
  Recipe options = device_options("prox");
  Fit first(data, planned(data, options), make_state(data, options));
  const std::atomic<bool> stop{false};
  first.run({.epoch = 1}, stop);
  first.publish();
  const double before = first.evaluate({}, data, 1, &stop)->log_loss;
  Fit second(data, planned(data, options), std::move(first.state()));
  second.prepare();
  EXPECT_NEAR(second.evaluate({}, data, 1, &stop)->log_loss, before, 1e-6);
  second.run({}, stop);
  EXPECT_LT(second.evaluate({}, data, 1, &stop)->log_loss, before);
}

TEST_F(DeviceLinear, StaysFiniteAtAnyStep) {
  const Dataset data = random_data({.rows = 40, .classes = 20});
  for (const double step : {1e-12, 1e4, 1e12}) {
    Recipe options = device_options("prox");
    options.step = step, options.epochs = 1;
    EXPECT_TRUE(std::isfinite(loss_after(data, options))) << step;
  }
}

TEST_F(DeviceLinear, RefusesWhatAGpuCannotDo) {
  const DataView data = random_data({.classes = 2000, .features = 30});
  const auto refused = [&](const Recipe& options, const char* why) {
    const Told told(data, options);
    const std::string said = DeviceLane::why_not(told.facts());
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_THROW(require_device(told.facts()), UserError);
  };
  Recipe options = device_options("vanilla");
  refused(options, "does not run on a GPU");
  options = device_options("prox"), options.draw = "uniform";
  refused(options, "--draw blocks");
  options = device_options("scent"), options.rows_per_step = 4;
  refused(options, "one row");
  options = device_options("prox"), options.classes_per_step = 1000;
  refused(options, "at most 512 classes");
  EXPECT_EQ(DeviceLane::why_not(Told(data, device_options("prox")).facts()), "");
}

TEST_F(DeviceLinear, AutoTakesAGpuForMuchWorkOnly) {
  Asked asked;  // steps of a linear model
  asked.encoder = EncoderKind::linear, asked.schedule = Schedule::linear, asked.threads = 1;
  const DataView few = random_data({.rows = 200});
  const Decided decided(asked, few);
  EXPECT_TRUE(decided.reading.is_open("draw") && decided.recipe.sought.epochs);
  EXPECT_EQ(decided.reading.draft.device, device::kAuto);
  EXPECT_EQ(decided.recipe.device, "cpu");
  const CardCost little = card_cost(Told(few, decided.reading.draft).facts(), false, true);
  const DataView many = random_data({.rows = 50000, .classes = 40, .features = 200});
  EXPECT_GT(card_cost(Told(many, decided.reading.draft).facts(), false, true).cpu, 100 * little.cpu);
  EXPECT_FALSE(little.is_faster());
  asked.device = "cuda";
  EXPECT_EQ(Decided(asked, few).recipe.device, "cuda");
}

TEST(StepSchedule, StepsFallWithinALeg) {
  Recipe options;
  options.step = 2, options.schedule = Schedule::linear, options.epochs = 4;
  StepSchedule plan(options, 10);
  plan.let_steps_fall();
  const StepSchedule::Leg first = plan.next(0, 0), rest = plan.next(1, 4), last = plan.next(3, 0);
  EXPECT_EQ(first.steps, 10U);
  EXPECT_DOUBLE_EQ(first.step, 2);
  EXPECT_DOUBLE_EQ(first.last_step, 1.5);
  EXPECT_EQ(rest.steps, 6U);
  EXPECT_DOUBLE_EQ(rest.step, 2 * (1 - 14.0 / 40));
  EXPECT_DOUBLE_EQ(last.last_step, 0.02);  // never 0
}

}  // namespace
}  // namespace truemax
