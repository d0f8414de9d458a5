#include "train/problem.hpp"

#include <algorithm>
#include <cmath>

#include "train/feature_units.hpp"
#include "train/steps_beside.hpp"
#include "train/visit_order.hpp"
#include "weights/kernels.hpp"
#include "weights/pairs.hpp"

namespace truemax {
namespace {

// The step of a row is multiplied by its weight.
double mean_weight(const DataView& data) {
  if (!data.has_weights()) return 1;
  double sum = 0;
  for (const ExampleId i : data.examples()) sum += data.weight(i);
  return std::max(sum / static_cast<double>(data.size()), 1e-300);
}

}  // namespace

std::vector<double> label_mass(const DataView& data) {
  std::vector<double> mass(data.classes->size(), 0.0);
  for (const ExampleId i : data.examples()) mass[data.label(i)] += data.weight(i);
  return mass;
}

std::uint64_t Problem::blocks() const {
  return (classes + kBlockClasses - 1) / kBlockClasses;
}

Problem facts_of(const DataView& data) {
  Problem p;
  p.rows = data.row_count(), p.examples = data.size(), p.inputs = data.inputs();
  p.features = data.space->features, p.classes = data.classes->size();
  p.nonzeros_per_row = data.nonzeros_per_row();
  p.nonzeros = data.streamed() == nullptr
                   ? data.nonzeros()
                   : static_cast<std::uint64_t>(p.nonzeros_per_row * static_cast<double>(data.row_count()));
  p.shares_inputs = data.shares_inputs(), p.groups_inputs = !data.rows_of_inputs().empty();
  p.has_weights = data.has_weights(), p.has_example_weights = data.has_example_weights();
  p.hashed = !data.space->buckets.empty();
  p.encoder = data.space->encoder;
  p.triples = data.space->of_triples(), p.windows = data.is_text();
  p.width = data.space->width();
  if (const StreamedRows* s = data.streamed())
    p.stream = {s->blocks(), s->window_blocks(), s->buffer_bytes(), s->most_copied()};
  p.grouping_bytes = VisitOrder::grouping_bytes(data.rows_of_inputs());
  p.label_mass = std::make_shared<const std::vector<double>>(label_mass(data));
  return p;
}

Problem facts_of(const TrainSets& sets, bool normalized, const Wanted& wanted, std::size_t threads) {
  const DataView& data = sets.data;
  Problem p = facts_of(data);
  p.normalized = normalized;
  p.has_valid = sets.valid.has_value();
  p.valid_rows = sets.valid ? sets.valid->row_count() : 0,
  p.test_rows = sets.test ? sets.test->row_count() : 0;
  p.bytes = sets.bytes();
  if (wanted.norms || wanted.squares) {
    double sum = 0;
    bool fit = true;
    data.each_x([&](ExampleId /*i*/, const RowView& x) {
      const double square = squared_norm(x, false);
      sum += square;
      fit &= square == 0 || pairs_are_safe(square);
    });
    p.mean_square = std::max(sum / static_cast<double>(data.size()), kLeastNorm);
    p.squares_fit = fit;
  }
  if (wanted.norms) p.mean_weight = mean_weight(data);
  if (wanted.units) {
    const FeatureUnits units(data, threads);
    p.units_fit = {features_fit_beside(units, false), features_fit_beside(units, true)};
  }
  if (wanted.cosines) p.cosine = {mean_cosine(data, false), mean_cosine(data, true)};
  return p;
}

Problem of_other_rows(const Problem& all, const TrainSets& sets) {
  Problem p = facts_of(sets, all.normalized, {}, 1);
  p.mean_square = all.mean_square, p.mean_weight = all.mean_weight, p.squares_fit = all.squares_fit;
  p.units_fit = all.units_fit, p.cosine = all.cosine;
  return p;
}

}  // namespace truemax
