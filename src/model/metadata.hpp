// Reading truemax's metadata of a safetensors file: fields that must be there, checksums.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "model/model_header.hpp"
#include "model/parse_json.hpp"

namespace truemax {

inline constexpr const char* kNotOurs = "this is not a truemax model: train one with 'truemax train'";

// A field of this type, or UserError.
const nlohmann::json& field(const std::string& path, const nlohmann::json& json, const char* name,
                            nlohmann::json::value_t type);
// A field that may be missing but must not have another type.
void check_optional(const std::string& path, const nlohmann::json& json, const char* name,
                    nlohmann::json::value_t type);

// An object of a version that this program reads; the lists of classes go to `lists`.
nlohmann::json parse_metadata(const std::string& path, const std::string& text, LongLists& lists);
const std::string& metadata_text(const std::string& path, const SafetensorsHeader& header);

// Appends the classes of a file to those of the model.
void take_classes(const std::string& path, const nlohmann::json& metadata, LongLists&& lists,
                  CheckedHeader& h);

// A file must have both the metadata's own checksum (stored outside the metadata) and `checksums` within, or
// neither: a file that lost one of them must not pass for an old file.
std::optional<Checksums> read_checksums(const std::string& path, const ModelPart& part,
                                        const nlohmann::json& metadata);

// After take_classes(): checks the tensors of a part and takes from them what the model has: columns, rows,
// intercept, embedding and context. `first`: those come from it, and the others must agree.
void read_shapes(ModelPart& part, bool first, CheckedHeader& h);

}  // namespace truemax
