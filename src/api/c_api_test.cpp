// The C interface: what it refuses, and that it trains as the command line does. Misuse: c_misuse_test.cpp.
#include "truemax/c.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/test_support.hpp"
#include "data/generate.hpp"
#include "model/model.hpp"
#include "train/run.hpp"
#include "truemax/truemax.hpp"

namespace truemax {
namespace {

using ::testing::HasSubstr;

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    GenerateOptions generate;
    generate.format = Format::libsvm;
    generate.rows = 300, generate.features = 40, generate.classes = 12;
    generate_file(generate, Part::train, 1, path("g.txt"));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string bytes(const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  const std::string folder_ = ::testing::TempDir() + "truemax-c-" + std::to_string(getpid());
};

TEST_F(CApi, ArraysTrainToTheBitsOfTheCommandLine) {
  for (const std::vector<tmx_option>& options :
       {std::vector<tmx_option>{{"threads", "1"}},
        std::vector<tmx_option>{{"method", "implicit"}, {"epochs", "4"}, {"threads", "1"}},
        std::vector<tmx_option>{
            {"hidden", "6"}, {"epochs", "3"}, {"step", "0.01"}, {"ridge", "0"}, {"threads", "1"}}}) {
    RunOptions run;
    run.train_path = path("g.txt");
    run.read.format = Format::libsvm;
    OptionTable table;
    run.describe(table);
    for (const tmx_option& o : options) table.find(o.name)->parse(o.value);
    run.model = path("run.safetensors");
    run.log = "none";
    PreparedRun prepared = prepare_run(run);
    const std::atomic<bool> stop{false};
    const FinishedRun finished = execute_run(prepared, {}, stop);

    CRows rows = read_libsvm(path("g.txt"), prepared.data.space->features);
    OwnedData data;
    OwnedRun fit;
    OwnedModel model;
    const tmx_rows view = rows.view();
    ASSERT_EQ(tmx_data_from_rows(&view, nullptr, 0, &data), TMX_OK) << tmx_message();
    ASSERT_EQ(tmx_run_create(data, nullptr, nullptr, options.data(), options.size(), &fit), TMX_OK)
        << tmx_message();
    ASSERT_EQ(tmx_run_train(fit, nullptr, nullptr), TMX_OK) << tmx_message();
    ASSERT_EQ(tmx_run_model(fit, &model), TMX_OK) << tmx_message();
    const Model& there = finished.model;
    const std::vector<ClassId> order = there.classes->by_name();
    std::uint64_t classes = 0, columns = 0, count = 0;
    ASSERT_EQ(tmx_model_shape(model, &classes, nullptr, &columns), TMX_OK);
    ASSERT_EQ(classes, order.size());
    ASSERT_EQ(tmx_model_tensor(model, "weight", nullptr, &count), TMX_OK);
    ASSERT_EQ(count, classes * columns);
    std::vector<float> weight(count), expected(columns);
    ASSERT_EQ(tmx_model_tensor(model, "weight", weight.data(), &count), TMX_OK);
    for (std::size_t r = 0; r < classes; ++r) {
      there.weights.copy_class(order[r], expected);
      EXPECT_EQ(0, std::memcmp(&weight[r * columns], expected.data(), columns * sizeof(float))) << r;
    }
    const char* json = nullptr;
    ASSERT_EQ(tmx_evaluate(model, data, 1, &json), TMX_OK);
    const double loss = nlohmann::json::parse(json)["log_loss"];
    OwnedModel of_run;
    ASSERT_EQ(tmx_model_load(path("run.safetensors").c_str(), nullptr, 0, &of_run), TMX_OK) << tmx_message();
    ASSERT_EQ(tmx_evaluate(of_run, data, 1, &json), TMX_OK) << tmx_message();
    EXPECT_EQ(nlohmann::json::parse(json)["log_loss"], loss);
    EXPECT_NEAR(loss, finished.outcome.last->train->log_loss, 1e-6);
    // A file of one is a file of the other.
    ASSERT_EQ(tmx_model_save(model, path("c.safetensors").c_str()), TMX_OK) << tmx_message();
    save_model(load_model(path("c.safetensors"), ~0ULL), path("again.safetensors"));
    EXPECT_EQ(bytes(path("c.safetensors")), bytes(path("again.safetensors")));
  }
}

TEST_F(CApi, PredictsWhatTheModelSays) {
  CRows rows = read_libsvm(path("g.txt"), 40);
  const tmx_rows view = rows.view();
  OwnedData data, asked;
  OwnedRun fit;
  OwnedModel model;
  const tmx_option options[] = {{"epochs", "3"}, {"step", "1"}, {"ridge", "0"}};
  ASSERT_EQ(tmx_data_from_rows(&view, nullptr, 0, &data), TMX_OK) << tmx_message();
  ASSERT_EQ(tmx_run_create(data, nullptr, nullptr, options, 3, &fit), TMX_OK) << tmx_message();
  ASSERT_EQ(tmx_run_train(fit, nullptr, nullptr), TMX_OK);
  ASSERT_EQ(tmx_run_model(fit, &model), TMX_OK);
  tmx_rows unlabelled = view;
  unlabelled.label = nullptr;
  ASSERT_EQ(tmx_data_from_rows_for(model, TMX_FOR_PREDICTION, &unlabelled, nullptr, 0, &asked), TMX_OK)
      << tmx_message();
  const std::size_t n = rows.labels.size(), k = rows.names.size();
  std::vector<double> p(n * k), log_p(n * k), z(n * k), top_p(n * 3);
  std::vector<std::int32_t> top(n * 3);
  ASSERT_EQ(tmx_predict(model, asked, TMX_PROBABILITY, 2, p.data(), p.size()), TMX_OK) << tmx_message();
  ASSERT_EQ(tmx_predict(model, asked, TMX_LOG_PROBABILITY, 1, log_p.data(), p.size()), TMX_OK);
  ASSERT_EQ(tmx_predict(model, asked, TMX_SCORE, 1, z.data(), p.size()), TMX_OK);
  ASSERT_EQ(tmx_predict_top(model, asked, 3, 1, top.data(), top_p.data(), top.size()), TMX_OK);
  std::uint64_t count = k * 40;
  std::vector<float> weight(count), intercept(k);
  ASSERT_EQ(tmx_model_tensor(model, "weight", weight.data(), &count), TMX_OK);
  count = k;
  ASSERT_EQ(tmx_model_tensor(model, "intercept", intercept.data(), &count), TMX_OK);
  for (std::size_t r = 0; r < n; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < k; ++c) {
      double score = static_cast<double>(intercept[c]);
      for (auto j = rows.offsets[r]; j < rows.offsets[r + 1]; ++j)
        score += static_cast<double>(rows.values[static_cast<std::size_t>(j)]) *
                 static_cast<double>(
                     weight[c * 40 + static_cast<std::size_t>(rows.indices[static_cast<std::size_t>(j)])]);
      EXPECT_NEAR(z[r * k + c], score, 1e-9);
      sum += std::exp(score);
    }
    double total = 0;
    for (std::size_t c = 0; c < k; ++c) {
      EXPECT_NEAR(p[r * k + c], std::exp(z[r * k + c]) / sum, 1e-9);
      EXPECT_NEAR(std::exp(log_p[r * k + c]), p[r * k + c], 1e-12);
      EXPECT_LE(p[r * k + c], 1);
      total += p[r * k + c];
    }
    EXPECT_NEAR(total, 1, 1e-12);
    EXPECT_NEAR(top_p[3 * r], *std::max_element(&p[r * k], &p[r * k] + k), 1e-6);
    EXPECT_NEAR(p[r * k + static_cast<std::size_t>(top[3 * r + 1])], top_p[3 * r + 1], 1e-6);
  }
}

TEST_F(CApi, ArraysAreReleasedOnce) {
  int released = 0;
  CRows rows = read_libsvm(path("g.txt"), 40);
  tmx_rows view = rows.view();
  view.release = [](void* count) { ++*static_cast<int*>(count); };
  view.owner = &released;
  {
    OwnedData data;
    OwnedRun run;
    ASSERT_EQ(tmx_data_from_rows(&view, nullptr, 0, &data), TMX_OK);
    ASSERT_EQ(tmx_run_create(data, nullptr, nullptr, nullptr, 0, &run), TMX_OK);
    tmx_data_free(data.handle);
    data.handle = nullptr;
    EXPECT_EQ(released, 0) << "the run needs them";
    ASSERT_EQ(tmx_run_train(run, nullptr, nullptr), TMX_OK);
  }
  EXPECT_EQ(released, 1);
  rows.labels[0] = 99;
  OwnedData data;
  EXPECT_EQ(tmx_data_from_rows(&view, nullptr, 0, &data), TMX_BAD_INPUT);
  EXPECT_EQ(released, 2);
  rows.labels[0] = 0;
  rows.values[0] = 0;  // converted, so that the arrays are free at once
  ASSERT_EQ(tmx_data_from_rows(&view, nullptr, 0, &data), TMX_OK);
  EXPECT_EQ(released, 3);
}

TEST_F(CApi, EventsTellOfTheRunAndStopIt) {
  OwnedData data;
  const tmx_option format[] = {{"format", "libsvm"}};
  ASSERT_EQ(tmx_data_read(path("g.txt").c_str(), format, 1, &data), TMX_OK) << tmx_message();
  OwnedRun run;
  ASSERT_EQ(tmx_run_create(data, nullptr, nullptr, nullptr, 0, &run), TMX_OK);
  std::map<std::string, int> seen;
  const auto count = [](const char* json, void* context) {
    const auto event = nlohmann::json::parse(json);
    ++(*static_cast<std::map<std::string, int>*>(context))[event["event"]];
    EXPECT_TRUE(event["event"] != "trial" || std::isfinite(event["log_loss"].get<double>()));
    return 0;
  };
  ASSERT_EQ(tmx_run_train(run, count, &seen), TMX_OK) << tmx_message();
  const char* json = nullptr;
  ASSERT_EQ(tmx_run_json(run, &json), TMX_OK);
  const auto about = nlohmann::json::parse(json);
  EXPECT_EQ(about["solver"], about["plan"]["solver"]);
  EXPECT_TRUE(about["plan"]["sought"].empty()) << "nothing is sought any more";
  EXPECT_EQ(seen["trial"], about["trials"]);
  EXPECT_GT(seen["trial"], 2);
  EXPECT_EQ(seen["trying"], seen["trial"]);
  EXPECT_EQ(seen["fit"], 1);
  EXPECT_EQ(seen["evaluate"], 1);
  EXPECT_EQ(about["interrupted"], false);
  EXPECT_EQ(tmx_run_train(run, nullptr, nullptr), TMX_BAD_INPUT) << "trained twice";

  OwnedRun planned;
  const tmx_option unused[] = {{"method", "prox"}, {"delta", "3"}};
  ASSERT_EQ(tmx_run_create(data, nullptr, nullptr, unused, 2, &planned), TMX_OK) << tmx_message();
  ASSERT_EQ(tmx_run_plan(planned, &json), TMX_OK) << "before it is trained";
  const auto plan = nlohmann::json::parse(json);
  EXPECT_EQ(plan["plan"]["options"]["method"], "prox");
  EXPECT_THAT(plan["notes"][0].get<std::string>(), testing::HasSubstr("--delta has no effect on prox"));
  EXPECT_THAT(plan["text"].get<std::string>(), testing::StartsWith("method  prox, "));

  OwnedRun endless;
  const tmx_option options[] = {{"method", "prox"}, {"epochs", "1000000"}, {"eval-every", "1"}};
  ASSERT_EQ(tmx_run_create(data, nullptr, nullptr, options, 3, &endless), TMX_OK) << tmx_message();
  const auto stop = [](const char* event, void*) {
    return std::string(event).find("\"evaluate\"") != std::string::npos ? 1 : 0;
  };
  ASSERT_EQ(tmx_run_train(endless, stop, nullptr), TMX_OK);
  ASSERT_EQ(tmx_run_json(endless, &json), TMX_OK);
  EXPECT_EQ(nlohmann::json::parse(json)["interrupted"], true);
  OwnedModel model;
  EXPECT_EQ(tmx_run_model(endless, &model), TMX_OK);

  OwnedRun stopped;
  ASSERT_EQ(tmx_run_create(data, nullptr, nullptr, options, 3, &stopped), TMX_OK);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    tmx_run_stop(stopped);
  });
  EXPECT_EQ(tmx_run_train(stopped, nullptr, nullptr), TMX_OK);
  other.join();
}

