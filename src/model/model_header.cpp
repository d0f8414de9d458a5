#include "model/model_header.hpp"

#include <fmt/format.h>

#include <unordered_set>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "data/dataset.hpp"
#include "model/bucket_steps.hpp"
#include "model/model.hpp"
#include "model/tensor_rows.hpp"

namespace truemax {
namespace {

constexpr const char* kNotOurs = "this is not a truemax model: train one with 'truemax train'";

const nlohmann::json& field(const std::string& path, const nlohmann::json& json, const char* name,
                            nlohmann::json::value_t type) {
  const auto found = json.find(name);
  const bool number = type == nlohmann::json::value_t::number_unsigned;
  if (found == json.end() || (number ? !found->is_number_unsigned() : found->type() != type))
    throw file_error(path, 0, fmt::format("its metadata has no valid '{}'", name), kNotOurs);
  return *found;
}

// A field that may be missing but must not have another type.
void check_optional(const std::string& path, const nlohmann::json& json, const char* name,
                    nlohmann::json::value_t type) {
  if (json.contains(name)) field(path, json, name, type);
}

nlohmann::json parse_metadata(const std::string& path, const SafetensorsHeader& header) {
  const auto text = header.metadata.find("truemax");
  if (text == header.metadata.end()) throw file_error(path, 0, "it has no truemax metadata", kNotOurs);
  bool twice = false;
  nlohmann::json json = parse_json_once(text->second, &twice);
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

std::vector<std::string> names_of(const std::string& path, const nlohmann::json& list, const char* what) {
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  for (const auto& name : list) {
    if (!name.is_string())
      throw file_error(path, 0, fmt::format("a name in '{}' is not text", what), kNotOurs);
    names.push_back(name.get<std::string>());
    if (!seen.insert(names.back()).second)
      throw file_error(path, 0, fmt::format("{} appears twice in '{}'", in_quotes(names.back()), what),
                       kNotOurs);
  }
  return names;
}

// Of a file without checksums: damaged names of their keys must not make a file pass for an old one.
void require_known_keys(const std::string& path, const CheckedHeader& h) {
  static const std::unordered_set<std::string> kOutside{"truemax", "format"};  // PyTorch writes a format
  static const std::unordered_set<std::string> kInside{
      "format_version", "truemax_version", "classes", "class_counts", "preprocessing",
      "method",         "options",         "data",    "features"};
  const auto require = [&](const std::string& key, const std::unordered_set<std::string>& known) {
    if (known.count(key) > 0) return;
    throw file_error(path, 0, fmt::format("its metadata has the key {} and no checksums", in_quotes(key)),
                     "it is damaged, or not a truemax model: copy it again, or train again");
  };
  for (const auto& [key, value] : h.tensors.metadata) require(key, kOutside);
  for (const auto& [key, value] : h.metadata.items()) require(key, kInside);
}

// A file must have both the metadata's own checksum (stored outside the metadata) and `checksums` within, or
// neither: a file that lost one of them must not pass for an old file.
std::optional<Checksums> read_checksums(const std::string& path, const CheckedHeader& h) {
  const auto own = h.tensors.metadata.find(kMetadataChecksum);
  const bool has_own = own != h.tensors.metadata.end();
  if (!has_own && !h.metadata.contains("checksums")) {
    require_known_keys(path, h);
    return std::nullopt;
  }
  const std::string& text = h.tensors.metadata.at("truemax");
  if (!has_own || parse_checksum(own->second) != xxh64(text)) throw damaged(path, "the metadata");
  const auto& sums = field(path, h.metadata, "checksums", nlohmann::json::value_t::object);
  const auto sum_of = [&](const char* tensor) {
    const auto sum =
        parse_checksum(field(path, sums, tensor, nlohmann::json::value_t::string).get<std::string>());
    if (!sum) throw damaged(path, "the metadata");
    return *sum;
  };
  if (!h.tensors.regular) throw damaged(path, "the header");
  return Checksums{sum_of("weight"), h.intercept ? sum_of("intercept") : 0,
                   h.embedding ? sum_of("embedding") : 0, h.context_rows > 0 ? sum_of("context") : 0};
}

// Triples: the features are the classes, the relations and their inverses.
void read_relations(const std::string& path, const nlohmann::json& features, CheckedHeader& h) {
  h.encoder = EncoderKind::complex;
  h.relations =
      names_of(path, field(path, features, "relations", nlohmann::json::value_t::array), "relations");
  if (h.relations.empty() || !h.embedding || h.features != h.classes + 2 * h.relations.size())
    throw file_error(path, 0,
                     fmt::format("it has {} relations and {} features for {} classes", h.relations.size(),
                                 h.features, h.classes),
                     kNotOurs);
  PreprocessOptions plain;
  plain.labels = h.preprocess.labels;
  if (h.columns % 2 != 0 || h.intercept || h.context_rows > 0 || !h.words.empty() || h.preprocess != plain)
    throw file_error(path, 0, "it is a model of triples with what belongs to other models", kNotOurs);
}

// How rows of words become learnt features. The words of a row are features and classes at once.
void read_encoder(const std::string& path, const nlohmann::json& features, CheckedHeader& h) {
  constexpr std::uint64_t kMostPlaces = 1 << 20;
  using Type = nlohmann::json::value_t;
  if (!features.contains("encoder")) {
    if (h.context_rows > 0) throw file_error(path, 0, "it has a tensor 'context' but no encoder", kNotOurs);
    return;
  }
  const auto name = field(path, features, "encoder", Type::string).get<std::string>();
  if (name == "complex") {
    read_relations(path, features, h);
    return;
  }
  for (const auto& [known, kind] : kEncoderNames)
    if (name == known && reads_words(kind)) h.encoder = kind;
  h.context = field(path, features, "context", Type::number_unsigned).get<std::uint64_t>();
  h.layers = field(path, features, "layers", Type::number_unsigned).get<std::uint64_t>();
  if (h.encoder == EncoderKind::linear || h.context < 1 || h.context > kMostPlaces ||
      h.layers > (h.encoder == EncoderKind::context ? 1U : 0U))
    throw file_error(
        path, 0,
        fmt::format("its encoder is {} with context {} and {} layers", in_quotes(name), h.context, h.layers),
        kNotOurs);
  FeatureSpace space;
  space.encoder = h.encoder, space.context = h.context;
  const std::uint64_t rows = !mixes_places(h.encoder) ? 0
                             : h.layers > 0           ? space.width() * h.columns + 1
                                                      : space.width();
  if (h.context_rows != rows || h.features != h.classes)
    throw file_error(path, 0,
                     fmt::format("its context has {} rows instead of {}, or its words are not its classes",
                                 h.context_rows, rows),
                     kNotOurs);
}

}  // namespace

CheckedHeader read_checked_header(const std::string& path) {
  using Type = nlohmann::json::value_t;
  CheckedHeader h;
  h.tensors = read_safetensors_header(path);
  h.metadata = parse_metadata(path, h.tensors);
  h.names = names_of(path, field(path, h.metadata, "classes", Type::array), "classes");
  const auto weight = h.tensors.tensors.find("weight");
  if (weight == h.tensors.tensors.end() || weight->second.type != "F32" || weight->second.shape.size() != 2)
    throw file_error(path, 0, "it has no two-dimensional float32 tensor 'weight'", kNotOurs);
  h.classes = weight->second.shape[0];
  h.features = h.columns = weight->second.shape[1];
  const auto embedding = h.tensors.tensors.find("embedding");
  h.embedding = embedding != h.tensors.tensors.end();
  if (h.embedding) {
    const std::vector<std::uint64_t>& shape = embedding->second.shape;
    if (embedding->second.type != "F32" || shape.size() != 2 || shape[1] != h.columns)
      throw file_error(
          path, 0, fmt::format("its embedding is not a float32 tensor with {} columns", h.columns), kNotOurs);
    h.features = shape[0];
  }
  if (h.classes < 2 || h.classes >= kUnseenClass || h.columns < 1 || h.columns > 0xFFFFFFFEu)
    throw file_error(path, 0, fmt::format("its weight is {} x {}", h.classes, h.columns), kNotOurs);
  if (h.features < 1 || h.features > 0xFFFFFFFEu)
    throw file_error(path, 0, fmt::format("its embedding is {} x {}", h.features, h.columns), kNotOurs);
  if (h.names.size() != h.classes)
    throw file_error(path, 0,
                     fmt::format("it names {} classes for {} rows of weight", h.names.size(), h.classes),
                     kNotOurs);
  const auto& counts = field(path, h.metadata, "class_counts", Type::array);
  if (counts.size() != h.classes)
    throw file_error(path, 0, "class_counts and classes differ in length", kNotOurs);
  for (const auto& count : counts)
    if (!count.is_number() || !(count.get<double>() > 0))
      throw file_error(path, 0, "class_counts has an entry that is not a positive number", kNotOurs);
  const auto intercept = h.tensors.tensors.find("intercept");
  h.intercept = intercept != h.tensors.tensors.end();
  if (h.intercept && (intercept->second.type != "F32" || intercept->second.shape != std::vector{h.classes}))
    throw file_error(path, 0, "its intercept is not a float32 tensor with one entry per class", kNotOurs);
  const auto context = h.tensors.tensors.find("context");
  if (context != h.tensors.tensors.end()) {
    const std::vector<std::uint64_t>& shape = context->second.shape;
    if (context->second.type != "F32" || shape.size() != 2 || shape[1] != h.columns || !h.embedding)
      throw file_error(path, 0, fmt::format("its context is not a float32 tensor with {} columns", h.columns),
                       kNotOurs);
    h.context_rows = shape[0];
  }
  if (h.tensors.tensors.size() !=
      1U + (h.intercept ? 1U : 0U) + (h.embedding ? 1U : 0U) + (h.context_rows > 0 ? 1U : 0U))
    throw file_error(path, 0, "it holds tensors besides weight, intercept, embedding and context", kNotOurs);
  OptionTable table;
  h.preprocess.describe(table);
  try {
    table.from_json(field(path, h.metadata, "preprocessing", Type::object));
    h.preprocess.check();
  } catch (const UserError& error) {
    throw file_error(path, 0, fmt::format("its preprocessing is wrong ({})", error.what()), kNotOurs);
  }
  field(path, h.metadata, "method", Type::string);
  check_optional(path, h.metadata, "truemax_version", Type::string);
  check_optional(path, h.metadata, "options", Type::object);
  check_optional(path, h.metadata, "data", Type::object);
  if (h.metadata.contains("data")) check_optional(path, h.metadata["data"], "format", Type::string);
  const auto& features = field(path, h.metadata, "features", Type::object);
  field(path, features, "file_features", Type::number_unsigned);
  field(path, features, "declared", Type::boolean);
  h.words = names_of(path, field(path, features, "words", Type::array), "words");
  h.ngram_buckets = read_bucket_steps(path, features, h.preprocess);
  if (h.words.empty() ? !h.ngram_buckets.empty() : h.words.size() + h.ngram_buckets.size() != h.features)
    throw file_error(path, 0,
                     fmt::format("it names {} words and {} buckets of n-grams for {} features",
                                 h.words.size(), h.ngram_buckets.size(), h.features),
                     kNotOurs);
  check_optional(path, features, "hashed_words", Type::boolean);
  const std::uint64_t buckets = h.preprocess.hash_features;
  if (buckets > 0 && (buckets != h.features || !h.words.empty()))
    throw file_error(path, 0,
                     fmt::format("it hashes features into {} buckets, but has {} features and {} words",
                                 buckets, h.features, h.words.size()),
                     kNotOurs);
  if (buckets == 0 && features.value("hashed_words", false))
    throw file_error(path, 0, "it says that words are hashed, but not into how many buckets", kNotOurs);
  read_encoder(path, features, h);
  h.checksums = read_checksums(path, h);  // last, because the checks above have more precise messages
  return h;
}

}  // namespace truemax
