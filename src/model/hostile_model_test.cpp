// Files that are not a model, or have a false header: always a UserError that names the file, never a crash
// or another exception.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/model.hpp"
#include "model/test_support.hpp"

namespace truemax {
namespace {

using Json = nlohmann::json;

// A good model of 3 classes, 2 features and an intercept, as the parts of its file.
struct Parts {
  Json header, meta;
  std::string data;

  std::string bytes() const {
    Json whole = header;
    whole["__metadata__"]["truemax"] = meta.dump();
    return with_header(whole.dump());
  }
  std::string with_header(const std::string& text) const {
    const std::uint64_t length = text.size();
    std::string out(8, '\0');
    std::memcpy(out.data(), &length, 8);
    return out + text + data;
  }
};

class HostileModel : public testing::Test {
 protected:
  void SetUp() override {
    save_model(random_model(1, {2, true, false, {"a", "b", "c"}}), folder_.path("good"));
    good_ = read_bytes(folder_.path("good"));
    std::uint64_t length = 0;
    std::memcpy(&length, good_.data(), 8);
    parts_.header = Json::parse(good_.substr(8, length));
    parts_.meta = Json::parse(parts_.header["__metadata__"]["truemax"].get<std::string>());
    parts_.data = good_.substr(8 + length);
    // Without checksums, so that each case is refused for its own reason.
    parts_.header["__metadata__"].erase("truemax_checksum");
    parts_.meta.erase("checksums");
    ASSERT_EQ(parts_.data.size(), 36U);
    ASSERT_NO_THROW(load(parts_.bytes()));  // still valid after the round trip
  }

  // A new file each time: some file systems sync when an old one is overwritten.
  std::string write(const std::string& bytes) const {
    std::filesystem::remove(folder_.path("m"));
    return folder_.write("m", bytes);
  }
  Model load(const std::string& bytes) const { return load_model(write(bytes), kAnyMemory); }
  // Refused by the loader and, if the header is wrong, also by read_model_metadata.
  void expect_refused(const std::string& bytes, const std::string& what, const char* says = "",
                      bool in_header = true) {
    const std::string path = write(bytes);
    for (const bool whole : {true, false}) {
      if (!whole && !in_header) continue;
      try {
        if (whole)
          load_model(path, kAnyMemory);
        else
          read_model_metadata(path);
        ADD_FAILURE() << "taken: " << what;
      } catch (const UserError& error) {
        EXPECT_EQ(std::string(error.what()).find(path), 0U) << error.what();
        EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << what << ": " << error.what();
      } catch (const std::exception& error) {
        ADD_FAILURE() << what << ": not a UserError: " << error.what();
      }
    }
  }
  void expect_refused(const std::function<void(Parts&)>& spoil, const std::string& what,
                      const char* says = "", bool in_header = true) {
    Parts parts = parts_;
    spoil(parts);
    expect_refused(parts.bytes(), what, says, in_header);
  }

  TempFolder folder_;
  std::string good_;
  Parts parts_;
};

TEST_F(HostileModel, TruncatedAtAnyByteIsRefused) {
  for (std::size_t size = 0; size < good_.size(); ++size)
    expect_refused(good_.substr(0, size), "first " + std::to_string(size) + " bytes");
}

TEST_F(HostileModel, WithBytesAddedIsRefused) {
  for (const std::size_t more : {1U, 4U, 100U})
    expect_refused(good_ + std::string(more, '\0'), std::to_string(more) + " more", "follow the last tensor");
}

TEST_F(HostileModel, WithAnyByteChangedIsRefused) {
  for (std::size_t at = 0; at < good_.size(); ++at)
    for (const char c : {'\0', '\xFF', '"', '{', '9', '\x80'}) {
      std::string bytes = good_;
      bytes[at] = c;
      if (bytes == good_) continue;
      EXPECT_THROW(load(bytes), UserError) << "byte " << at << " is " << int{c};
    }
}

TEST_F(HostileModel, ChangedByteWithoutChecksumsNeverCrashes) {
  const std::string old = parts_.bytes();
  for (std::size_t at = 0; at < old.size(); ++at)
    for (const char c : {'\0', '\xFF', '"', '{', '9', '\x80'}) {
      std::string bytes = old;
      bytes[at] = c;
      try {
        const Model model = load(bytes);
        ASSERT_EQ(model.classes->size(), 3U);
        ASSERT_TRUE(std::isfinite(model.weights.largest()));
      } catch (const UserError&) {
      }
    }
}

TEST_F(HostileModel, ImpossibleHeaderLengthsAreRefused) {
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, good_.size() - 7, good_.size(),
        std::uint64_t{1} << 32, std::uint64_t{1} << 62, std::uint64_t{1} << 63, (std::uint64_t{1} << 63) + 5,
        ~std::uint64_t{0} - 8, ~std::uint64_t{0} - 7, ~std::uint64_t{0}}) {
    std::string bytes = good_;
    std::memcpy(bytes.data(), &length, 8);
    expect_refused(bytes, "header length " + std::to_string(length));
  }
}

