#include "made_data.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "data/zipf.hpp"

namespace truemax {

Dataset make_data(const MadeShape& shape, std::size_t classes, double skew) {
  const CounterRandom of_label(1, Stream::generate_label, 0), of_row(1, Stream::generate_row, 0);
  const ZipfTable zipf(classes, skew);
  Dataset data;
  std::vector<std::string> names(classes);
  for (std::size_t k = 0; k < classes; ++k) names[k] = std::to_string(k);
  data.classes = std::make_shared<ClassList>(std::move(names), std::vector<double>(classes, 1.0));
  auto space = std::make_shared<FeatureSpace>();
  space->features = static_cast<FeatureId>(shape.features);
  data.space = space;
  data.rows.index.reserve(shape.rows * shape.nonzeros);
  data.rows.value.reserve(shape.rows * shape.nonzeros);
  RandomWords words(of_row, 0);
  const float value = 1.0F / std::sqrt(static_cast<float>(shape.nonzeros));
  std::vector<FeatureId> index;
  for (std::size_t i = 0; i < shape.rows; ++i) {
    index.clear();
    while (index.size() < shape.nonzeros) {
      const auto f = static_cast<FeatureId>(uniform_below(words.next(), shape.features));
      if (std::find(index.begin(), index.end(), f) == index.end()) index.push_back(f);
    }
    std::sort(index.begin(), index.end());
    for (const FeatureId f : index) {
      data.rows.index.push_back(f);
      data.rows.value.push_back(value);
    }
    data.rows.begin.push_back(data.rows.index.size());
    const CounterRandom::Block b = of_label.at(i);
    data.label.push_back(zipf.draw(b.first, b.second));
    data.label_set.push_back(data.label.back());
    data.label_begin.push_back(data.label_set.size());
  }
  return data;
}

}  // namespace truemax
