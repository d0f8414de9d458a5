#include "model/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "model/bucket_steps.hpp"
#include "model/model_header.hpp"
#include "model/safetensors.hpp"
#include "model/tensor_rows.hpp"
#include "truemax/version.hpp"

namespace truemax {
namespace {

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
  if (model.space->of_triples()) {
    features["encoder"] = "complex";
    features["relations"] = model.space->relations;
  }
  return {{"format_version", kModelVersion},  {"truemax_version", kVersion},
          {"classes", std::move(classes)},    {"class_counts", std::move(counts)},
          {"preprocessing", table.to_json()}, {"method", model.method},
          {"options", model.options},         {"data", model.data},
          {"features", std::move(features)}};
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

nlohmann::json model_metadata(const Model& model) {
  return metadata_of(model, model.classes->by_name());
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
  space->relations = std::move(h.relations);
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
