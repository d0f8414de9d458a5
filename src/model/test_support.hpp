// Shared by the tests of this folder: small models, and files as bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "data/test_support.hpp"
#include "model/model.hpp"

namespace truemax {

inline constexpr std::uint64_t kAnyMemory = ~0ULL;  // memory for loading

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Class names that are hard on a file format, not in sorted order.
inline std::vector<std::string> awkward_names() {
  return {"10",
          "9",
          "-3",
          "0",
          "abc",
          "Abc",
          "two words",
          "quote \" and \\",
          "tab\tand\nline",
          "zürich 東京 🙂",
          "1e5",
          "007"};
}

struct ModelShape {
  std::size_t features = 5;
  bool intercept = false, words = false;
  std::vector<std::string> names = awkward_names();
};

inline Model random_model(std::uint64_t seed, const ModelShape& shape) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const std::size_t classes = shape.names.size();
  Model model;
  std::vector<double> counts;
  for (std::size_t k = 0; k < classes; ++k) counts.push_back(0.25 * static_cast<double>(1 + (k * 5) % 7));
  model.classes = std::make_shared<ClassList>(shape.names, counts);
  auto space = std::make_shared<FeatureSpace>();
  space->features = static_cast<FeatureId>(shape.features);
  space->file_features = shape.features + 3;
  space->declared = true;
  if (shape.words)
    for (std::size_t f = 0; f < shape.features; ++f)
      space->words.push_back("wörd \"" + std::to_string(f) + "\"");
  model.space = space;
  model.preprocess.labels = LabelRule::all;
  model.preprocess.max_features = 17;
  model.preprocess.normalize = Normalize::l2;
  model.method = "implicit";
  model.options = {{"step", 0.1}, {"epochs", 50}};
  model.data = {{"rows", 1000}};
  model.weights = Weights(classes, shape.features, shape.intercept);
  std::vector<float> row(shape.features);
  for (ClassId k = 0; k < classes; ++k) {
    for (float& v : row) v = normal(random);
    model.weights.set_class(k, row);
    if (shape.intercept) model.weights.intercept()[k] = normal(random);
  }
  return model;
}

}  // namespace truemax
