#include "model/metadata.hpp"

#include <fmt/format.h>

#include <iterator>
#include <unordered_set>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "model/model.hpp"
#include "model/tensor_rows.hpp"

namespace truemax {

const nlohmann::json& field(const std::string& path, const nlohmann::json& json, const char* name,
                            nlohmann::json::value_t type) {
  const auto found = json.find(name);
  const bool number = type == nlohmann::json::value_t::number_unsigned;
  if (found == json.end() || (number ? !found->is_number_unsigned() : found->type() != type))
    throw file_error(path, 0, fmt::format("its metadata has no valid '{}'", name), kNotOurs);
  return *found;
}

void check_optional(const std::string& path, const nlohmann::json& json, const char* name,
                    nlohmann::json::value_t type) {
  if (json.contains(name)) field(path, json, name, type);
}

const std::string& metadata_text(const std::string& path, const SafetensorsHeader& header) {
  const auto text = header.metadata.find("truemax");
  if (text == header.metadata.end()) throw file_error(path, 0, "it has no truemax metadata", kNotOurs);
  return text->second;
}

nlohmann::json parse_metadata(const std::string& path, const std::string& text, LongLists& lists) {
  bool twice = false;
  nlohmann::json json = parse_json_once(text, &twice, &lists);
  if (twice) throw file_error(path, 0, "its truemax metadata names a key twice", kNotOurs);
  if (json.is_discarded() || !json.is_object())
    throw file_error(path, 0, "its truemax metadata is not a JSON object", kNotOurs);
  const auto& version = field(path, json, "format_version", nlohmann::json::value_t::number_unsigned);
  if (version.get<std::uint64_t>() != kModelVersion)
    throw file_error(
        path, 0,
        fmt::format("its format version is {}, this program reads version {}", version.dump(), kModelVersion),
        "use the truemax that wrote it, or train again");
  return json;
}

void take_classes(const std::string& path, const nlohmann::json& metadata, LongLists&& lists,
                  CheckedHeader& h) {
  field(path, metadata, "classes", nlohmann::json::value_t::array);
  if (!lists.are_valid) throw file_error(path, 0, "a name in 'classes' is not text", kNotOurs);
  if (!metadata.contains("class_counts") || !metadata["class_counts"].is_array())
    throw file_error(path, 0, "its metadata has no valid 'class_counts'", kNotOurs);
  if (!lists.counts_are_valid)
    throw file_error(path, 0, "class_counts has an entry that is not a positive number", kNotOurs);
  if (h.names.empty()) {
    h.names = std::move(lists.classes);
    h.counts = std::move(lists.class_counts);
  } else {
    h.names.insert(h.names.end(), std::make_move_iterator(lists.classes.begin()),
                   std::make_move_iterator(lists.classes.end()));
    h.counts.insert(h.counts.end(), lists.class_counts.begin(), lists.class_counts.end());
  }
}

namespace {

// Of a file without checksums: damaged names of their keys must not make a file pass for an old one.
void require_known_keys(const std::string& path, const ModelPart& part, const nlohmann::json& metadata) {
  static const std::unordered_set<std::string> kOutside{"truemax", "format"};  // PyTorch writes a format
  static const std::unordered_set<std::string> kInside{
      "format_version", "truemax_version", "classes", "class_counts", "preprocessing",
      "method",         "options",         "data",    "features"};
  const auto require = [&](const std::string& key, const std::unordered_set<std::string>& known) {
    if (known.count(key) > 0) return;
    throw file_error(path, 0, fmt::format("its metadata has the key {} and no checksums", in_quotes(key)),
                     "it is damaged, or not a truemax model: copy it again, or train again");
  };
  for (const auto& [key, value] : part.file.metadata) require(key, kOutside);
  for (const auto& [key, value] : metadata.items()) require(key, kInside);
}

}  // namespace

std::optional<Checksums> read_checksums(const std::string& path, const ModelPart& part,
                                        const nlohmann::json& metadata) {
  const auto& outside = part.file.metadata;
  const auto own = outside.find(kMetadataChecksum);
  const bool has_own = own != outside.end();
  if (!has_own && !metadata.contains("checksums")) {
    require_known_keys(path, part, metadata);
    return std::nullopt;
  }
  const std::string& text = outside.at("truemax");
  if (!has_own || parse_checksum(own->second) != xxh64(text)) throw damaged(path, "the metadata");
  const auto& sums = field(path, metadata, "checksums", nlohmann::json::value_t::object);
  const auto sum_of = [&](const std::string& tensor) -> std::uint64_t {
    if (part.file.tensors.count(tensor) == 0) return 0;
    const auto sum =
        parse_checksum(field(path, sums, tensor.c_str(), nlohmann::json::value_t::string).get<std::string>());
    if (!sum) throw damaged(path, "the metadata");
    return *sum;
  };
  if (!part.file.regular) throw damaged(path, "the header");
  return Checksums{sum_of("weight" + part.ending), sum_of("intercept" + part.ending), sum_of("embedding"),
                   sum_of("context")};
}

void read_shapes(ModelPart& part, bool first, CheckedHeader& h) {
  const std::string &path = part.path, weight_name = "weight" + part.ending,
                    intercept_name = "intercept" + part.ending;
  const auto& tensors = part.file.tensors;
  const auto weight = tensors.find(weight_name);
  if (weight == tensors.end() || weight->second.type != "F32" || weight->second.shape.size() != 2)
    throw file_error(path, 0, fmt::format("it has no two-dimensional float32 tensor '{}'", weight_name),
                     kNotOurs);
  part.rows = weight->second.shape[0];
  if (const std::uint64_t names = h.names.size() - part.first; names != part.rows)
    throw file_error(path, 0, fmt::format("it names {} classes for {} rows of weight", names, part.rows),
                     kNotOurs);
  const std::uint64_t columns = weight->second.shape[1];
  const auto intercept = tensors.find(intercept_name);
  const bool has_intercept = intercept != tensors.end();
  const auto embedding = tensors.find("embedding"), context = tensors.find("context");
  if (first) {
    h.features = h.columns = columns;
    h.intercept = has_intercept;
    h.embedding = embedding != tensors.end();
  } else if (columns != h.columns || has_intercept != h.intercept || embedding != tensors.end() ||
             context != tensors.end()) {
    throw file_error(path, 0, "it does not have the tensors of the other parts", kNotOurs);
  }
  if (h.embedding && first) {
    const std::vector<std::uint64_t>& shape = embedding->second.shape;
    if (embedding->second.type != "F32" || shape.size() != 2 || shape[1] != h.columns)
      throw file_error(
          path, 0, fmt::format("its embedding is not a float32 tensor with {} columns", h.columns), kNotOurs);
    h.features = shape[0];
  }
  if (has_intercept && (intercept->second.type != "F32" || intercept->second.shape != std::vector{part.rows}))
    throw file_error(
        path, 0,
        fmt::format("its intercept is not a float32 tensor with an entry for each of the {} rows of weight",
                    part.rows),
        kNotOurs);
  if (context != tensors.end()) {
    const std::vector<std::uint64_t>& shape = context->second.shape;
    if (context->second.type != "F32" || shape.size() != 2 || shape[1] != h.columns || !h.embedding)
      throw file_error(path, 0, fmt::format("its context is not a float32 tensor with {} columns", h.columns),
                       kNotOurs);
    h.context_rows = shape[0];
  }
  const std::size_t tables = first ? (h.embedding ? 1U : 0U) + (h.context_rows > 0 ? 1U : 0U) : 0U;
  if (tensors.size() != 1U + (has_intercept ? 1U : 0U) + tables)
    throw file_error(path, 0, "it holds tensors besides weight, intercept, embedding and context", kNotOurs);
}

}  // namespace truemax
