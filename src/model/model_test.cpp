// The model file: it round-trips bit for bit and has the layout of docs/model-file.md.
#include "model/model.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/safetensors.hpp"
#include "model/test_support.hpp"

namespace truemax {
namespace {

std::vector<float> class_weights(const Model& model, ClassId k) {
  std::vector<float> row(model.weights.features());
  model.weights.copy_class(k, row);
  if (model.weights.has_intercept()) row.push_back(model.weights.intercept()[k]);
  return row;
}

void expect_same(const Model& a, const Model& b) {
  ASSERT_EQ(a.classes->size(), b.classes->size());
  ASSERT_EQ(a.weights.features(), b.weights.features());
  ASSERT_EQ(a.weights.has_intercept(), b.weights.has_intercept());
  for (ClassId k = 0; k < a.classes->size(); ++k) {
    EXPECT_EQ(a.classes->name(k), b.classes->name(k));
    EXPECT_EQ(a.classes->count(k), b.classes->count(k));
    const std::vector<float> wa = class_weights(a, k), wb = class_weights(b, k);
    EXPECT_EQ(std::memcmp(wa.data(), wb.data(), wa.size() * sizeof(float)), 0) << a.classes->name(k);
  }
  EXPECT_EQ(a.space->file_features, b.space->file_features);
  EXPECT_EQ(a.space->features, b.space->features);
  EXPECT_EQ(a.space->declared, b.space->declared);
  EXPECT_EQ(a.space->words, b.space->words);
  EXPECT_EQ(a.preprocess.labels, b.preprocess.labels);
  EXPECT_EQ(a.preprocess.max_features, b.preprocess.max_features);
  EXPECT_EQ(a.preprocess.normalize, b.preprocess.normalize);
  EXPECT_EQ(a.method, b.method);
  // As unordered objects: the file need not keep the order of keys.
  EXPECT_EQ(nlohmann::json(a.options), nlohmann::json(b.options));
  EXPECT_EQ(nlohmann::json(a.data), nlohmann::json(b.data));
}

TEST(ModelFile, RoundTripsBitForBit) {
  const TempFolder folder;
  for (const bool intercept : {false, true})
    for (const bool words : {false, true})
      for (const std::size_t features : {1U, 5U, 333U}) {
        const Model model = random_model(features, {features, intercept, words, awkward_names()});
        save_model(model, folder.path("m"));
        expect_same(model, load_model(folder.path("m"), kAnyMemory));
        const std::string bytes = read_bytes(folder.path("m"));
        save_model(load_model(folder.path("m"), kAnyMemory), folder.path("again"));
        EXPECT_EQ(read_bytes(folder.path("again")), bytes);
      }
}

TEST(ModelFile, KeepsSpecialFloats) {
  const TempFolder folder;
  Model model = random_model(1, {6, false, false, {"a", "b"}});
  constexpr float kMost = std::numeric_limits<float>::max(),
                  kLeast = std::numeric_limits<float>::denorm_min();
  model.weights.set_class(0, std::vector{-0.0F, kMost, -kMost, kLeast, -kLeast, 1.0F / 3});
  save_model(model, folder.path("m"));
  expect_same(model, load_model(folder.path("m"), kAnyMemory));
}

TEST(ModelFile, HoldsManyClasses) {
  const TempFolder folder;
  ModelShape shape{3, true, false, {}};
  for (int k = 0; k < 5000; ++k) shape.names.push_back(std::to_string(k * 7919 % 100003));
  const Model model = random_model(2, shape);
  save_model(model, folder.path("m"));
  expect_same(model, load_model(folder.path("m"), kAnyMemory));
}

// Reads the file by hand, without code of the project.
TEST(ModelFile, IsLengthHeaderAndRowsInNameOrder) {
  const TempFolder folder;
  const std::vector<std::string> by_name{"-3",
                                         "0",
                                         "007",
                                         "9",
                                         "10",
                                         "1e5",
                                         "Abc",
                                         "abc",
                                         "quote \" and \\",
                                         "tab\tand\nline",
                                         "two words",
                                         "zürich 東京 🙂"};
  for (const bool intercept : {false, true}) {
    const Model model = random_model(3, {4, intercept, false, awkward_names()});
    save_model(model, folder.path("m"));
    const std::string bytes = read_bytes(folder.path("m"));
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    ASSERT_LE(8 + length, bytes.size());
    EXPECT_EQ(length % 8, 0U);
    const auto header = nlohmann::json::parse(bytes.substr(8, length));
    const std::size_t classes = by_name.size();
    EXPECT_EQ(header["weight"]["dtype"], "F32");
    EXPECT_EQ(header["weight"]["shape"], nlohmann::json({classes, 4}));
    EXPECT_EQ(header["weight"]["data_offsets"], nlohmann::json({0, classes * 16}));
    EXPECT_EQ(header.contains("intercept"), intercept);
    EXPECT_EQ(bytes.size(), 8 + length + model_bytes(classes, 4, intercept));
    const auto meta = nlohmann::json::parse(header["__metadata__"]["truemax"].get<std::string>());
    EXPECT_EQ(meta["format_version"], 1);
    EXPECT_EQ(meta["classes"], nlohmann::json(by_name));
    EXPECT_EQ(meta["method"], "implicit");
    EXPECT_EQ(meta["preprocessing"]["labels"], "all");
    const char* data = bytes.data() + 8 + length;
    for (std::size_t r = 0; r < classes; ++r) {
      const ClassId k = model.classes->find(by_name[r]);
      ASSERT_NE(k, kUnseenClass);
      EXPECT_EQ(meta["class_counts"][r], model.classes->count(k));
      std::vector<float> row(4);
      std::memcpy(row.data(), data + r * 16, 16);
      std::vector<float> expected(4);
      model.weights.copy_class(k, expected);
      EXPECT_EQ(row, expected) << by_name[r];
      if (!intercept) continue;
      EXPECT_EQ(header["intercept"]["shape"], nlohmann::json::array({classes}));
      EXPECT_EQ(header["intercept"]["data_offsets"], nlohmann::json({classes * 16, classes * 20}));
      float b = 0;
      std::memcpy(&b, data + classes * 16 + r * 4, 4);
      EXPECT_EQ(b, model.weights.intercept()[k]);
    }
  }
}

TEST(ModelFile, MetadataIsReadWithoutTheWeights) {
  const TempFolder folder;
  save_model(random_model(4, {5, true, false, awkward_names()}), folder.path("m"));
  const nlohmann::json meta = read_model_metadata(folder.path("m"));
  EXPECT_EQ(meta["weight_shape"], nlohmann::json({12, 5}));
  EXPECT_EQ(meta["intercept"], true);
  EXPECT_EQ(meta["options"]["step"], 0.1);
  EXPECT_EQ(meta["data"]["rows"], 1000);
}

std::size_t files_in(const TempFolder& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path("")),
                                                std::filesystem::directory_iterator()));
}

