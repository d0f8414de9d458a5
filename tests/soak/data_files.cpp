#include "data_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

namespace truemax::soak {
namespace {

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(path + " could not be written");
}

struct Shape {
  std::uint64_t rows, classes, features, nonzeros;
};

Shape random_shape(Random& random) {
  switch (random.below(9)) {
    case 0:
      return {random.between(2, 6), 2, 1, 1};  // 1 feature, 2 classes
    case 1:
      return {random.between(10, 60), random.between(2, 9), 1, 1};  // 1 feature
    case 2:
      return {random.between(20, 90), random.between(3, 30), 40, 1};  // 1 non-zero
    case 3:
      return {random.between(20, 120), 2, random.between(1, 60), 8};
    case 4:
      return {random.between(500, 1200), 3000, 25, 4};  // about a class a row
    case 5:
      return {random.between(4, 30), random.between(20, 60), 20, 20};  // dense
    default:
      return {random.between(20, 200), random.between(2, 60), random.between(2, 80), random.between(1, 12)};
  }
}

// How large the values are: huge and tiny ones, alone and side by side.
class Values {
 public:
  Values(Random& random, Config& config) : random_(random), kind_(random.below(10)) {
    config.moderate = config.alike = kind_ > 3;
    scale_ = kind_ == 0 ? 1e30 : kind_ == 1 ? 1e-30 : kind_ == 2 ? random.log_between(1e-30, 1e30) : 1;
  }
  double next() {
    if (kind_ == 3) return sign() * random_.log_between(1e-30, 1e30);
    if (kind_ == 4) return 1;
    return sign() * scale_ * (0.2 + 0.8 * random_.unit());
  }

 private:
  double sign() { return random_.chance(0.3) ? -1 : 1; }
  Random& random_;
  std::uint64_t kind_;
  double scale_ = 1;
};

std::uint64_t random_label(Random& random, std::uint64_t classes, bool unbalanced) {
  if (!unbalanced) return random.below(classes);
  const double share = random.unit();
  return static_cast<std::uint64_t>(static_cast<double>(classes - 1) * std::pow(share, 8));
}

std::string labels_text(Random& random, const Shape& shape, bool several, bool unbalanced) {
  std::string text = std::to_string(random_label(random, shape.classes, unbalanced));
  for (std::uint64_t more = several ? random.below(4) : 0; more > 0; --more)
    text += ',' + std::to_string(random_label(random, shape.classes, unbalanced));
  return text;
}

std::string features_text(Random& random, const Shape& shape, Values& values) {
  std::vector<std::uint64_t> features;
  const std::uint64_t count = std::min(shape.features, random.between(1, shape.nonzeros));
  for (std::uint64_t i = 0; i < count; ++i) features.push_back(random.between(1, shape.features));
  std::sort(features.begin(), features.end());
  features.erase(std::unique(features.begin(), features.end()), features.end());
  std::string text;
  for (const std::uint64_t f : features) text += fmt::format(" {}:{:.9g}", f, values.next());
  return text;
}

void write_rows(Random& random, Config& config, const std::string& folder) {
  const Shape shape = random_shape(random);
  Values values(random, config);
  const bool several = random.chance(0.3), unbalanced = random.chance(0.3), repeated = random.chance(0.2);
  std::string text =
      fmt::format("0 1:{0:.9g}\n1 1:{0:.9g}\n", values.next());  // two classes, whatever follows
  std::string line;
  for (std::uint64_t i = 0; i < shape.rows; ++i) {
    if (!repeated || i % 5 == 0)
      line = labels_text(random, shape, several, unbalanced) +
             (random.chance(0.02) ? "" : features_text(random, shape, values));
    text += line + '\n';
  }
  config.rows = shape.rows;
  config.data = folder + "/data.svm";
  write_text(config.data, text);
  config.set("format", "libsvm");
  if (several && random.chance(0.6)) config.set("labels", "all");
  if (random.chance(0.15)) config.set("normalize", "l2"), config.moderate = true;
  if (random.chance(0.1)) config.set("hash-features", std::to_string(random.between(1, 16)));
  if (random.chance(0.2)) {
    std::string weights;
    for (std::uint64_t i = 0; i < shape.rows + 2; ++i)
      weights += i >= 2 && random.chance(0.1)
                     ? "0\n"
                     : fmt::format("{:.9g}\n", random.chance(0.5) ? 1.0 : random.log_between(1e-4, 1e4));
    write_text(folder + "/row_weights.txt", weights);
    config.set("row-weights", folder + "/row_weights.txt");
  }
  if (random.chance(0.15)) {
    write_text(folder + "/class_weights.txt",
               fmt::format("0 {:.9g}\n1 0.5\n", random.log_between(1e-3, 1e3)));
    config.set("class-weights", random.chance(0.5) ? "balanced" : folder + "/class_weights.txt");
  }
  if (random.chance(0.15)) config.set("valid-share", "0.3");
}

void write_words(Random& random, Config& config, const std::string& folder) {
  const std::uint64_t words = random.between(8, 300), vocabulary = random.between(2, 120);
  std::string text = "a b a b c\n";
  for (std::uint64_t i = 0; i < words; ++i) {
    text += fmt::format("w{}", random_label(random, vocabulary, true));
    text += random.chance(0.1) ? '\n' : ' ';
  }
  config.rows = words;
  config.data = folder + "/data.txt";
  write_text(config.data, text + '\n');
}

void write_triples(Random& random, Config& config, const std::string& folder) {
  const std::uint64_t triples = random.between(2, 150), entities = random.between(2, 80);
  const std::uint64_t relations = random.between(1, 5);
  std::string text = "e0\tr0\te1\n";
  for (std::uint64_t i = 0; i < triples; ++i)
    text += fmt::format("e{}\tr{}\te{}\n", random.below(entities), random.below(relations),
                        random_label(random, entities, true));
  config.rows = triples;
  config.data = folder + "/data.tsv";
  write_text(config.data, text);
}

}  // namespace

void write_data(Random& random, Config& config, const std::string& folder) {
  if (config.kind == "linear" || config.kind == "bag")
    write_rows(random, config, folder);
  else if (config.kind == "triples")
    write_triples(random, config, folder);
  else
    write_words(random, config, folder);
}

}  // namespace truemax::soak