TEST_F(CApi, StartsFromAModelWithNewClasses) {
  CRows rows = read_libsvm(path("g.txt"), 40);
  tmx_rows view = rows.view();
  OwnedData first, second;
  OwnedRun run, more;
  OwnedModel model, after;
  const tmx_option options[] = {{"epochs", "1"}, {"step", "1"}, {"ridge", "0"}};
  ASSERT_EQ(tmx_data_from_rows(&view, nullptr, 0, &first), TMX_OK);
  ASSERT_EQ(tmx_run_create(first, nullptr, nullptr, options, 3, &run), TMX_OK) << tmx_message();
  ASSERT_EQ(tmx_run_train(run, nullptr, nullptr), TMX_OK);
  ASSERT_EQ(tmx_run_model(run, &model), TMX_OK);
  rows.names.emplace_back("new");
  const std::vector<double> counts(rows.names.size(), 3.0);
  view = rows.view();
  view.name_counts = counts.data();
  ASSERT_EQ(tmx_data_from_rows(&view, nullptr, 0, &second), TMX_OK) << tmx_message();
  ASSERT_EQ(tmx_run_create(second, nullptr, model, options, 3, &more), TMX_OK) << tmx_message();
  ASSERT_EQ(tmx_run_train(more, nullptr, nullptr), TMX_OK) << tmx_message();
  ASSERT_EQ(tmx_run_model(more, &after), TMX_OK);
  std::uint64_t classes = 0;
  ASSERT_EQ(tmx_model_shape(after, &classes, nullptr, nullptr), TMX_OK);
  EXPECT_EQ(classes, rows.names.size());
  const char* json = nullptr;
  ASSERT_EQ(tmx_evaluate(model, first, 1, &json), TMX_OK) << tmx_message();
  const double before = nlohmann::json::parse(json)["log_loss"];
  ASSERT_EQ(tmx_evaluate(after, second, 1, &json), TMX_OK) << tmx_message();
  EXPECT_LT(nlohmann::json::parse(json)["log_loss"].get<double>(), before) << "a second pass learns more";
}

TEST_F(CApi, EveryOptionIsDescribed) {
  const char* json = nullptr;
  ASSERT_EQ(tmx_options_json(&json), TMX_OK);
  std::size_t train = 0;
  for (const auto& option : nlohmann::json::parse(json)) {
    EXPECT_FALSE(option["help"].get<std::string>().empty()) << option;
    train += option["of"] == "train";
  }
  Recipe options;
  OptionTable table;
  options.describe(table);
  EXPECT_EQ(train, table.options().size());
}

}  // namespace
}  // namespace truemax
