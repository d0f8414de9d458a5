// Loading a model: all of it, the classes of this rank, or all but its weights.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "model/model.hpp"
#include "model/model_header.hpp"
#include "model/tensor_rows.hpp"
#include "model/weights_on_disk.hpp"
#include "ranks/together.hpp"

namespace truemax {
namespace {

std::optional<std::uint64_t> checksum_of(const ModelPart& part, std::uint64_t Checksums::*tensor) {
  return part.checksums ? std::optional(*part.checksums.*tensor) : std::nullopt;
}

// Of rows that the ranks have read between them.
std::uint64_t sum_over_ranks(std::uint64_t sum) {
  std::vector<std::uint64_t> all(ranks().size());
  ranks().gather_everywhere(std::as_bytes(std::span(&sum, 1)), std::as_writable_bytes(std::span(all)));
  sum = 0;
  for (const std::uint64_t part : all) sum += part;
  return sum;
}

// By class of the weights: its row among those of all parts.
std::vector<std::uint32_t> rows_of(std::span<const ClassId> order, const Weights& weights) {
  std::vector<std::uint32_t> row_of(weights.classes());
  for (std::uint32_t r = 0; r < order.size(); ++r)
    if (const auto k = own_number(weights, order[r])) row_of[*k] = r;
  return row_of;
}

// Block by block, so that a cache line of W is written once, not once per class.
void read_weights(const CheckedHeader& h, const ClassList& classes, std::span<const ClassId> order,
                  std::size_t threads, Weights& weights) {
  const std::uint64_t columns = h.columns;
  const std::vector<std::uint32_t> row_of = rows_of(order, weights);
  std::vector<std::unique_ptr<TensorRows>> tensors;
  std::vector<std::uint64_t> first;
  for (const ModelPart& part : h.parts) {
    tensors.push_back(std::make_unique<TensorRows>(
        part.path, part.file.tensors.at("weight" + part.ending).begin, part.checksums.has_value()));
    first.push_back(part.first);
  }
  constexpr std::size_t kBlocks = 8;  // per chunk
  parallel_for((weights.blocks() + kBlocks - 1) / kBlocks, threads, [&](std::size_t chunk) {
    std::vector<std::unique_ptr<TensorRows::Reader>> readers(tensors.size());
    std::vector<float> rows(kLanes * columns);
    for (std::size_t b = chunk * kBlocks; b < std::min(weights.blocks(), (chunk + 1) * kBlocks); ++b) {
      const std::size_t lanes = std::min(kLanes, weights.classes() - b * kLanes);
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const std::uint64_t row = row_of[b * kLanes + lane];
        const auto part =
            static_cast<std::size_t>(std::upper_bound(first.begin(), first.end(), row) - first.begin()) - 1;
        if (readers[part] == nullptr) readers[part] = std::make_unique<TensorRows::Reader>(*tensors[part]);
        readers[part]->read(row - first[part], std::span(rows).subspan(lane * columns, columns));
      }
      weights.set_block(b, rows);
    }
  });
  for (std::size_t p = 0; p < tensors.size(); ++p) {
    together(ranks(), [&] {
      tensors[p]->require_rows([&](std::uint64_t r) {
        return "the weight of class " + in_quotes(classes.name(order[first[p] + r]));
      });
    });
    tensors[p]->require_sum("weight", checksum_of(h.parts[p], &Checksums::weight),
                            sum_over_ranks(tensors[p]->sum()));
  }
}

// `embedding` or `context`.
void read_table(const ModelPart& part, const char* name, std::uint64_t Checksums::*sum, std::size_t threads,
                Embedding& out) {
  TensorRows tensor(part.path, part.file.tensors.at(name).begin, part.checksums.has_value());
  constexpr std::size_t kRows = 256;  // per chunk
  parallel_for((out.rows + kRows - 1) / kRows, threads, [&](std::size_t chunk) {
    TensorRows::Reader reader(tensor);
    for (std::size_t r = chunk * kRows; r < std::min(out.rows, (chunk + 1) * kRows); ++r)
      reader.read(r, {out.row(r), out.columns});
  });
  together(ranks(), [&] {
    tensor.require_rows([&](std::uint64_t r) { return fmt::format("row {} of the {}", r, name); });
    tensor.require_sum(name, checksum_of(part, sum), tensor.sum());
  });
}

void read_intercept(const ModelPart& part, std::span<const ClassId> order, Weights& weights) {
  std::vector<float> intercept(part.rows);
  TensorRows tensor(part.path, part.file.tensors.at("intercept" + part.ending).begin,
                    part.checksums.has_value());
  TensorRows::Reader(tensor).read(0, intercept);
  together(ranks(), [&] {
    tensor.require_rows([](std::uint64_t) { return "the intercept"; });
    tensor.require_sum("intercept", checksum_of(part, &Checksums::intercept), tensor.sum());
  });
  for (std::uint64_t r = 0; r < part.rows; ++r)
    if (const auto k = own_number(weights, order[part.first + r])) weights.intercept()[*k] = intercept[r];
}

void require_memory(const std::string& path, const CheckedHeader& h, std::uint64_t memory_limit) {
  const std::size_t size = ranks().size();
  const std::string each = size > 1 ? fmt::format(" on each of {} ranks", size) : "";
  const char* const larger = size > 1 ? "start more ranks" : "use a larger machine";
  const std::uint64_t classes = BlockShare::most_classes(h.classes, size);
  std::uint64_t needed = Weights::bytes_needed(classes, h.columns);
  const std::uint64_t vectors = h.embedding ? (h.features + h.context_rows) * h.columns * sizeof(float) : 0;
  if (__builtin_add_overflow(needed, vectors, &needed)) needed = std::numeric_limits<std::uint64_t>::max();
  if (needed <= memory_limit) return;
  if (h.embedding)
    throw file_error(
        path, 0,
        fmt::format("not enough memory: the model needs {}{} (({} classes + {} features) x {} "
                    "learnt features x 4 bytes), {} available",
                    size_text(needed), each, classes, h.features, h.columns, size_text(memory_limit)),
        fmt::format("{}, train a model with a smaller --hidden, or raise --memory-limit to try anyway",
                    larger));
  const std::uint64_t buckets = Weights::features_that_fit(classes, memory_limit);
  const std::string fits = buckets > 0 ? fmt::format(" (--hash-features {} would fit)", buckets) : "";
  throw file_error(
      path, 0,
      fmt::format(
          "not enough memory: the model needs {}{} ({} classes x {} features x 4 bytes), {} available",
          size_text(needed), each, classes, h.features, size_text(memory_limit)),
      fmt::format("{}, train a model with fewer features{} or fewer classes, or raise "
                  "--memory-limit to try anyway",
                  larger, fits));
}

// A machine that sees another file would have other classes.
void require_same_model(const std::string& path, const CheckedHeader& h) {
  const std::uint64_t own = header_checksum(h);
  const std::uint64_t there = ranks().broadcast_value(own);
  together(ranks(), [&] {
    if (own != there)
      throw file_error(path, 0, "the ranks see different files of this name",
                       "put the model where all machines see it, or copy it to all of them");
  });
}

// Header and names of a model, and its tables of learnt features.
Model load_all_but_weights(CheckedHeader& h, std::size_t threads, std::vector<ClassId>& order) {
  Model model;
  model.classes = std::make_shared<ClassList>(std::move(h.names), std::move(h.counts), &order);
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

  const ModelPart& with_tables = h.parts.front();
  if (h.embedding) {
    model.encoder.features = Embedding(h.features, h.columns);
    read_table(with_tables, "embedding", &Checksums::embedding, threads, model.encoder.features);
  }
  if (h.context_rows > 0) {
    model.encoder.mixing = Embedding(h.context_rows, h.columns);
    read_table(with_tables, "context", &Checksums::context, threads, model.encoder.mixing);
  }
  model.encoder.layers = h.layers;
  return model;
}

}  // namespace

