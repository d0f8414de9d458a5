// Runs that start from a model.
#include "train/warm_start.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"
#include "data/load.hpp"
#include "evaluate/evaluate.hpp"
#include "rule/methods.hpp"
#include "train/fit.hpp"
#include "train/require.hpp"
#include "train/resolve_test_support.hpp"
#include "train/run.hpp"
#include "train/search_and_fit.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

using ::testing::HasSubstr;

// Rows of `classes` classes named c0, c1, ..., from the class `first` on.
DataView rows_of(std::size_t count, std::uint32_t first, std::uint32_t classes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RawRows raw;
  raw.format = Format::libsvm;
  raw.features = 30;
  raw.declared = true;
  for (std::uint32_t k = 0; k < classes; ++k) raw.label_names.push_back("c" + std::to_string(first + k));
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint32_t>(i < classes ? i : random() % classes);
    for (const FeatureId f : {label % 7, 7 + label % 5, 12 + static_cast<FeatureId>(random() % 18)})
      raw.rows.index.push_back(f), raw.rows.value.push_back(1);
    raw.rows.begin.push_back(raw.rows.index.size());
    raw.label.push_back(label);
    raw.label_begin.push_back(raw.label.size());
  }
  return make_training_set(std::move(raw), {}, 0, "");
}

Recipe start_options(const char* method, std::uint64_t hidden) {
  Recipe options;
  options.method = hidden > 0 ? "scent" : method;
  options.hidden = hidden;
  options.intercept = options.start_at_frequencies = true;
  options.epochs = 3;
  options.step = hidden > 0 ? 0.05 : 2;
  options.threads = 1;
  if (hidden > 0) options.rows_per_step = 8, options.classes_per_step = 6, options.draw = "frequency";
  require_possible(options);
  return options;
}

Model trained(const DataView& data, Recipe options, const Model* start = nullptr, RunState* first = nullptr) {
  Stopwatch watch;
  const std::atomic<bool> stop{false};
  TrainExtras extras;
  extras.start = start;
  if (first != nullptr)
    extras.saving = {.epochs = 1, .save = [&](const RunState& state, bool) {
                       if (state.epoch == 0 && state.step == 0) first->rows = state.rows;
                     }};
  FitResult result;
  RunState state = search_and_fit({data}, planned(data, options), watch, {}, stop, extras, result);
  return make_model(std::move(state), data, {}, options, "", "");
}

class WarmStart : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(WarmStart, NoEpochGivesTheModelBack) {
  const DataView data = rows_of(60, 0, 9, 1);
  const Recipe options = start_options("prox", GetParam());
  const Model model = trained(data, options);
  Recipe none = options;
  none.epochs = 0;
  // The same rows in another order of classes.
  const DataView other = rows_of(80, 0, 9, 2);
  const Model again = trained(other, none, &model);
  for (ClassId k = 0; k < 9; ++k) {
    const ClassId there = again.classes->find(model.classes->name(k));
    std::vector<float> a(model.weights.features()), b(a.size());
    model.weights.copy_class(k, a);
    again.weights.copy_class(there, b);
    EXPECT_EQ(a, b);
    EXPECT_EQ(model.weights.intercept_of(k), again.weights.intercept_of(there));
  }
  EXPECT_EQ(model.encoder.features.numbers, again.encoder.features.numbers);
}

TEST_P(WarmStart, EstimatesStartAtTheExactLoss) {
  const DataView data = rows_of(60, 0, 9, 1);
  Recipe options = start_options("prox", GetParam());
  const Model model = trained(data, options);
  RunState first;
  trained(data, options, &model, &first);
  ASSERT_EQ(first.rows.size(), data.size());
  if (!find_method(options.method).exact_start) GTEST_SKIP() << options.method << " starts at u = 0";
  const DataView rows = model.rows_of(data);
  Csr scratch;
  const RowSlice slice = rows.slice(0, 1000, scratch);
  for (const ExampleId i : data.examples()) {
    const RowView x = slice.x().row(number_of(i));
    double sum = 0;
    for (ClassId k = 0; k < 9; ++k)
      sum += std::exp(score(model.weights, x, k) - score(model.weights, x, data.label(i)));
    EXPECT_NEAR(first.row(i).u, std::log(sum), 1e-6);
  }
}

TEST_P(WarmStart, NewClassesJoinAtTheirFrequency) {
  const DataView data = rows_of(90, 0, 6, 1);
  const Model model = trained(data, start_options("prox", GetParam()));
  const DataView more = rows_of(100, 3, 8, 2);  // c3 to c10: five of them new
  Recipe none = start_options("prox", GetParam());
  none.epochs = 0;
  const Model start = trained(more, none, &model);
  double known = 0, fresh = 0;
  for (ClassId k = 0; k < 8; ++k)
    (model.classes->find(more.classes->name(k)) == kUnseenClass ? fresh : known) +=
        std::exp(start.weights.intercept_of(k));
  double known_count = 0, fresh_count = 0;
  for (ClassId k = 0; k < 8; ++k)
    (model.classes->find(more.classes->name(k)) == kUnseenClass ? fresh_count : known_count) +=
        more.classes->count(k);
  EXPECT_NEAR(fresh / known, fresh_count / known_count, 1e-5);
  Recipe options = start_options("prox", GetParam());
  options.epochs = 20;
  const Model after = trained(more, options, &model);
  const double loss = evaluate(after.weights, after.rows_of(more), 1)->log_loss;
  EXPECT_LT(loss, evaluate(start.weights, start.rows_of(more), 1)->log_loss);
  EXPECT_TRUE(std::isfinite(loss));
}

INSTANTIATE_TEST_SUITE_P(Hidden, WarmStart, ::testing::Values(0, 5));

TEST(WarmStartOptions, RefusesOtherFeaturesAndShapes) {
  const DataView data = rows_of(60, 0, 9, 1);
  const Model linear = trained(data, start_options("prox", 0)), bag = trained(data, start_options("", 5));
  const auto said = [](const auto& work) {
    try {
      work();
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  RawRows raw;
  raw.format = Format::libsvm, raw.features = 31, raw.declared = true;
  raw.rows.add({std::vector<FeatureId>{1}, std::vector<float>{1}});
  raw.rows.add({std::vector<FeatureId>{2}, std::vector<float>{1}});
  raw.label = {0, 1}, raw.label_begin = {0, 1, 2}, raw.label_names = {"c0", "c1"};
  const DataView wider = make_training_set(std::move(raw), {}, 0, "");
  EXPECT_THAT(said([&] { require_same_features(linear, wider); }), HasSubstr("has 30 features, the data 31"));
  EXPECT_EQ(said([&] { require_start(linear, wider); }), "");
  EXPECT_EQ(said([&] { require_same_features(linear, data); }), "");
  const auto continued = [](const Model& model, const Asked& asked) {
    Start start;
    start.model = shape_of(model);
    return resolve_reading(asked, {}, start).draft;
  };
  EXPECT_EQ(continued(bag, {}).hidden, 5U);
  EXPECT_EQ(continued(linear, {}).encoder, EncoderKind::linear);
  Asked all;
  all.hidden = 6;
  say_all_but({}, all);
  EXPECT_THAT(said([&] { continued(bag, all); }), HasSubstr("give --hidden 5"));
  EXPECT_THAT(said([&] { continued(linear, all); }), HasSubstr("is linear"));
}

}  // namespace
}  // namespace truemax
