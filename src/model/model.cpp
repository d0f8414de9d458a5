#include "model/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <unordered_set>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "model/bucket_steps.hpp"
#include "model/safetensors.hpp"
#include "model/tensor_rows.hpp"
#include "truemax/version.hpp"

namespace truemax {
namespace {

constexpr const char* kNotOurs = "this is not a truemax model: train one with 'truemax train'";
// The key of the metadata's own checksum; those of the tensors are in the metadata, as `checksums`.
constexpr const char* kMetadataChecksum = "truemax_checksum";

// The checksums in a file; older files have none.
struct Checksums {
  std::uint64_t weight = 0, intercept = 0, embedding = 0, context = 0;
};

nlohmann::json metadata_of(const Model& model, const std::vector<ClassId>& order) {
  nlohmann::json classes = nlohmann::json::array(), counts = nlohmann::json::array();
  for (const ClassId k : order) {
    classes.push_back(model.classes->name(k));
    counts.push_back(model.classes->count(k));
  }
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
  return {{"format_version", kModelVersion},  {"truemax_version", kVersion},
          {"classes", std::move(classes)},    {"class_counts", std::move(counts)},
          {"preprocessing", table.to_json()}, {"method", model.method},
          {"options", model.options},         {"data", model.data},
          {"features", std::move(features)}};
}

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

// The contents of a header, checked for consistency; the tensors are not read.
struct CheckedHeader {
  SafetensorsHeader tensors;
  nlohmann::json metadata;
  std::vector<std::string> names, words;
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

// A file must have both the metadata's own checksum (stored outside the metadata) and `checksums` within, or
// neither: a file that lost one of them must not pass for an old file.
std::optional<Checksums> read_checksums(const std::string& path, const CheckedHeader& h) {
  const auto own = h.tensors.metadata.find(kMetadataChecksum);
  const bool has_own = own != h.tensors.metadata.end();
  if (!has_own && !h.metadata.contains("checksums")) return std::nullopt;
  const std::string& text = h.tensors.metadata.at("truemax");
  if (!has_own || parse_checksum(own->second) != xxh64(text)) throw damaged(path, "the metadata");
  const auto& sums = field(path, h.metadata, "checksums", nlohmann::json::value_t::object);
  const auto sum_of = [&](const char* tensor) {
    const auto sum =
        parse_checksum(field(path, sums, tensor, nlohmann::json::value_t::string).get<std::string>());
    if (!sum) throw damaged(path, "the metadata");
    return *sum;
  };
  return Checksums{sum_of("weight"), h.intercept ? sum_of("intercept") : 0,
                   h.embedding ? sum_of("embedding") : 0, h.context_rows > 0 ? sum_of("context") : 0};
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
  for (const auto& [known, kind] : kEncoderNames)
    if (name == known && reads_words(kind)) h.encoder = kind;
  h.context = field(path, features, "context", Type::number_unsigned).get<std::uint64_t>();
  h.layers = field(path, features, "layers", Type::number_unsigned).get<std::uint64_t>();
  if (h.encoder == EncoderKind::linear || h.context < 1 || h.context > kMostPlaces || h.layers > 1)
    throw file_error(
        path, 0,
        fmt::format("its encoder is {} with context {} and {} layers", in_quotes(name), h.context, h.layers),
        kNotOurs);
  FeatureSpace space;
  space.encoder = h.encoder, space.context = h.context;
  const std::uint64_t rows = h.layers > 0 ? space.width() * h.columns + 1 : space.width();
  if (h.context_rows != rows || h.features != h.classes)
    throw file_error(path, 0,
                     fmt::format("its context has {} rows instead of {}, or its words are not its classes",
                                 h.context_rows, rows),
                     kNotOurs);
}

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

std::optional<std::uint64_t> checksum_of(const CheckedHeader& h, std::uint64_t Checksums::*tensor) {
  return h.checksums ? std::optional(*h.checksums.*tensor) : std::nullopt;
}

// Block by block, so that a cache line of W is written once, not once per class.
void read_weights(const std::string& path, CheckedHeader& h, std::span<const ClassId> order,
                  std::size_t threads, Weights& weights) {
  const std::uint64_t columns = h.columns;
  std::vector<std::uint64_t> row_of(h.classes);
  for (std::uint64_t r = 0; r < h.classes; ++r) row_of[order[r]] = r;
  TensorRows tensor(path, h.tensors.tensors["weight"].begin, h.checksums.has_value());
  constexpr std::size_t kBlocks = 8;  // per chunk
  parallel_for((weights.blocks() + kBlocks - 1) / kBlocks, threads, [&](std::size_t chunk) {
    TensorRows::Reader reader(tensor);
    std::vector<float> rows(kLanes * columns);
    for (std::size_t b = chunk * kBlocks; b < std::min(weights.blocks(), (chunk + 1) * kBlocks); ++b) {
      const std::size_t lanes = std::min(kLanes, weights.classes() - b * kLanes);
      for (std::size_t lane = 0; lane < lanes; ++lane)
        reader.read(row_of[b * kLanes + lane], std::span(rows).subspan(lane * columns, columns));
      weights.set_block(b, rows);
    }
  });
  tensor.require("weight", checksum_of(h, &Checksums::weight),
                 [&](std::uint64_t r) { return "the weight of class " + in_quotes(h.names[r]); });
}

// `embedding` or `context`.
void read_table(const std::string& path, CheckedHeader& h, const char* name, std::uint64_t Checksums::*sum,
                std::size_t threads, Embedding& out) {
  TensorRows tensor(path, h.tensors.tensors[name].begin, h.checksums.has_value());
  constexpr std::size_t kRows = 256;  // per chunk
  parallel_for((out.rows + kRows - 1) / kRows, threads, [&](std::size_t chunk) {
    TensorRows::Reader reader(tensor);
    for (std::size_t r = chunk * kRows; r < std::min(out.rows, (chunk + 1) * kRows); ++r)
      reader.read(r, {out.row(r), out.columns});
  });
  tensor.require(name, checksum_of(h, sum),
                 [&](std::uint64_t r) { return fmt::format("row {} of the {}", r, name); });
}

void read_intercept(const std::string& path, CheckedHeader& h, std::span<const ClassId> order,
                    Weights& weights) {
  std::vector<float> intercept(h.classes);
  TensorRows tensor(path, h.tensors.tensors["intercept"].begin, h.checksums.has_value());
  TensorRows::Reader(tensor).read(0, intercept);
  tensor.require("intercept", checksum_of(h, &Checksums::intercept),
                 [](std::uint64_t) { return "the intercept"; });
  for (std::uint64_t r = 0; r < h.classes; ++r) weights.intercept()[order[r]] = intercept[r];
}

}  // namespace

DataView Model::rows_of(const DataView& rows) const {
  return encoder.empty() ? rows : rows.encoded(make_row_encoder(space->encoder, encoder));
}

std::uint64_t model_bytes(std::uint64_t classes, std::uint64_t features, bool with_intercept,
                          std::uint64_t hidden) {
  const std::uint64_t columns = hidden > 0 ? hidden : features;
  return sizeof(float) * (classes * (columns + (with_intercept ? 1 : 0)) + hidden * features);
}

void save_model(const Model& model, const std::string& path) {
  const std::uint64_t classes = model.weights.classes(), features = model.weights.features();
  const std::vector<ClassId> order = model.classes->by_name();
  std::vector<NewTensor> tensors{{"weight", {classes, features}}};
  if (model.weights.has_intercept()) tensors.push_back({"intercept", {classes}});
  std::vector<std::pair<const Embedding*, std::uint64_t Checksums::*>> tables;
  const auto add_table = [&](const char* name, const Embedding& table, std::uint64_t Checksums::*sum) {
    if (table.empty()) return;
    tensors.push_back({name, {table.rows, table.columns}});
    tables.push_back({&table, sum});
  };
  add_table("embedding", model.encoder.features, &Checksums::embedding);
  add_table("context", model.encoder.mixing, &Checksums::context);
  nlohmann::json metadata = metadata_of(model, order);
  const auto header_with = [&](const Checksums& sums) {
    nlohmann::json& of = metadata["checksums"] = {{"weight", checksum_text(sums.weight)}};
    if (model.weights.has_intercept()) of["intercept"] = checksum_text(sums.intercept);
    for (std::size_t t = 0; t < tables.size(); ++t)
      of[tensors[tensors.size() - tables.size() + t].name] = checksum_text(sums.*tables[t].second);
    const std::string text = metadata.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return make_safetensors_header(tensors,
                                   {{"truemax", text}, {kMetadataChecksum, checksum_text(xxh64(text))}});
  };
  // The checksums are known only at the end, but do not change the length of the header.
  const std::uint64_t begin = header_with({}).size();
  Checksums sums;

  AtomicFile file(path);
  const std::uint64_t intercepts = model.weights.has_intercept() ? classes : 0;
  file.reserve(begin +
               sizeof(float) * (classes * features + intercepts + model.encoder.features.numbers.size() +
                                model.encoder.mixing.numbers.size()));
  std::vector<std::uint64_t> place(classes);
  for (std::size_t row = 0; row < order.size(); ++row) place[order[row]] = row;
  std::vector<float> row(features);
  for (ClassId k = 0; k < classes; ++k) {  // in memory order: a block is read while it is in the cache
    model.weights.copy_class(k, row);
    sums.weight += row_checksum(row, place[k]);
    file.write_at(begin + place[k] * features * sizeof(float),
                  {reinterpret_cast<const char*>(row.data()), features * sizeof(float)});
  }
  if (model.weights.has_intercept()) {
    std::vector<float> intercept(classes);
    for (ClassId k = 0; k < classes; ++k) intercept[place[k]] = model.weights.intercept()[k];
    sums.intercept = row_checksum(intercept, 0);
    file.write_at(begin + classes * features * sizeof(float),
                  {reinterpret_cast<const char*>(intercept.data()), classes * sizeof(float)});
  }
  std::uint64_t at = begin + sizeof(float) * (classes * features + intercepts);
  for (const auto& [table, sum] : tables) {
    for (std::size_t r = 0; r < table->rows; ++r)
      sums.*sum += row_checksum({table->row(r), table->columns}, r);
    const std::uint64_t bytes = table->numbers.size() * sizeof(float);
    file.write_at(at, {reinterpret_cast<const char*>(table->numbers.data()), bytes});
    at += bytes;
  }
  file.write_at(0, header_with(sums));
  file.commit();
}

Model load_model(const std::string& path, std::uint64_t memory_limit, std::size_t threads) {
  CheckedHeader h = read_checked_header(path);
  std::uint64_t needed = Weights::bytes_needed(h.classes, h.columns);
  const std::uint64_t vectors = h.embedding ? (h.features + h.context_rows) * h.columns * sizeof(float) : 0;
  if (__builtin_add_overflow(needed, vectors, &needed)) needed = std::numeric_limits<std::uint64_t>::max();
  if (needed > memory_limit && h.embedding)
    throw file_error(
        path, 0,
        fmt::format("not enough memory: the model needs {} (({} classes + {} features) x {} "
                    "learnt features x 4 bytes), {} available",
                    size_text(needed), h.classes, h.features, h.columns, size_text(memory_limit)),
        "use a larger machine, train a model with a smaller --hidden, or raise --memory-limit "
        "to try anyway");
  if (needed > memory_limit) {
    const std::uint64_t buckets = Weights::features_that_fit(h.classes, memory_limit);
    const std::string fits = buckets > 0 ? fmt::format(" (--hash-features {} would fit)", buckets) : "";
    throw file_error(
        path, 0,
        fmt::format(
            "not enough memory: the model needs {} ({} classes x {} features x 4 bytes), {} available",
            size_text(needed), h.classes, h.features, size_text(memory_limit)),
        fmt::format("use a larger machine, train a model with fewer features{} or fewer classes, or raise "
                    "--memory-limit to try anyway",
                    fits));
  }
  Model model;
  const auto counts = h.metadata["class_counts"].get<std::vector<double>>();
  model.classes = std::make_shared<ClassList>(h.names, counts);
  auto space = std::make_shared<FeatureSpace>();
  const auto& features = h.metadata["features"];
  space->file_features = features["file_features"].get<std::uint64_t>();
  space->features = static_cast<FeatureId>(h.features);
  space->declared = features["declared"].get<bool>();
  space->words = std::move(h.words);
  space->buckets = std::move(h.ngram_buckets);
  space->hashed_words = features.value("hashed_words", false);
  space->encoder = h.encoder, space->context = h.context;
  model.space = space;
  model.preprocess = h.preprocess;
  model.method = h.metadata["method"].get<std::string>();
  model.options = h.metadata.value("options", nlohmann::json::object());
  model.data = h.metadata.value("data", nlohmann::json::object());

  if (h.embedding) {
    model.encoder.features = Embedding(h.features, h.columns);
    read_table(path, h, "embedding", &Checksums::embedding, threads, model.encoder.features);
  }
  if (h.context_rows > 0) {
    model.encoder.mixing = Embedding(h.context_rows, h.columns);
    read_table(path, h, "context", &Checksums::context, threads, model.encoder.mixing);
  }
  model.encoder.layers = h.layers;
  model.weights = Weights(h.classes, h.columns, h.intercept);
  std::vector<ClassId> order(h.classes);  // the class of each row of the file
  for (std::uint64_t r = 0; r < h.classes; ++r) order[r] = model.classes->find(h.names[r]);
  read_weights(path, h, order, threads, model.weights);
  if (h.intercept) read_intercept(path, h, order, model.weights);
  return model;
}

nlohmann::json read_model_metadata(const std::string& path) {
  CheckedHeader h = read_checked_header(path);
  h.metadata["weight_shape"] = {h.classes, h.columns};
  h.metadata["features_used"] = h.features;
  h.metadata["hidden"] = h.embedding ? h.columns : 0;
  h.metadata["intercept"] = h.intercept;
  return h.metadata;
}

}  // namespace truemax
