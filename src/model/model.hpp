// A trained model and its file: safetensors with `weight` [K, D] float32 (and `intercept` [K]) in the order
// of the class names, and one JSON string of metadata. With learnt features `weight` is [K, h] and there is
// also `embedding` [D, h], and `context` for words in order. docs/model-file.md describes it.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "data/data_view.hpp"
#include "weights/embedding.hpp"
#include "weights/weights.hpp"

namespace truemax {

inline constexpr int kModelVersion = 1;

struct Model {
  // Rows as `weights` want them: encoded if features are learnt. The model outlives the view.
  DataView rows_of(const DataView& rows) const;
  std::uint64_t bytes() const {
    return weights.bytes() +
           (encoder.features.numbers.size() + encoder.mixing.numbers.size()) * sizeof(float);
  }

  Weights weights;
  EncoderTables encoder;  // if features are learnt
  std::shared_ptr<const ClassList> classes;
  std::shared_ptr<const FeatureSpace> space;
  PreprocessOptions preprocess;
  std::string method;                                                 // the training method
  nlohmann::ordered_json options = nlohmann::ordered_json::object();  // of the run
  nlohmann::ordered_json data = nlohmann::ordered_json::object();     // statistics of the training data
};

// The bytes that save_model writes, without the header.
std::uint64_t model_bytes(std::uint64_t classes, std::uint64_t features, bool with_intercept,
                          std::uint64_t hidden = 0);

// Which classes of a model are this rank's; null: all of them. A function of the classes alone, so that the
// trials, the fit, the model and its checkpoints agree on it.
std::shared_ptr<const BlockShare> share_of(const ClassList& classes);

// A set: a file of each rank, and an index (model/model_set.hpp).
enum class ModelForm { one_file, set };

// Writes to a temporary name, syncs and renames, so that a failure leaves an old file unchanged. Over several
// ranks all call it, and the first one writes the one file.
void save_model(const Model& model, const std::string& path, ModelForm form = ModelForm::one_file);

// Reads and checks everything: sizes, offsets, names, version, finite weights. Throws UserError. Over several
// ranks all call it, and each reads the weights of its own classes.
Model load_model(const std::string& path, std::uint64_t memory_limit, std::size_t threads = 1);

// The metadata that save_model writes, without checksums; common_metadata: also without the classes.
nlohmann::json model_metadata(const Model& model);
nlohmann::json common_metadata(const Model& model);

// Reads only the metadata, with the same checks except those of the weights.
nlohmann::json read_model_metadata(const std::string& path);

}  // namespace truemax