// A byte of nested brackets would take a hundred bytes of memory.
TEST_F(HostileModel, DeeplyNestedJsonIsRefused) {
  for (const std::size_t depth : {65U, 100000U}) {
    expect_refused(parts_.with_header("{\"x\":" + std::string(depth, '[')), "nested header",
                   "not a JSON object");
    const std::string deep = std::string(depth, '[') + std::string(depth, ']');
    Parts parts = parts_;
    std::string meta = parts.meta.dump();
    meta.insert(1, "\"deep\":" + deep + ",");
    parts.header["__metadata__"]["truemax"] = meta;
    expect_refused(parts.with_header(parts.header.dump()), "nested metadata", "not a JSON object");
  }
}

TEST_F(HostileModel, HeaderLongerThanItsLimitIsRefused) {
  const std::uint64_t length = (std::uint64_t{1} << 30) + 8;
  std::string start(8, '\0');
  std::memcpy(start.data(), &length, 8);
  const std::string path = write(start + "{\"");
  std::filesystem::resize_file(path, length + 8);
  const std::string message = error_of([&] { read_model_metadata(path); });
  EXPECT_NE(message.find("is longer than 1.0 GB"), std::string::npos) << message;
}

// A sparse file as long as its header claims: the length must be checked before the header is read.
TEST_F(HostileModel, HeaderLargerThanMemoryIsRefused) {
  const std::uint64_t length = (std::uint64_t{1} << 40) - 8;
  std::string start(8, '\0');
  std::memcpy(start.data(), &length, 8);
  const std::string path = write(start + "{\"");
  std::filesystem::resize_file(path, std::uint64_t{1} << 40);
  EXPECT_THROW(load_model(path, kAnyMemory), UserError);
  EXPECT_THROW(read_model_metadata(path), UserError);
}

TEST_F(HostileModel, HeaderThatIsNotAJsonObjectIsRefused) {
  for (const std::string& text :
       {std::string("[]"), std::string("12"), std::string("null"), std::string("{}"), std::string("{\"a\":"),
        std::string(50, ' '), std::string(20, '\0'), std::string("\"weight\""),
        std::string("{\"__metadata__\":{}}"), std::string("{\"__metadata__\":[]}"),
        std::string("{\"__metadata__\":{\"truemax\":1}}"), std::string("{\"weight\":{}}"),
        std::string("{\"weight\":[]}"), std::string(100000, '['),
        std::string("{\"a\":") + std::string(100000, '[')})
    expect_refused(parts_.with_header(text), text.substr(0, 60));
}

TEST_F(HostileModel, DuplicateKeyIsRefused) {
  Json whole = parts_.header;
  const std::string text = whole.dump();
  const std::string twice = "{\"weight\":" + whole["weight"].dump() + "," + text.substr(1);
  expect_refused(parts_.with_header(twice), "weight twice", "twice");
  std::string inside = text;
  inside.replace(inside.find("{\"data_offsets\""), 1, "{\"dtype\":\"F32\",");
  expect_refused(parts_.with_header(inside), "dtype twice", "twice");
}

