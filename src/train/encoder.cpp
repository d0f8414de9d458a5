#include "train/encoder.hpp"

#include <cmath>

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

std::unique_ptr<Encoder> make_encoder(const DataView& data, const TrainOptions& options) {
  if (data.space->of_triples()) return std::make_unique<ComplexEncoder>(data, options);
  if (!of_places(data)) return std::make_unique<BagEncoder>(data, options);
  if (options.layers > 0) return std::make_unique<LayerEncoder>(data, options);
  return std::make_unique<ContextEncoder>(data, options);
}

EncoderTables start_tables(const DataView& data, const TrainOptions& options) {
  EncoderTables tables;
  const std::size_t h = options.hidden, threads = options.thread_count();
  tables.features = Embedding(data.space->features, h, threads);
  // Triples are tied too, but their x is a product of two vectors.
  fill_normal(tables.features, options.tied ? kTiedDeviation : kDeviation, options.seed, 0, threads);
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

// Triples: the gradients of entity and relation. With a layer: the words' vectors, their gradients and
// dropout, and the gradient of the layer.
std::uint64_t encoder_step_bytes(const DataView& data, const TrainOptions& options, std::uint64_t rows) {
  if (data.space->of_triples()) return 2 * sizeof(float) * rows * options.hidden;
  if (!of_places(data)) return 0;
  const std::uint64_t layer = sizeof(float) * options.hidden * mixing_rows(data, options);
  if (options.layers == 0) return 2 * layer;
  return layer + rows * options.hidden * (data.space->width() * (2 * sizeof(float) + 1) + sizeof(float));
}

std::uint64_t table_bytes(const DataView& data, const TrainOptions& options) {
  return sizeof(float) * options.hidden * (data.space->features + mixing_rows(data, options));
}

}  // namespace truemax
