// The C interface: what it refuses, that it trains as the command line does, and that no misuse gets out of
// it.
#include "truemax/c.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "data/generate.hpp"
#include "model/model.hpp"
#include "train/run.hpp"
#include "truemax/truemax.hpp"

namespace truemax {
namespace {

using ::testing::HasSubstr;

// A handle that frees itself.
template <class Handle, void (*Free)(Handle*)>
struct Owned {
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Free(handle); }
  Handle** operator&() { return &handle; }     // NOLINT(google-runtime-operator)
  operator Handle*() const { return handle; }  // NOLINT(google-explicit-constructor)
  Handle* handle = nullptr;
};
using OwnedData = Owned<tmx_data, tmx_data_free>;
using OwnedModel = Owned<tmx_model, tmx_model_free>;
using OwnedRun = Owned<tmx_run, tmx_run_free>;

// CSR rows of a libsvm file, and names by number.
struct CRows {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices, labels;
  std::vector<float> values;
  std::vector<std::string> names;
  std::vector<const char*> pointers;
  std::uint64_t columns = 0;

  tmx_rows view() {
    pointers.clear();
    for (const std::string& name : names) pointers.push_back(name.c_str());
    tmx_rows rows{};
    rows.size = sizeof rows;
    rows.rows = offsets.size() - 1, rows.columns = columns;
    rows.offsets = offsets.data(), rows.offset_type = TMX_INT64;
    rows.indices = indices.data(), rows.index_type = TMX_INT32;
    rows.values = values.data(), rows.value_type = TMX_FLOAT32;
    rows.numbers = values.size();
    rows.label = labels.data();
    rows.names = pointers.data(), rows.name_count = pointers.size();
    return rows;
  }
};

CRows read_libsvm(const std::string& path, std::uint64_t columns) {
  CRows rows;
  rows.columns = columns;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    const auto at = std::find(rows.names.begin(), rows.names.end(), word);
    rows.labels.push_back(static_cast<std::int32_t>(at - rows.names.begin()));
    if (at == rows.names.end()) rows.names.push_back(word);
    while (words >> word) {
      rows.indices.push_back(std::stoi(word) - 1);
      rows.values.push_back(std::stof(word.substr(word.find(':') + 1)));
    }
    rows.offsets.push_back(static_cast<std::int64_t>(rows.indices.size()));
  }
  return rows;
}

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
    run.train.complete([&](const char* name) {
      return std::any_of(options.begin(), options.end(),
                         [&](const tmx_option& o) { return std::string(o.name) == name; });
    });
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
  EXPECT_EQ(seen["trial"], about["trials"]);
  EXPECT_GT(seen["trial"], 2);
  EXPECT_EQ(seen["trying"], seen["trial"]);
  EXPECT_EQ(seen["fit"], 1);
  EXPECT_EQ(seen["evaluate"], 1);
  EXPECT_EQ(about["interrupted"], false);
  EXPECT_EQ(tmx_run_train(run, nullptr, nullptr), TMX_BAD_INPUT) << "trained twice";

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
  TrainOptions options;
  OptionTable table;
  options.describe(table);
  EXPECT_EQ(train, table.options().size());
}