// Two readers must not see two models.
TEST_F(HostileModel, DuplicateKeyInMetadataIsRefused) {
  Json whole = parts_.header;
  whole["__metadata__"]["truemax"] = "{\"classes\":[\"x\",\"y\",\"z\"]," + parts_.meta.dump().substr(1);
  expect_refused(parts_.with_header(whole.dump()), "classes twice", "twice");
}

TEST_F(HostileModel, TensorsMustCoverTheDataExactly) {
  const auto offsets = [](const char* tensor, std::uint64_t begin, std::uint64_t end) {
    return [=](Parts& p) { p.header[tensor]["data_offsets"] = {begin, end}; };
  };
  expect_refused(offsets("intercept", 12, 24), "intercept inside weight");
  expect_refused(offsets("intercept", 20, 32), "intercept half in weight");
  expect_refused(offsets("weight", 12, 36), "weight over intercept");
  expect_refused(offsets("intercept", 28, 40), "past the end");
  expect_refused(offsets("weight", 24, 0), "backwards");
  expect_refused(offsets("weight", 0, 23), "a byte short");
  expect_refused(offsets("intercept", ~0ULL - 11, ~0ULL), "at the end of all numbers");
  expect_refused(
      [](Parts& p) {
        p.header["intercept"]["data_offsets"] = {12, 24}, p.data.resize(24);
      },
      "overlap", "overlap");
  expect_refused(
      [](Parts& p) {
        p.header["intercept"]["data_offsets"] = {28, 40}, p.data.resize(40);
      },
      "hole", "hole");
  expect_refused(
      [](Parts& p) {
        p.header["weight"]["data_offsets"] = {4, 28}, p.header["intercept"]["data_offsets"] = {28, 40},
        p.data.resize(40);
      },
      "hole at the beginning", "hole");
  for (const Json& bad : {Json::array({0}), Json({0, 24, 24}), Json({-1, 23}), Json({0.0, 24.0}),
                          Json("0-24"), Json(nullptr), Json({"0", "24"})})
    expect_refused([&](Parts& p) { p.header["weight"]["data_offsets"] = bad; }, "offsets " + bad.dump());
}

TEST_F(HostileModel, TensorsInReverseOrderAreAccepted) {
  Parts p = parts_;
  p.header["intercept"]["data_offsets"] = {0, 12};
  p.header["weight"]["data_offsets"] = {12, 36};
  const Model model = load(p.bytes());
  float first = 0;
  std::memcpy(&first, p.data.data(), 4);
  EXPECT_EQ(model.weights.intercept()[model.classes->find("a")], first);
}

TEST_F(HostileModel, WrongTypesAndShapesAreRefused) {
  for (const char* type : {"F64", "F16", "BF16", "I32", "U32", "I8", "f32", "", "F128"})
    for (const char* tensor : {"weight", "intercept"})
      expect_refused([&](Parts& p) { p.header[tensor]["dtype"] = type; },
                     std::string(tensor) + " of " + type);
  for (const Json& shape : {Json::array(), Json::array({6}), Json({2, 3}), Json({6, 1}), Json({1, 6}),
                            Json({3, 2, 1}), Json({3, -2}), Json({3, 2.0}), Json("3,2"), Json(nullptr),
                            Json({0, 2}), Json({3, 0}), Json({"3", "2"}), Json({3, (1ULL << 62) + 2}),
                            Json({1ULL << 63, 1ULL << 63}), Json({4294967299ULL, 4294967298ULL})})
    expect_refused([&](Parts& p) { p.header["weight"]["shape"] = shape; }, "weight of shape " + shape.dump());
  for (const Json& shape : {Json::array({2}), Json::array({4}), Json({3, 1}), Json({1, 3}), Json::array()})
    expect_refused([&](Parts& p) { p.header["intercept"]["shape"] = shape; },
                   "intercept of shape " + shape.dump());
  // Products that overflow to exactly the bytes in the file.
  for (const Json& shape : {Json({3, (1ULL << 62) + 2}), Json({6, 1ULL << 62, 4, 1})})
    expect_refused([&](Parts& p) { p.header["weight"]["shape"] = shape; }, shape.dump(),
                   "too large for memory");
  for (const char* key : {"dtype", "shape", "data_offsets"})
    expect_refused([&](Parts& p) { p.header["weight"].erase(key); }, std::string("without ") + key);
  expect_refused(
      [](Parts& p) {
        p.header["weight"]["shape"] = {1, 6}, p.meta["classes"] = Json::array({"a"}),
        p.meta["class_counts"] = Json::array({1}), p.header.erase("intercept"), p.data.resize(24);
      },
      "one class");
}

