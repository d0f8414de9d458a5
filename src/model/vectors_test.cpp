#include "model/vectors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "data/text_ngrams.hpp"
#include "model/test_support.hpp"

namespace truemax {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kHidden = 3;

// A model with learnt features; `buckets` follow the words.
Model learnt_model(std::vector<std::string> words, std::vector<std::uint32_t> buckets,
                   std::vector<std::string> classes = {"b", "a", "10"}) {
  Model model = random_model(1, {kHidden, true, false, std::move(classes)});
  auto space = std::make_shared<FeatureSpace>(*model.space);
  space->features = static_cast<FeatureId>(words.empty() ? 4 : words.size() + buckets.size());
  space->words = std::move(words);
  space->buckets = std::move(buckets);
  model.preprocess = {};
  if (!space->buckets.empty()) {
    model.preprocess.char_ngrams = {3, 3};
    model.preprocess.ngram_buckets = 1000;
  }
  model.encoder.features = Embedding(space->features, kHidden);
  fill_normal(model.encoder.features, 1, 5, 0, 1);
  model.space = space;
  return model;
}

std::vector<float> copied(const NamedVectors& vectors, std::size_t i) {
  std::vector<float> out(vectors.columns());
  vectors.copy(i, out);
  return out;
}

std::vector<float> feature_row(const Model& model, std::size_t r) {
  return {model.encoder.features.row(r), model.encoder.features.row(r) + kHidden};
}

std::string written(const NamedVectors& vectors) {
  std::string text;
  const std::atomic<bool> stop{false};
  EXPECT_TRUE(write_vectors(
      vectors, [&](std::string_view more) { text += more; }, stop));
  return text;
}

TEST(NamedVectors, OfWordsAreRowsOfTheEmbedding) {
  const Model model = learnt_model({"the", "cat", "dög"}, {});
  const NamedVectors vectors(model, VectorsOf::words);
  ASSERT_EQ(vectors.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(vectors.name(i), model.space->words[i]);
    EXPECT_EQ(vectors.find(vectors.name(i)), i);
    EXPECT_EQ(copied(vectors, i), feature_row(model, i));
  }
  EXPECT_EQ(vectors.find("0"), std::nullopt);
  EXPECT_EQ(vectors.nearest_spelling("cats"), "cat");
  EXPECT_EQ(vectors.nearest_spelling("elephant"), "");
}

TEST(NamedVectors, OfFeaturesWithoutWordsHaveNumbers) {
  const Model model = learnt_model({}, {});
  const NamedVectors vectors(model, VectorsOf::words);
  ASSERT_EQ(vectors.size(), 4U);
  EXPECT_EQ(vectors.name(3), "3");
  EXPECT_EQ(vectors.find("3"), 3U);
  for (const char* bad : {"4", "-1", "03", "3 ", "", "x"}) EXPECT_EQ(vectors.find(bad), std::nullopt) << bad;
}

TEST(NamedVectors, OfWordsIncludeTheirCharacterNgrams) {
  std::vector<std::uint32_t> buckets;
  for (const char* text : {"<ca", "cat"})
    buckets.push_back(static_cast<std::uint32_t>(ngram_bucket(text, 1000)));
  std::sort(buckets.begin(), buckets.end());
  const Model model = learnt_model({"the", "cat"}, buckets);
  const NamedVectors vectors(model, VectorsOf::words);
  ASSERT_EQ(vectors.size(), 2U);
  EXPECT_EQ(copied(vectors, 0), feature_row(model, 0)) << "none of its n-grams is known";
  std::vector<float> cat = feature_row(model, 1), cats(kHidden, 0.0F), composed(kHidden);
  for (std::size_t r : {2U, 3U})
    for (std::size_t c = 0; c < kHidden; ++c)
      cat[c] += model.encoder.features.row(r)[c], cats[c] += model.encoder.features.row(r)[c];
  EXPECT_EQ(copied(vectors, 1), cat);
  ASSERT_TRUE(vectors.compose("cats", composed));
  EXPECT_EQ(composed, cats);
  EXPECT_FALSE(vectors.compose("xyz", composed));
  const NamedVectors ngrams(model, VectorsOf::ngrams);
  ASSERT_EQ(ngrams.size(), 2U);
  EXPECT_EQ(ngrams.name(1), std::to_string(buckets[1]));
  EXPECT_EQ(ngrams.find(ngrams.name(1)), 1U);
  EXPECT_EQ(copied(ngrams, 1), feature_row(model, 3));
}

TEST(NamedVectors, OfClassesFollowTheModelFile) {
  const Model model = learnt_model({"x"}, {});
  const NamedVectors vectors(model, VectorsOf::classes);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    names.push_back(vectors.name(i));
    std::vector<float> weights(kHidden);
    model.weights.copy_class(model.classes->find(names.back()), weights);
    EXPECT_EQ(copied(vectors, i), weights);
    EXPECT_EQ(vectors.find(names.back()), i);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"10", "a", "b"}));
}