Model load_model(const std::string& path, std::uint64_t memory_limit, std::size_t threads) {
  CheckedHeader h;
  together(ranks(), [&] {
    h = read_checked_header(path);
    require_memory(path, h, memory_limit);
  });
  require_same_model(path, h);
  std::vector<ClassId> order;  // the class of each row
  Model model = load_all_but_weights(h, threads, order);
  const auto share = share_of(*model.classes);
  model.weights = Weights(share ? share->classes() : h.classes, h.columns, h.intercept);
  model.weights.set_share(share);
  read_weights(h, *model.classes, order, threads, model.weights);
  if (h.intercept)
    for (const ModelPart& part : h.parts) read_intercept(part, order, model.weights);
  return model;
}

ModelOnDisk open_model(const std::string& path, std::uint64_t memory_limit, std::size_t threads) {
  CheckedHeader h = read_checked_header(path);
  const std::uint64_t tables = (h.features + h.context_rows) * h.columns * sizeof(float);
  if (h.embedding && tables > memory_limit)
    throw file_error(path, 0,
                     fmt::format("not enough memory: the features' vectors need {}, {} available",
                                 size_text(tables), size_text(memory_limit)),
                     "use a larger machine, or raise --memory-limit to try anyway");
  std::vector<ClassId> order;
  ModelOnDisk out;
  out.model = load_all_but_weights(h, threads, order);
  const std::vector<std::uint32_t>& rank = out.model.classes->name_ranks();
  out.weights = std::make_unique<WeightsOnDisk>(h, *out.model.classes, std::move(order), rank, threads);
  return out;
}

nlohmann::json read_model_metadata(const std::string& path) {
  CheckedHeader h = read_checked_header(path);
  h.metadata["classes"] = std::move(h.names);
  h.metadata["class_counts"] = std::move(h.counts);
  h.metadata["weight_shape"] = {h.classes, h.columns};
  h.metadata["features_used"] = h.features;
  h.metadata["hidden"] = h.embedding ? h.columns : 0;
  h.metadata["intercept"] = h.intercept;
  return h.metadata;
}

}  // namespace truemax