TEST_F(HostileModel, MissingOrUnknownTensorsAreRefused) {
  expect_refused(
      [](Parts& p) {
        p.header.erase("weight"), p.header["intercept"]["data_offsets"] = {0, 12}, p.data.resize(12);
      },
      "no weight", "weight");
  expect_refused(
      [](Parts& p) {
        p.header["more"] = {{"dtype", "F32"}, {"shape", Json::array({1})}, {"data_offsets", {36, 40}}};
        p.data.resize(40);
      },
      "a third tensor", "besides");
  expect_refused(
      [](Parts& p) {
        p.header["empty"] = {{"dtype", "F32"}, {"shape", Json::array({0})}, {"data_offsets", {36, 36}}};
      },
      "an empty tensor", "besides");
}

TEST_F(HostileModel, IncompleteOrWrongMetadataIsRefused) {
  for (const char* key :
       {"format_version", "classes", "class_counts", "preprocessing", "method", "features"}) {
    expect_refused([&](Parts& p) { p.meta.erase(key); }, std::string("without ") + key, key);
    for (const Json& bad : {Json(nullptr), Json(true), Json(-1), Json(1.5)})
      expect_refused([&](Parts& p) { p.meta[key] = bad; }, std::string(key) + " = " + bad.dump());
  }
  for (const char* key : {"file_features", "declared", "words"}) {
    expect_refused([&](Parts& p) { p.meta["features"].erase(key); }, std::string("features without ") + key,
                   key);
    for (const Json& bad : {Json(nullptr), Json("x"), Json(-1), Json(1.5), Json::object()})
      expect_refused([&](Parts& p) { p.meta["features"][key] = bad; }, std::string(key) + " = " + bad.dump());
  }
  for (const char* text : {"", "{", "[]", "\"x\"", "12", "null"}) {
    Json whole = parts_.header;
    whole["__metadata__"]["truemax"] = text;
    expect_refused(parts_.with_header(whole.dump()), std::string("metadata ") + text, "JSON");
  }
  Json whole = parts_.header;
  whole["__metadata__"].erase("truemax");
  expect_refused(parts_.with_header(whole.dump()), "metadata of somebody else", "metadata");
  whole.erase("__metadata__");
  expect_refused(parts_.with_header(whole.dump()), "no metadata", "metadata");
}

TEST_F(HostileModel, ErrorForAnotherVersionNamesBoth) {
  for (const Json& version : {Json(0), Json(2), Json(1000), Json(~0ULL), Json((1ULL << 32) + 1)})
    expect_refused([&](Parts& p) { p.meta["format_version"] = version; }, "version " + version.dump(),
                   "reads version 1");
}

TEST_F(HostileModel, InconsistentClassesAreRefused) {
  expect_refused([](Parts& p) { p.meta["classes"] = {"a", "b", "a"}; }, "class twice", "twice");
  expect_refused([](Parts& p) { p.meta["classes"] = {"a", "b"}; }, "too few classes", "names 2 classes");
  expect_refused([](Parts& p) { p.meta["classes"] = {"a", "b", "c", "d"}; }, "too many classes");
  expect_refused([](Parts& p) { p.meta["classes"] = {"a", "b", 3}; }, "a class that is a number");
  expect_refused([](Parts& p) { p.meta["class_counts"] = {1, 2}; }, "too few counts");
  for (const Json& bad : {Json(0), Json(-1), Json(nullptr), Json("1"), Json(-0.0)})
    expect_refused([&](Parts& p) { p.meta["class_counts"][1] = bad; }, "count " + bad.dump(), "class_counts");
}

