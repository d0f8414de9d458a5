// What a model file says about itself: the safetensors header and truemax's metadata, read and checked for
// consistency before any tensor is.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/row_encoder.hpp"
#include "data/options.hpp"
#include "model/safetensors.hpp"

namespace truemax {

// The key of the metadata's own checksum; those of the tensors are in the metadata, as `checksums`.
inline constexpr const char* kMetadataChecksum = "truemax_checksum";

// The checksums in a file; older files have none.
struct Checksums {
  std::uint64_t weight = 0, intercept = 0, embedding = 0, context = 0;
};

// A file of a model: all of it, or a part of a set (model/model_set.hpp).
struct ModelPart {
  std::string path;
  SafetensorsHeader file;
  std::string ending;       // of the names of `weight` and `intercept`; empty unless it is of a set
  std::uint64_t first = 0;  // its classes among all names
  std::uint64_t rows = 0;
  std::optional<Checksums> checksums;
};

// What a model says of itself, checked for consistency; the tensors are not read.
struct CheckedHeader {
  std::vector<ModelPart> parts;                      // the first has the tables of learnt features
  nlohmann::json metadata;                           // without the entries of `classes` and `class_counts`
  std::vector<std::string> names, words, relations;  // names: in the order of the rows of all parts
  std::vector<double> counts;
  std::vector<std::uint32_t> ngram_buckets;
  PreprocessOptions preprocess;
  std::uint64_t classes = 0, features = 0;
  std::uint64_t columns = 0;       // of weight: features, or h if features are learnt
  std::uint64_t context_rows = 0;  // of the tensor `context`; 0: none
  EncoderKind encoder = EncoderKind::linear;
  std::uint64_t context = 0, layers = 0;
  bool intercept = false, embedding = false;
};

// `path`: a model file, or the index of a set, or the name of a model that was saved as a set.
CheckedHeader read_checked_header(const std::string& path);

// Of classes, shapes and checksums: whether two processes have read the same model.
std::uint64_t header_checksum(const CheckedHeader& h);

}  // namespace truemax