// Arguments that are wrong in one to three ways, 1,500 of them: each call returns, and says why.
TEST_F(CApi, MisuseIsRefusedWithAMessage) {
  CRows good = read_libsvm(path("g.txt"), 40);
  tmx_rows base = good.view();
  OwnedData data;
  OwnedRun run;
  OwnedModel model;
  const tmx_option quick[] = {{"epochs", "1"}, {"step", "1"}, {"ridge", "0"}, {"threads", "1"}};
  ASSERT_EQ(tmx_data_from_rows(&base, nullptr, 0, &data), TMX_OK);
  ASSERT_EQ(tmx_run_create(data, nullptr, nullptr, quick, 4, &run), TMX_OK);
  ASSERT_EQ(tmx_run_train(run, nullptr, nullptr), TMX_OK);
  ASSERT_EQ(tmx_run_model(run, &model), TMX_OK);

  std::mt19937 random(7);
  const auto any = [&](std::uint64_t below) { return random() % below; };
  const char* const texts[] = {
      "",        "-1",       "nan",  "inf",  "1e400", "auto",  "none",   "\xff\xfe", "9999999999999999999999",
      "on",      "0",        "prox", "umax", "scent", "exact", "blocks", "1K",       "bag",
      "complex", "skipgram", "all"};
  const char* const names[] = {"step",
                               "epochs",
                               "method",
                               "hidden",
                               "ridge",
                               "threads",
                               "seed",
                               "draw",
                               "memory-limit",
                               "lr",
                               "",
                               "classes-per-step",
                               "patience",
                               "valid-share",
                               "normalize",
                               "labels",
                               "max-features",
                               "hash-features",
                               "encoder",
                               "context",
                               "seconds",
                               "rows-per-step",
                               "format",
                               "eval"};
  const float bad_floats[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                              1e38F, -1e38F, 1e-45F};
  std::map<tmx_status, int> statuses;
  const auto checked = [&](tmx_status status) {
    ++statuses[status];
    EXPECT_NE(status, TMX_INTERNAL) << tmx_message();
    EXPECT_EQ(status == TMX_OK, std::string(tmx_message()).empty()) << tmx_message();
    return status;
  };
  for (int i = 0; i < 1500; ++i) {
    SCOPED_TRACE(i);
    CRows rows = good;
    rows.offsets.resize(21);
    rows.labels.resize(20);
    rows.indices.resize(static_cast<std::size_t>(rows.offsets.back()));
    rows.values.resize(rows.indices.size());
    std::vector<double> weights(20, 1.0);
    tmx_rows view = rows.view();
    for (std::uint64_t wrong = 1 + any(3); wrong > 0; --wrong) switch (any(14)) {
        case 0:
          view.size = any(300);
          break;
        case 1:
          view.columns = any(2) * any(41);
          break;
        case 2:
          rows.values[any(rows.values.size())] = bad_floats[any(5)];
          break;
        case 3:
          rows.indices[any(rows.indices.size())] = static_cast<std::int32_t>(any(100)) - 50;
          break;
        case 4:
          rows.offsets[any(21)] = static_cast<std::int64_t>(any(400)) - 100;
          break;
        case 5:
          rows.labels[any(20)] = static_cast<std::int32_t>(any(60)) - 20;
          break;
        case 6:
          view.names = nullptr;
          break;
        case 7:
          view.offsets = nullptr, view.row_stride = 0, view.column_stride = 4, view.columns = 4;
          break;
        case 8:
          view.value_type = static_cast<tmx_type>(any(7));
          view.numbers /= 2;
          break;
        case 9:
          weights[any(20)] = any(2) == 0 ? -1.0 : std::nan("");
          view.weights = weights.data();
          break;
        case 10:
          view.label = nullptr;
          break;
        case 11:
          view.rows = any(2) * 20;
          break;
        case 12:
          view.indices = nullptr;
          break;
        default:
          rows.pointers[any(rows.pointers.size())] = any(2) == 0 ? nullptr : "\xc3\x28";
          break;
      }
    std::vector<tmx_option> options;
    for (std::uint64_t o = any(4); o > 0; --o)
      options.push_back({names[any(std::size(names))], texts[any(std::size(texts))]});
    if (any(10) == 0) options.push_back({any(2) == 0 ? nullptr : "step", nullptr});
    OwnedData made;
    const std::uint64_t kind = any(6);
    if (kind == 0)
      checked(tmx_data_from_rows(&view, options.data(), options.size(), &made));
    else if (kind == 1)
      checked(tmx_data_from_rows_for(any(8) == 0 ? nullptr : model.handle, static_cast<tmx_purpose>(any(4)),
                                     &view, options.data(), any(2) * options.size(), &made));
    else if (kind == 2)
      checked(tmx_data_from_rows_beside(data, any(8) == 0 ? nullptr : &view, nullptr, 0, &made));
    if (made.handle != nullptr) {
      std::vector<double> out(20 * 12);
      const std::uint64_t room = any(2) * out.size();
      checked(tmx_predict(model, made, static_cast<tmx_value>(any(5)), any(3),
                          any(5) == 0 ? nullptr : out.data(), room));
      const char* json = nullptr;
      checked(tmx_evaluate(model, made, 1, &json));
    }
    if (kind == 3) {
      OwnedRun wrong_run;
      options.push_back({"steps", "3"});
      if (checked(tmx_run_create(any(6) == 0 ? nullptr : data.handle, nullptr,
                                 any(2) == 0 ? model.handle : nullptr, options.data(), options.size(),
                                 &wrong_run)) == TMX_OK) {
        OwnedModel early;
        EXPECT_EQ(checked(tmx_run_model(wrong_run, &early)), TMX_BAD_INPUT);
        tmx_run_stop(wrong_run);
        checked(tmx_run_train(wrong_run, nullptr, nullptr));
      }
    }
    if (kind == 4) {
      std::uint64_t count = any(600);
      std::vector<float> out(count + 1);
      const char* const tensors[] = {"weight", "intercept", "embedding", "context", "", "Weight"};
      checked(tmx_model_tensor(any(9) == 0 ? nullptr : model.handle, tensors[any(6)],
                               any(2) == 0 ? nullptr : out.data(), &count));
      std::vector<std::int32_t> classes(900);
      std::vector<double> p(900);
      checked(
          tmx_predict_top(model, data, any(14), 1, classes.data(), p.data(), any(2) == 0 ? 900 : any(900)));
    }
    if (kind == 5) {
      OwnedModel loaded;
      const std::string file = path("broken");
      std::ofstream(file, std::ios::binary) << std::string(any(64), static_cast<char>(random()));
      checked(tmx_model_load(any(9) == 0 ? nullptr : file.c_str(), nullptr, 0, &loaded));
      checked(tmx_data_read(any(2) == 0 ? file.c_str() : "", options.data(), options.size(), &made));
      checked(tmx_model_save(model, any(2) == 0 ? "" : "/no/such/folder/m"));
    }
  }
  EXPECT_GT(statuses[TMX_BAD_INPUT], 800);
  EXPECT_GT(statuses[TMX_OK], 50) << "some of it must be right, or nothing past the first check was tried";
  tmx_data_free(nullptr), tmx_model_free(nullptr), tmx_run_free(nullptr), tmx_run_stop(nullptr);
}

}  // namespace
}  // namespace truemax