// While this exists, every write past 64 KiB fails, as on a full disk.
class FullDisk {
 public:
  FullDisk() : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit small = old_;
    small.rlim_cur = 1 << 16;
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

TEST(ModelFile, FailedSaveLeavesOnlyTheOldFile) {
  const TempFolder folder;
  const std::string path = folder.write("m", "the old model");
  const Model large = random_model(5, {20000, false, false, {"a", "b", "c"}});
  std::string message;
  {
    const FullDisk full;
    try {
      save_model(large, path);
    } catch (const UserError& error) {
      message = error.what();
    }
  }
  EXPECT_NE(message.find(path), std::string::npos) << message;
  EXPECT_NE(message.find("old file"), std::string::npos) << message;
  EXPECT_EQ(read_bytes(path), "the old model");
  EXPECT_EQ(files_in(folder), 1U);
  EXPECT_NE(error_of([&] { save_model(large, folder.path("no/such/m")); }), "");
  EXPECT_EQ(files_in(folder), 1U);
  save_model(large, path);  // with room it works
  EXPECT_EQ(files_in(folder), 1U);
  expect_same(large, load_model(path, kAnyMemory));
}

TEST(ModelFile, IsRefusedIfMemoryIsShort) {
  const TempFolder folder;
  save_model(random_model(6, {100, false, false, {"a", "b", "c"}}), folder.path("m"));
  const std::uint64_t needed = Weights::bytes_needed(3, 100);
  EXPECT_NO_THROW(load_model(folder.path("m"), needed));
  const std::string message = error_of([&] { load_model(folder.path("m"), needed - 1); });
  EXPECT_NE(message.find("--memory-limit"), std::string::npos) << message;
}

TEST(ModelBytes, CountTheTensors) {
  EXPECT_EQ(model_bytes(10, 3, false), 120U);
  EXPECT_EQ(model_bytes(10, 3, true), 160U);
}

TEST(SafetensorsHeader, TensorsAreContiguousAndAligned) {
  const TempFolder folder;
  for (std::size_t pad = 0; pad < 9; ++pad) {
    const std::string bytes =
        make_safetensors_header({{"a", {2, 3}}, {"b", {5}}, {"c", {}}}, {{"k", std::string(pad, 'x')}});
    ASSERT_EQ(bytes.size() % 8, 0U);
    const std::string path = folder.write("f", bytes + std::string(24 + 20 + 4, '\1'));
    const SafetensorsHeader header = read_safetensors_header(path);
    EXPECT_EQ(header.data_begin, bytes.size());
    EXPECT_EQ(header.metadata.at("k"), std::string(pad, 'x'));
    const TensorPlace &a = header.tensors.at("a"), &b = header.tensors.at("b"), &c = header.tensors.at("c");
    EXPECT_EQ(a.begin, bytes.size());
    EXPECT_EQ(a.end, bytes.size() + 24);
    EXPECT_EQ(a.shape, (std::vector<std::uint64_t>{2, 3}));
    EXPECT_EQ(b.begin, a.end);
    EXPECT_EQ(b.end, a.end + 20);
    EXPECT_EQ(c.end, b.end + 4);
  }
}

}  // namespace
}  // namespace truemax
