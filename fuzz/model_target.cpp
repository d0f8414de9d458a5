// The model loader. Whatever it accepts is finite, can be saved and loaded unchanged, and predicts.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "data/names.hpp"
#include "model/model.hpp"
#include "model/use.hpp"
#include "model/vectors.hpp"
#include "target.hpp"
#include "targets.hpp"

namespace truemax::fuzz {
namespace {

constexpr std::uint64_t kModelMemory = std::uint64_t{16} << 20;

void require_finite(std::span<const float> numbers) {
  for (const float v : numbers) require(std::isfinite(v), "weights are finite");
}

std::vector<float> weights_of(const Model& model) {
  std::vector<float> all, row(model.weights.features());
  for (ClassId k = 0; k < model.weights.classes(); ++k) {
    model.weights.copy_class(k, row);
    all.insert(all.end(), row.begin(), row.end());
    if (model.weights.has_intercept()) all.push_back(model.weights.intercept()[k]);
  }
  for (const Embedding* table : {&model.encoder.features, &model.encoder.mixing})
    all.insert(all.end(), table->numbers.begin(), table->numbers.end());
  return all;
}

void require_promises(const Model& model) {
  require(model.weights.classes() == model.classes->size(), "every class has weights");
  require_finite(weights_of(model));
  for (ClassId k = 0; k < model.classes->size(); ++k)
    require(model.classes->count(k) > 0 && std::isfinite(model.classes->count(k)), "counts are positive");
  const FeatureSpace& space = *model.space;
  if (model.encoder.empty())
    require(space.features == model.weights.features(), "every feature has weights");
  else
    require(space.features == model.encoder.features.rows &&
                model.weights.features() == model.encoder.features.columns,
            "every feature has a vector");
  for (const std::uint32_t bucket : space.buckets)
    require(bucket < model.preprocess.ngrams().buckets, "buckets are below their number");
}

void require_same(const Model& a, const Model& b) {
  require(model_metadata(a) == model_metadata(b), "a model that is saved and loaded keeps its metadata");
  const std::vector<float> one = weights_of(a), two = weights_of(b);
  require(one.size() == two.size() &&
              (one.empty() || std::memcmp(one.data(), two.data(), one.size() * sizeof(float)) == 0),
          "a model that is saved and loaded keeps its bits");
}

void require_predictions(const Model& model) {
  static const MemoryFile text("the cat a b\nthe\n"), rows("0:1 1:2\n1 0:-3\n"), triples("a\tr\nb\tr\n");
  UseOptions use;
  use.threads = 1;
  use.memory_limit = kBudget;
  use.unknown_features = UnknownFeatures::drop;
  const bool words = model.space->of_words() || reads_words(model.space->encoder);
  use.read.format = model.space->of_triples()           ? Format::triples
                    : reads_words(model.space->encoder) ? Format::text
                    : words                             ? Format::fasttext
                                                        : Format::lshtc;
  const MemoryFile& data = model.space->of_triples() ? triples : words ? text : rows;
  accepts("", [&] {
    predict_stream(model, data.path(), use, 3, [](const Predictions& found, std::size_t) {
      for (const double p : found.probability) require(p >= 0 && p <= 1, "a probability is one");
    });
  });
  if (model.encoder.empty()) return;
  const NamedVectors vectors(model, VectorsOf::words);
  std::vector<float> vector(vectors.columns());
  if (vectors.size() > 0) vectors.copy(0, vector);
  (void)vectors.find("the");
}

}  // namespace

bool read_model_file(std::string_view bytes) {
  const MemoryFile file(bytes);
  Model model;
  const bool loaded = accepts(file.path(), [&] { model = load_model(file.path(), kModelMemory); });
  if (!loaded) return false;
  read_model_metadata(file.path());  // throws nothing
  require_promises(model);
  const std::string again = scratch_folder() + "/model";
  save_model(model, again);
  require_same(model, load_model(again, kModelMemory));
  if (bytes.size() % 4 == 0) require_predictions(model);  // takes longer than all else
  return true;
}

}  // namespace truemax::fuzz
