#include "model/model_header.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "data/dataset.hpp"
#include "model/bucket_steps.hpp"
#include "model/metadata.hpp"
#include "model/model_set.hpp"

namespace truemax {
namespace {

void require_distinct(const std::string& path, const std::vector<std::string>& names, const char* what) {
  if (const auto twice = NameIndex().make(names))
    throw file_error(path, 0, fmt::format("{} appears twice in '{}'", in_quotes(names[*twice]), what),
                     kNotOurs);
}

std::vector<std::string> names_of(const std::string& path, const nlohmann::json& list, const char* what) {
  std::vector<std::string> names;
  names.reserve(list.size());
  for (const auto& name : list) {
    if (!name.is_string())
      throw file_error(path, 0, fmt::format("a name in '{}' is not text", what), kNotOurs);
    names.push_back(name.get<std::string>());
  }
  require_distinct(path, names, what);
  return names;
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

// Everything that the tensors and the metadata must agree on.
void check_contents(const std::string& path, CheckedHeader& h) {
  using Type = nlohmann::json::value_t;
  if (h.classes < 2 || h.classes >= kUnseenClass || h.columns < 1 || h.columns > 0xFFFFFFFEu)
    throw file_error(path, 0, fmt::format("its weight is {} x {}", h.classes, h.columns), kNotOurs);
  if (h.features < 1 || h.features > 0xFFFFFFFEu)
    throw file_error(path, 0, fmt::format("its embedding is {} x {}", h.features, h.columns), kNotOurs);
  if (h.counts.size() != h.classes)
    throw file_error(path, 0, "class_counts and classes differ in length", kNotOurs);
  require_distinct(path, h.names, "classes");
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
}

}  // namespace

CheckedHeader read_checked_header(const std::string& path) {
  const std::string index = index_of_set(path);
  CheckedHeader h;
  if (!index.empty()) {
    read_set(index, h);
    check_contents(index, h);
    return h;
  }
  ModelPart& part = h.parts.emplace_back();
  part.path = path;
  part.file = read_safetensors_header(path);
  LongLists lists;
  h.metadata = parse_metadata(path, metadata_text(path, part.file), lists);
  take_classes(path, h.metadata, std::move(lists), h);
  read_shapes(part, true, h);
  h.classes = part.rows;
  check_contents(path, h);
  // Last, because the checks above have more precise messages.
  part.checksums = read_checksums(path, part, h.metadata);
  part.file.metadata.clear();  // it may name millions of classes
  return h;
}

std::uint64_t header_checksum(const CheckedHeader& h) {
  std::uint64_t sum = xxh64(h.metadata.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  for (const std::string& name : h.names) sum = xxh64(name, sum);
  const auto add = [&](const auto* values, std::size_t count) {
    sum = xxh64({reinterpret_cast<const char*>(values), count * sizeof *values}, sum);
  };
  add(h.counts.data(), h.counts.size());
  for (const ModelPart& part : h.parts) {
    add(&part.rows, 1);
    if (part.checksums) add(&part.checksums->weight, 1);
  }
  return sum;
}

}  // namespace truemax
