#include "train/encoder.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "ranks/ranks.hpp"
#include "train/vector_uses.hpp"

namespace truemax {
namespace {

constexpr double kDeviation = 0.1, kTiedDeviation = 0.05;  // of the first vectors

bool of_places(const DataView& data) {
  return mixes_places(data.space->encoder);
}

std::size_t mixing_rows(const DataView& data, const TrainOptions& options) {
  if (!of_places(data)) return 0;
  return options.layers > 0 ? data.space->width() * options.hidden + 1 : data.space->width();
}

bool shares_vectors(const DataView& data, const TrainOptions& options) {
  return !ranks().alone() && (has_tied_vectors(data, options) || options.shard_embedding);
}

// The nearest word counts most; cbow takes the mean of the words around the middle.
void start_factors(EncoderKind kind, Embedding& mixing) {
  const std::size_t width = mixing.rows;
  for (std::size_t p = 0; p < width; ++p) {
    double factor = 1 / (1 + 0.5 * static_cast<double>(width - 1 - p));
    if (kind == EncoderKind::cbow) factor = p == width / 2 ? 0 : 1 / static_cast<double>(width - 1);
    std::fill_n(mixing.row(p), mixing.columns, static_cast<float>(factor));
  }
}

}  // namespace

// Blocks of vectors are dealt out as those of classes are. With tied vectors, the first blocks must be
// those of the classes, with the same owners: vectors beyond the classes have no mass and come last.
std::shared_ptr<const BlockShare> vector_share(const DataView& data, const TrainOptions& options) {
  if (!shares_vectors(data, options)) return nullptr;
  std::vector<double> mass(data.space->features, 0.0);
  if (has_tied_vectors(data, options))
    for (ClassId k = 0; k < data.classes->size(); ++k) mass[k] = data.classes->count(k);
  return std::make_shared<const BlockShare>(mass, ranks().rank(), ranks().size());
}

std::unique_ptr<Encoder> make_encoder(const DataView& data, const TrainOptions& options) {
  if (data.space->of_triples()) return std::make_unique<ComplexEncoder>(data, options);
  if (!of_places(data)) return std::make_unique<BagEncoder>(data, options);
  if (options.layers > 0) return std::make_unique<LayerEncoder>(data, options);
  return std::make_unique<ContextEncoder>(data, options);
}

LargestBag largest_bag(const DataView& data) {
  LargestBag largest;
  if (data.space->of_triples() || of_places(data)) return largest;
  constexpr std::size_t kRows = 4096;  // at once
  Csr scratch;
  for (std::size_t first = 0; first < data.row_count();) {
    const RowSlice slice = data.slice(first, kRows, scratch);
    for (std::size_t r = 0; r < slice.rows(); ++r) {
      double sum = 0;
      for (const float v : slice.x().row(r).value) sum += std::abs(static_cast<double>(v));
      if (sum > largest.sum) largest = {sum, first + r};
    }
    first += slice.rows();
  }
  return largest;
}

void require_bags_in_float(const DataView& rows, const std::string& name) {
  const LargestBag largest = largest_bag(rows);
  if (!(largest.sum > static_cast<double>(std::numeric_limits<float>::max()))) return;
  throw UserError(
      fmt::format("{}: row {} of those that count: its values add up to {:.3g}, and learnt features hold at "
                  "most 3.4e38; scale the values down, or give --normalize l2 or --encoder linear",
                  name, largest.place + 1, largest.sum));
}

EncoderTables start_tables(const DataView& data, const TrainOptions& options) {
  EncoderTables tables;
  const std::size_t h = options.hidden, threads = options.thread_count();
  tables.share = vector_share(data, options);
  tables.features = Embedding(tables.share ? tables.share->classes() : data.space->features, h, threads);
  // Triples are tied too, but their x is a product of two vectors.
  fill_normal(tables.features, options.tied ? kTiedDeviation : kDeviation, options.seed, 0, threads,
              tables.share.get());
  if (!of_places(data)) return tables;
  tables.mixing = Embedding(mixing_rows(data, options), h);
  tables.layers = options.layers;
  if (options.layers == 0) {
    start_factors(data.space->encoder, tables.mixing);
    return tables;
  }
  const std::size_t wide = tables.mixing.rows - 1;
  fill_normal(tables.mixing, 1 / std::sqrt(3.0 * static_cast<double>(wide)), options.seed, 1, threads);
  std::fill_n(tables.mixing.row(wide), h, 0.0F);
  return tables;
}

namespace {

// Triples: the gradients of entity and relation. With a layer: the words' vectors, their gradients and
// dropout, and the gradient of the layer.
std::uint64_t gradient_bytes(const DataView& data, const TrainOptions& options, std::uint64_t rows) {
  if (data.space->of_triples()) return 2 * sizeof(float) * rows * options.hidden;
  if (!of_places(data)) return 0;
  const std::uint64_t layer = sizeof(float) * options.hidden * mixing_rows(data, options);
  if (options.layers == 0) return 2 * layer;
  return layer + rows * options.hidden * (data.space->width() * (2 * sizeof(float) + 1) + sizeof(float));
}

}  // namespace

std::uint64_t encoder_step_bytes(const DataView& data, const TrainOptions& options, std::uint64_t rows) {
  const double uses = static_cast<double>(rows) * data.nonzeros_per_row();
  const std::uint64_t bytes =
      gradient_bytes(data, options, rows) + VectorUses::bytes(static_cast<std::uint64_t>(uses));
  if (!shares_vectors(data, options)) return bytes;
  return bytes + SharedVectors::bytes(data.space->encoder, data.space->features,
                                      static_cast<std::uint64_t>(uses), options.hidden);
}

std::uint64_t most_vectors(const DataView& data, const TrainOptions& options) {
  return shares_vectors(data, options) ? BlockShare::most_classes(data.space->features, ranks().size())
                                       : data.space->features;
}

std::uint64_t table_bytes(const DataView& data, const TrainOptions& options) {
  return sizeof(float) * options.hidden * (most_vectors(data, options) + mixing_rows(data, options));
}

}  // namespace truemax
