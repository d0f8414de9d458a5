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

std::size_t mixing_rows(const Recipe& recipe, EncoderKind kind, std::size_t width) {
  if (!mixes_places(kind)) return 0;
  return recipe.layers > 0 ? width * recipe.hidden + 1 : width;
}
std::uint64_t mixing_rows(const Facts& facts) {
  return mixing_rows(facts.recipe, facts.problem.encoder, facts.problem.width);
}

bool shares_vectors(const Recipe& recipe, bool triples, bool alone) {
  return !alone && (has_tied_vectors(recipe, triples) || recipe.shard_embedding);
}
bool shares_vectors(const Facts& facts) {
  return shares_vectors(facts.recipe, facts.problem.triples, facts.machine.alone());
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
std::shared_ptr<const BlockShare> vector_share(const DataView& data, const Recipe& recipe) {
  const bool triples = data.space->of_triples();
  if (!shares_vectors(recipe, triples, ranks().alone())) return nullptr;
  std::vector<double> mass(data.space->features, 0.0);
  if (has_tied_vectors(recipe, triples))
    for (ClassId k = 0; k < data.classes->size(); ++k) mass[k] = data.classes->count(k);
  return std::make_shared<const BlockShare>(mass, ranks().rank(), ranks().size());
}

std::unique_ptr<Encoder> make_encoder(const DataView& data, const Recipe& recipe) {
  if (data.space->of_triples()) return std::make_unique<ComplexEncoder>(data, recipe);
  if (!of_places(data)) return std::make_unique<BagEncoder>(data, recipe);
  if (recipe.layers > 0) return std::make_unique<LayerEncoder>(data, recipe);
  return std::make_unique<ContextEncoder>(data, recipe);
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

EncoderTables start_tables(const DataView& data, const Recipe& recipe) {
  EncoderTables tables;
  const std::size_t h = recipe.hidden, threads = recipe.thread_count();
  tables.share = vector_share(data, recipe);
  tables.features = Embedding(tables.share ? tables.share->classes() : data.space->features, h, threads);
  // Triples are tied too, but their x is a product of two vectors.
  fill_normal(tables.features, recipe.tied ? kTiedDeviation : kDeviation, recipe.seed, 0, threads,
              tables.share.get());
  if (!of_places(data)) return tables;
  tables.mixing = Embedding(mixing_rows(recipe, data.space->encoder, data.space->width()), h);
  tables.layers = recipe.layers;
  if (recipe.layers == 0) {
    start_factors(data.space->encoder, tables.mixing);
    return tables;
  }
  const std::size_t wide = tables.mixing.rows - 1;
  fill_normal(tables.mixing, 1 / std::sqrt(3.0 * static_cast<double>(wide)), recipe.seed, 1, threads);
  std::fill_n(tables.mixing.row(wide), h, 0.0F);
  return tables;
}

namespace {

// Triples: the gradients of entity and relation. With a layer: the words' vectors, their gradients and
// dropout, and the gradient of the layer.
std::uint64_t gradient_bytes(const Facts& facts, std::uint64_t rows) {
  const Recipe& recipe = facts.recipe;
  const Problem& problem = facts.problem;
  if (problem.triples) return 2 * sizeof(float) * rows * recipe.hidden;
  if (!mixes_places(problem.encoder)) return 0;
  const std::uint64_t layer = sizeof(float) * recipe.hidden * mixing_rows(facts);
  if (recipe.layers == 0) return 2 * layer;
  return layer + rows * recipe.hidden * (problem.width * (2 * sizeof(float) + 1) + sizeof(float));
}

}  // namespace

std::uint64_t encoder_step_bytes(const Facts& facts, std::uint64_t rows) {
  const Problem& problem = facts.problem;
  const double uses = static_cast<double>(rows) * problem.nonzeros_per_row;
  const std::uint64_t bytes =
      gradient_bytes(facts, rows) + VectorUses::bytes(static_cast<std::uint64_t>(uses));
  if (!shares_vectors(facts)) return bytes;
  return bytes + SharedVectors::bytes(problem.encoder, problem.features, static_cast<std::uint64_t>(uses),
                                      facts.recipe.hidden);
}

std::uint64_t most_vectors(const Facts& facts) {
  const Problem& problem = facts.problem;
  return shares_vectors(facts) ? BlockShare::most_classes(problem.features, facts.machine.ranks)
                               : problem.features;
}

std::uint64_t table_bytes(const Facts& facts) {
  return sizeof(float) * facts.recipe.hidden * (most_vectors(facts) + mixing_rows(facts));
}

}  // namespace truemax
