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

// The contents of a header, checked for consistency; the tensors are not read.
struct CheckedHeader {
  SafetensorsHeader tensors;
  nlohmann::json metadata;
  std::vector<std::string> names, words, relations;
  std::vector<std::uint32_t> ngram_buckets;
  PreprocessOptions preprocess;
  std::uint64_t classes = 0, features = 0;
  std::uint64_t columns = 0;       // of weight: features, or h if features are learnt
  std::uint64_t context_rows = 0;  // of the tensor `context`; 0: none
  EncoderKind encoder = EncoderKind::linear;
  std::uint64_t context = 0, layers = 0;
  bool intercept = false, embedding = false;
  std::optional<Checksums> checksums;
};

CheckedHeader read_checked_header(const std::string& path);

}  // namespace truemax