TEST(WriteVectors, ReadsBackTheSameFloats) {
  Model model = learnt_model({"the", "cat"}, {});
  const float hard[] = {1.0F / 3, std::numeric_limits<float>::denorm_min(),
                        -std::numeric_limits<float>::max()};
  std::copy_n(hard, kHidden, model.encoder.features.row(1));
  const NamedVectors vectors(model, VectorsOf::words);
  std::istringstream text(written(vectors));
  std::size_t rows = 0, columns = 0;
  text >> rows >> columns;
  EXPECT_EQ(rows, 2U);
  EXPECT_EQ(columns, kHidden);
  for (std::size_t i = 0; i < rows; ++i) {
    std::string name, number;
    text >> name;
    EXPECT_EQ(name, model.space->words[i]);
    for (std::size_t c = 0; c < columns; ++c) {
      text >> number;
      EXPECT_EQ(std::strtof(number.c_str(), nullptr), model.encoder.features.row(i)[c]) << number;
    }
  }
}

TEST(WriteVectors, NamesWithBlanksAreRefusedBeforeWriting) {
  for (const char* bad : {"two words", "tab\there", "line\n", ""}) {
    const Model model = learnt_model({"x"}, {}, {"a", bad});
    std::size_t calls = 0;
    const std::atomic<bool> stop{false};
    const std::string error = error_of([&] {
      write_vectors(
          NamedVectors(model, VectorsOf::classes), [&](std::string_view) { ++calls; }, stop);
    });
    EXPECT_THAT(error, HasSubstr("word2vec text cannot hold; rename it"));
    EXPECT_EQ(calls, 0U);
  }
}

TEST(NearestVectors, AreThoseOfTheLargestCosines) {
  std::vector<std::string> words;
  for (int i = 0; i < 3000; ++i) words.push_back("w" + std::to_string(i));
  Model model = learnt_model(words, {});
  std::fill_n(model.encoder.features.row(7), kHidden, 0.0F);  // has no direction
  const NamedVectors vectors(model, VectorsOf::words);
  const std::vector<float> query = copied(vectors, 42);
  std::vector<std::pair<double, std::size_t>> wanted;
  for (std::size_t i = 0; i < words.size(); ++i) {
    double product = 0, a = 0, b = 0;
    for (std::size_t c = 0; c < kHidden; ++c) {
      const double x = static_cast<double>(query[c]),
                   y = static_cast<double>(model.encoder.features.row(i)[c]);
      product += x * y, a += x * x, b += y * y;
    }
    if (i != 42 && i != 7) wanted.emplace_back(-product / std::sqrt(a * b), i);
  }
  std::sort(wanted.begin(), wanted.end());
  const auto found = nearest_vectors(vectors, query, 42, 10, 1),
             again = nearest_vectors(vectors, query, 42, 10, 3);
  ASSERT_EQ(found.size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(found[i].number, wanted[i].second);
    EXPECT_NEAR(found[i].cosine, -wanted[i].first, 1e-12);
    EXPECT_EQ(found[i].number, again[i].number);
    EXPECT_EQ(found[i].cosine, again[i].cosine);
  }
  EXPECT_EQ(nearest_vectors(vectors, query, 42, 99999, 2).size(), words.size() - 2);
}

TEST(LoadLearntModel, RefusesALinearModel) {
  const TempFolder folder;
  save_model(random_model(1, {}), folder.path("m"));
  EXPECT_THAT(error_of([&] { load_learnt_model(folder.path("m"), kAnyMemory, 1); }),
              HasSubstr("linear model, which has no learnt vectors; train with --hidden"));
}

TEST(ModelFile, KeepsBucketsOfNgrams) {
  const TempFolder folder;
  const Model model = learnt_model({"the", "cat"}, {0, 1, 17, 999});
  save_model(model, folder.path("m"));
  const Model loaded = load_model(folder.path("m"), kAnyMemory);
  EXPECT_EQ(loaded.space->buckets, model.space->buckets);
  EXPECT_EQ(loaded.space->words, model.space->words);
  EXPECT_EQ(loaded.preprocess, model.preprocess);
  EXPECT_EQ(read_model_metadata(folder.path("m"))["features"]["buckets"], nlohmann::json({0, 1, 16, 982}));
}

}  // namespace
}  // namespace truemax
