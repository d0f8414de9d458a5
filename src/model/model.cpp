#include "model/model.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "model/bucket_steps.hpp"
#include "ranks/ranks.hpp"
#include "truemax/version.hpp"

namespace truemax {

nlohmann::json common_metadata(const Model& model) {
  PreprocessOptions preprocess = model.preprocess;
  OptionTable table;
  preprocess.describe(table);
  nlohmann::json features{{"file_features", model.space->file_features},
                          {"declared", model.space->declared},
                          {"words", model.space->words}};
  if (model.space->hashed_words) features["hashed_words"] = true;
  if (!model.space->buckets.empty()) features["buckets"] = bucket_steps(model.space->buckets);
  if (reads_words(model.space->encoder)) {
    for (const auto& [name, kind] : kEncoderNames)
      if (kind == model.space->encoder) features["encoder"] = name;
    features["context"] = model.space->context;
    features["layers"] = model.encoder.layers;
  }
  if (model.space->of_triples()) {
    features["encoder"] = "complex";
    features["relations"] = model.space->relations;
  }
  return {{"format_version", kModelVersion},  {"truemax_version", kVersion},
          {"preprocessing", table.to_json()}, {"method", model.method},
          {"options", model.options},         {"data", model.data},
          {"features", std::move(features)}};
}

nlohmann::json model_metadata(const Model& model) {
  nlohmann::json metadata = common_metadata(model);
  nlohmann::json &classes = metadata["classes"] = nlohmann::json::array(),
                 &counts = metadata["class_counts"] = nlohmann::json::array();
  for (const ClassId k : model.classes->by_name()) {
    classes.push_back(model.classes->name(k));
    counts.push_back(model.classes->count(k));
  }
  return metadata;
}

std::shared_ptr<const BlockShare> share_of(const ClassList& classes) {
  if (ranks().alone()) return nullptr;
  std::vector<double> counts(classes.size());
  for (ClassId k = 0; k < classes.size(); ++k) counts[k] = classes.count(k);
  return std::make_shared<const BlockShare>(counts, ranks().rank(), ranks().size());
}

DataView Model::rows_of(const DataView& rows) const {
  return encoder.empty() ? rows : rows.encoded(make_row_encoder(space->encoder, encoder));
}

std::uint64_t model_bytes(std::uint64_t classes, std::uint64_t features, bool with_intercept,
                          std::uint64_t hidden) {
  const std::uint64_t columns = (hidden > 0 ? hidden : features) + (with_intercept ? 1 : 0);
  std::uint64_t numbers = 0, vectors = 0, bytes = 0;
  if (__builtin_mul_overflow(classes, columns, &numbers) ||
      __builtin_mul_overflow(hidden, features, &vectors) ||
      __builtin_add_overflow(numbers, vectors, &numbers) ||
      __builtin_mul_overflow(numbers, sizeof(float), &bytes))
    return std::numeric_limits<std::uint64_t>::max();
  return bytes;
}

}  // namespace truemax