TEST_F(HostileModel, InconsistentWordsAreRefused) {
  expect_refused([](Parts& p) { p.meta["features"]["words"] = Json::array({"x"}); }, "too few words");
  expect_refused([](Parts& p) { p.meta["features"]["words"] = {"x", "x"}; }, "word twice", "twice", false);
  expect_refused([](Parts& p) { p.meta["features"]["words"] = {"x", 2}; }, "word that is none", "", false);
}

TEST_F(HostileModel, InconsistentBucketsAreRefused) {
  // Two features: a word and a bucket of n-grams.
  const auto with = [](const Json& buckets, const Json& words, int of) {
    return [=](Parts& p) {
      p.meta["preprocessing"] = {{"word-ngrams", 2}, {"ngram-buckets", of}};
      p.meta["features"]["words"] = words;
      p.meta["features"]["buckets"] = buckets;
    };
  };
  const Json one = Json::array({"x"}), none = Json::array();
  for (const Json& bad : {Json::array({7}), Json::array({-1}), Json::array({1.5}), Json::array({"1"}),
                          Json::array({~0ULL}), Json("1"), Json(nullptr)})
    expect_refused(with(bad, one, 7), "bucket " + bad.dump(), "buckets", false);
  for (const Json& bad : {Json::array({3, 0}), Json::array({3, 4}), Json::array({1, ~0ULL})})
    expect_refused(with(bad, none, 7), "buckets " + bad.dump(), "buckets", false);
  expect_refused(with(Json::array({3, 1}), none, 7), "buckets without words", "0 words and 2 buckets", false);
  expect_refused(with(Json::array({3, 1}), one, 7), "too many buckets", "1 words and 2 buckets", false);
  expect_refused(
      [&](Parts& p) {
        p.meta["features"]["words"] = one;
        p.meta["features"]["buckets"] = {3};
      },
      "buckets without n-grams", "no n-grams", false);
}

TEST_F(HostileModel, PreprocessingOutOfRangeIsRefused) {
  for (const auto& [key, bad] : std::vector<std::pair<const char*, Json>>{{"labels", "some"},
                                                                          {"labels", 1},
                                                                          {"max-features", -1},
                                                                          {"max-features", "7"},
                                                                          {"normalize", true},
                                                                          {"word-ngrams", 11},
                                                                          {"word-ngrams", "2"},
                                                                          {"char-ngrams", "6-3"},
                                                                          {"char-ngrams", "3"},
                                                                          {"char-ngrams", 3},
                                                                          {"ngram-buckets", 0},
                                                                          {"ngram-buckets", 7},
                                                                          {"new", 1}})
    expect_refused([&, k = key, b = bad](Parts& p) { p.meta["preprocessing"][k] = b; }, key + bad.dump(),
                   "preprocessing", false);
}

TEST_F(HostileModel, NonFiniteWeightsAreRefused) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()})
    for (std::size_t at = 0; at < 9; ++at)
      expect_refused([&](Parts& p) { std::memcpy(p.data.data() + at * 4, &bad, 4); },
                     "float " + std::to_string(at), "not finite", false);
}

TEST_F(HostileModel, PathsThatAreNotFilesAreRefused) {
  EXPECT_NE(error_of([&] { load_model(folder_.path("none"), kAnyMemory); }).find("no such file"),
            std::string::npos);
  EXPECT_NE(error_of([&] { load_model(folder_.path(""), kAnyMemory); }).find("regular"), std::string::npos);
  EXPECT_NE(error_of([&] { load_model("/dev/zero", kAnyMemory); }).find("regular"), std::string::npos);
}

}  // namespace
}  // namespace truemax
